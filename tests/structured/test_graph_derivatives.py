"""Derivatives through whole factor graphs, against finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from omegamax.structured import Budget, DependencyTree, FactorGraph, Pair, Sequence, Xor, sparsemap
from structured.test_factor_graph import parser_graph, random_graph

F64 = torch.float64


@pytest.mark.parametrize("seed", range(16))
def test_gradient_through_logic(seed: int):
    # Along random directions of all scores at once; a solve is good to 1e-14, so the difference is to 1e-8.
    graph = random_graph(seed)
    pairs = [p.additional for p in graph.fg._placements if p.additional is not None]
    graph.fg.solve()
    value = graph.u.value
    weights = torch.randn(value.shape, dtype=F64)
    inputs = [graph.scores, *pairs]
    grads = torch.autograd.grad((value * weights).sum(), inputs)
    directions = [torch.randn(x.shape, dtype=F64) for x in inputs]

    def moved(step: float) -> Tensor:
        with torch.no_grad():
            for x, d in zip(inputs, directions, strict=True):
                x.add_(step * d)
            graph.fg.solve(tol=1e-13)
            result = (graph.u.value * weights).sum()
            for x, d in zip(inputs, directions, strict=True):
                x.sub_(step * d)
        return result

    h = 1e-6
    wanted = (moved(h) - moved(-h)) / (2 * h)
    given = sum((g * d).sum() for g, d in zip(grads, directions, strict=True))
    assert abs(float(wanted - given)) < 1e-7


def tree_with_budgets(scores: Tensor) -> Tensor:
    fg, u = parser_graph(scores, 2, batch_dims=scores.dim() - 2)
    fg.solve(tol=1e-12)
    return u.value


def test_derivatives_of_a_parser_in_all_modes():
    scores = torch.randn(1, 4, 4, dtype=F64).requires_grad_()
    assert gradcheck(tree_with_budgets, scores, check_forward_ad=True, fast_mode=True)
    assert gradgradcheck(tree_with_budgets, scores, fast_mode=True)


def test_derivative_is_an_orthogonal_projection():
    scores = torch.randn(5, 5, dtype=F64)
    jacobian = torch.autograd.functional.jacobian(tree_with_budgets, scores).reshape(25, 25)
    torch.testing.assert_close(jacobian, jacobian.T, atol=1e-13, rtol=0)
    torch.testing.assert_close(jacobian @ jacobian, jacobian, atol=1e-13, rtol=0)
    assert jacobian.trace() > 0.5


def test_gradient_where_trees_tie():
    scores = 0.1 * torch.tensor([[0, 2, 1, 2], [0, 2, 0, 0], [2, 1, 0, 2], [0, 2, 0, 0]], dtype=F64)
    jacobian = torch.autograd.functional.jacobian(tree_with_budgets, scores).reshape(16, 16)
    step = 1e-5 * torch.eye(16, dtype=F64).reshape(16, 4, 4)
    slopes = (tree_with_budgets(scores + step) - tree_with_budgets(scores - step)).flatten(1) / 2e-5
    assert jacobian.trace() > 10.5
    torch.testing.assert_close(jacobian, slopes.T, atol=1e-8, rtol=0)


def test_gradient_to_transitions_and_pairs():
    def apply(scores: Tensor, transition: Tensor, coupling: Tensor) -> Tensor:
        fg = FactorGraph()
        u = fg.variable_from(scores)
        fg.add(Sequence(transition=transition), u)
        fg.add(Budget(u[:, 0], 1))
        fg.add(Pair(u[:-1, 1], ~u[1:, 2], coupling))
        fg.solve(tol=1e-12)
        return u.value

    inputs = tuple(torch.randn(shape, dtype=F64, requires_grad=True) for shape in ((3, 3), (3, 3), (2,)))
    assert gradcheck(apply, inputs, fast_mode=True)
    assert gradgradcheck(apply, inputs, fast_mode=True)


def test_gradient_of_one_factor_is_that_of_sparsemap():
    scores = torch.randn(3, 5, 5, dtype=F64, requires_grad=True)
    weights = torch.randn(3, 5, 5, dtype=F64)
    fg = FactorGraph()
    u = fg.variable_from(scores, batch_dims=1)
    fg.add(DependencyTree(u))
    fg.solve()
    (mine,) = torch.autograd.grad((u.value * weights).sum(), scores)
    (theirs,) = torch.autograd.grad((sparsemap(scores, DependencyTree()) * weights).sum(), scores)
    torch.testing.assert_close(mine, theirs, atol=1e-13, rtol=0)


def test_gradient_where_constraints_leave_no_freedom():
    # Exactly one of two and exactly one of the same two and a third: that one is 0, though no bound needs to hold it.
    scores = torch.randn(8, 3, dtype=F64, requires_grad=True)

    def apply(scores: Tensor) -> Tensor:
        fg = FactorGraph()
        u = fg.variable_from(scores, batch_dims=1)
        fg.add(Xor(u[:2]))
        fg.add(Xor(u))
        fg.add(Budget(u[2], 0))
        fg.solve()
        return u.value

    assert (apply(scores)[:, 2] == 0).all()
    assert gradcheck(apply, scores)


def test_forbidden_and_invalid_scores_get_no_gradient():
    scores = torch.randn(3, 4, 4, dtype=F64)
    scores[0, 1, 2] = -torch.inf
    scores[1, 0, 0] = torch.nan
    scores.requires_grad_()
    fg, u = parser_graph(scores, 2, batch_dims=1)
    fg.solve()
    weights = torch.randn(3, 4, 4, dtype=F64)
    (grad,) = torch.autograd.grad((u.value.nan_to_num() * weights).sum(), scores)
    assert grad.isfinite().all() and grad[0, 1, 2] == 0 and (grad[1] == 0).all()
    assert grad[0].abs().max() > 0 and grad[2].abs().max() > 0


def test_functional_transforms_and_compilation():
    scores = torch.randn(4, 4, dtype=F64)
    wanted = torch.autograd.functional.jacobian(tree_with_budgets, scores).reshape(16, 16)
    assert torch.equal(torch.compile(tree_with_budgets, backend="eager")(scores), tree_with_budgets(scores))
    direction = torch.randn(4, 4, dtype=F64)
    _, along = torch.func.jvp(tree_with_budgets, (scores,), (direction,))
    torch.testing.assert_close(along.flatten(), wanted @ direction.flatten(), atol=1e-13, rtol=0)
    grad = torch.func.grad(lambda s: (tree_with_budgets(s) * direction).sum())(scores)
    torch.testing.assert_close(grad.flatten(), wanted.T @ direction.flatten(), atol=1e-13, rtol=0)
    with pytest.raises(NotImplementedError, match=r"FactorGraph\.solve: not inside torch\.vmap.*batch_dims"):
        torch.func.vmap(tree_with_budgets)(scores.expand(2, 4, 4))


def test_no_derivatives_are_prepared_unless_wanted(monkeypatch):
    def refuse(*args):
        raise AssertionError("not wanted")

    monkeypatch.setattr("omegamax.structured._solver.Solver._face", refuse)
    scores = torch.randn(4, 4, requires_grad=True)
    with torch.no_grad():
        fg, u = parser_graph(scores, 2)
        fg.solve()
    assert not u.value.requires_grad


def test_training_lowers_a_loss():
    # Scores learn to fit a tree that keeps to the budget, here a chain; from zero, where all trees tie.
    scores = torch.zeros(5, 5, requires_grad=True)
    target = torch.diag(torch.ones(4), -1)
    target[0, 0] = 1
    losses = []
    for _ in range(10):
        fg, u = parser_graph(scores, 2)
        fg.solve()
        loss = (u.value - target).square().sum()
        losses.append(loss.item())
        (grad,) = torch.autograd.grad(loss, scores)
        scores = (scores - 0.5 * grad).detach().requires_grad_()
    assert losses[-1] < 1e-6 < losses[0]
