"""The loss of a factor graph against one quadratic program over the listed structures of all factors."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from omegamax import fenchel_young_loss
from omegamax.structured import Budget, DependencyTree, Factor, FactorGraph, Pair, Sequence, Xor, sparsemap_loss
from structured import listing
from structured.cases import CASES, F64, Case
from structured.joint import Joint, allowed
from structured.test_factor_graph import parser_graph, random_graph
from structured.test_loss import targets


def worth(joint: Joint, y: np.ndarray) -> float | None:
    """What additional scores give for 0/1 values of all variables, or None if a factor forbids them."""
    total = 0.0
    for index, negated, structures, scores in joint.factors:
        found = (structures == np.where(negated, 1 - y[index], y[index])).all(1)
        if not found.any():
            return None
        total += scores[found].max()
    return total


def definition(joint: Joint, y: np.ndarray) -> float:
    """The loss, by the program."""
    return joint.maximum()[1] - float(joint.scores @ y - y @ y / 2) - worth(joint, y)


@pytest.mark.parametrize("seed", range(16))
def test_logic_graph_has_the_loss_of_its_program_and_gradient_marginals_minus_target(seed: int):
    graph = random_graph(seed)
    pairs = [p.additional for p in graph.fg._placements if p.additional is not None]
    every = [np.array(y) for y in itertools.product((0.0, 1.0), repeat=9)]
    fitting = [y for y in every if worth(graph.joint, y) is not None]
    for y in fitting[:: max(1, len(fitting) // 4)]:
        loss = graph.fg.loss(torch.from_numpy(y))
        assert loss.item() == pytest.approx(definition(graph.joint, y), abs=1e-8)
        assert loss >= 0
        grads = torch.autograd.grad(loss, [graph.scores, *pairs])
        assert torch.equal(grads[0], graph.u.value.detach() - torch.from_numpy(y))
        for slope in grads[1:]:
            assert (slope.abs() <= 1 + 1e-12).all()


@pytest.mark.parametrize("seed", range(6))
def test_gradient_by_all_scores_is_that_of_differences(seed: int):
    graph = random_graph(seed)
    pairs = [p.additional for p in graph.fg._placements if p.additional is not None]
    every = (np.array(y) for y in itertools.product((0.0, 1.0), repeat=9))
    y = torch.from_numpy(next(y for y in every if worth(graph.joint, y) is not None))
    inputs = [graph.scores, *pairs]
    grads = torch.autograd.grad(graph.fg.loss(y), inputs)
    directions = [torch.randn(x.shape, dtype=F64) for x in inputs]

    def moved(step: float) -> float:
        with torch.no_grad():
            for x, d in zip(inputs, directions, strict=True):
                x.add_(step * d)
            value = graph.fg.loss(y, tol=1e-13).item()
            for x, d in zip(inputs, directions, strict=True):
                x.sub_(step * d)
        return value

    slope = (moved(1e-5) - moved(-1e-5)) / 2e-5
    assert sum((g * d).sum() for g, d in zip(grads, directions, strict=True)).item() == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_structured_factor_has_the_loss_of_sparsemap(case: Case):
    scores, additional = case.draw(3)
    y = targets(case, 3)
    fg = FactorGraph()
    fg.add(case.factor, fg.variable_from(scores.requires_grad_(), batch_dims=1), additional=additional)
    loss = fg.loss(y, reduction="none")
    wanted = sparsemap_loss(scores, y, case.factor, additional, reduction="none")
    torch.testing.assert_close(loss, wanted, rtol=0, atol=1e-13)
    torch.testing.assert_close(
        torch.autograd.grad(loss.sum(), scores)[0], torch.autograd.grad(wanted.sum(), scores)[0], rtol=0, atol=1e-13
    )


def test_xor_has_the_loss_of_sparsemax():
    scores = torch.randn(5, 7, dtype=F64)
    y = torch.nn.functional.one_hot(torch.arange(5), 7).to(F64)
    fg = FactorGraph()
    fg.add(Xor(fg.variable_from(scores, batch_dims=1)))
    torch.testing.assert_close(fg.loss(y), fenchel_young_loss(scores, y, "sparsemax"), rtol=0, atol=1e-13)


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_tree_with_budgets_has_the_loss_of_its_program_and_no_less_than_that_of_joint_assignments(scale: float):
    scores = scale * torch.randn(4, 4, dtype=F64)
    trees = [t for t in listing.dependency_trees(4) if bool((t.sum(0) <= 2).all())]
    for y in trees[::13]:
        fg, u = parser_graph(scores, 2)
        loss = fg.loss(y)
        joint = Joint(scores.flatten().numpy())
        joint.add(u, listing.dependency_trees(4).flatten(1).numpy())
        for k in range(4):
            joint.add(u[:, k], allowed(lambda *y: sum(y) <= 2, 4))
        assert loss.item() == pytest.approx(definition(joint, y.flatten().numpy()), abs=1e-8)
        whole = Joint(scores.flatten().numpy())
        whole.add(u, torch.stack(trees).flatten(1).numpy())
        assert loss.item() >= definition(whole, y.flatten().numpy()) - 1e-8


def test_sequence_with_transitions_and_logic_has_the_loss_of_its_program():
    scores, transition = torch.randn(4, 3, dtype=F64), torch.randn(3, 3, dtype=F64, requires_grad=True)
    fg = FactorGraph()
    u = fg.variable_from(scores.requires_grad_())
    fg.add(Sequence(transition=transition), u)
    fg.add(Budget(u[:, 0], budget=1))
    structures = listing.sequences(4, 3)
    factor = Sequence(transition=transition)
    with torch.no_grad():
        packed = factor.additional_scores(scores[None])[0]
        gains = (factor.additional_features(structures) @ packed).numpy()
    joint = Joint(scores.detach().flatten().numpy())
    joint.add(u, structures.flatten(1).numpy(), gains)
    joint.add(u[:, 0], allowed(lambda *y: sum(y) <= 1, 4))
    y = next(y for y in structures if y[:, 0].sum() == 1)
    loss = fg.loss(y)
    assert loss.item() == pytest.approx(definition(joint, y.flatten().numpy()), abs=1e-8)

    def value(scores: Tensor, transition: Tensor) -> Tensor:
        fg = FactorGraph()
        u = fg.variable_from(scores)
        fg.add(Sequence(transition=transition), u)
        fg.add(Budget(u[:, 0], budget=1))
        return fg.loss(y, tol=1e-12)

    assert gradcheck(value, (scores, transition))


def test_loss_is_zero_from_the_margin_on_and_not_before():
    y = listing.dependency_trees(4)[7]
    for lead, wanted in ((1.0, True), (3.0, True), (0.9, False)):
        fg = FactorGraph()
        scores = (lead * y).requires_grad_()
        fg.add(DependencyTree(fg.variable_from(scores)))
        loss = fg.loss(y)
        assert (loss.item() == 0) == wanted
        assert bool((torch.autograd.grad(loss, scores)[0] == 0).all()) == wanted


def test_second_derivative_is_the_jacobian_of_the_marginals():
    scores = torch.randn(1, 4, 4, dtype=F64).requires_grad_()
    y = next(t for t in listing.dependency_trees(4) if bool((t.sum(0) <= 2).all()))[None]

    def loss(scores: Tensor) -> Tensor:
        return parser_graph(scores, 2, batch_dims=1)[0].loss(y, tol=1e-12)

    assert gradcheck(loss, scores, fast_mode=True) and gradgradcheck(loss, scores, fast_mode=True)


def test_second_derivative_with_additional_scores_is_refused():
    scores = torch.randn(2, dtype=F64, requires_grad=True)
    fg = FactorGraph()
    u = fg.variable_from(scores)
    fg.add(Pair(u[0], u[1], 0.5))
    (slope,) = torch.autograd.grad(fg.loss(torch.tensor([1.0, 0.0])), scores, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"FactorGraph\.loss: no second derivatives"):
        slope.sum().backward()


def test_examples_variables_and_reductions():
    first, second = torch.randn(3, 4, dtype=F64), torch.randn(3, 2, dtype=F64)
    pairs = torch.randn(3, 2, dtype=F64)
    y, x = torch.eye(4, dtype=F64)[:3], torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])

    def graph(rows: slice) -> FactorGraph:
        fg = FactorGraph()
        u, v = (fg.variable_from(each[rows], batch_dims=1) for each in (first, second))
        fg.add(Xor(u))
        fg.add(Pair(u[:2], ~v, pairs[rows]))
        return fg

    each = graph(slice(None)).loss([y, x], reduction="none")
    alone = [graph(slice(i, i + 1)).loss([y[i : i + 1], x[i : i + 1]]) for i in range(3)]
    torch.testing.assert_close(each, torch.stack(alone), rtol=0, atol=1e-12)
    torch.testing.assert_close(graph(slice(None)).loss((y, x)), each.mean(), rtol=0, atol=1e-12)
    torch.testing.assert_close(graph(slice(None)).loss([y, x], reduction="sum"), each.sum(), rtol=0, atol=1e-12)


def test_marginals_as_target_need_their_additional_parts():
    scores, s = torch.tensor([0.5, 0.25], dtype=F64), torch.tensor(0.5, dtype=F64, requires_grad=True)
    fg = FactorGraph()
    u = fg.variable_from(scores)
    fg.add(Pair(u[0], u[1], s))
    fg.solve()
    y = u.value.detach()
    with pytest.raises(ValueError, match=r"FactorGraph\.loss: target_additional is needed where factors"):
        fg.loss(y)
    loss = fg.loss(y, [y.min()])
    assert loss.item() == 0 and torch.autograd.grad(loss, s)[0] == 0
    lower = fg.loss(y, [y.min() - 0.25])
    assert lower.item() == pytest.approx(0.25 * 0.5) and torch.autograd.grad(lower, s)[0] == pytest.approx(0.25)


def test_scores_that_are_infinite_or_nan():
    scores = torch.tensor([[1.0, -math.inf, 0.0], [math.nan, 0.0, 0.0], [0.0, 1.0, -math.inf]])
    fg = FactorGraph()
    fg.add(Xor(fg.variable_from(scores, batch_dims=1)))
    loss = fg.loss(torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), reduction="none")
    assert loss[0] == 0 and loss[1].isnan() and loss[2] == math.inf


class Free(Factor):
    """Any one of the entries, without knowledge of its additional parts."""

    def maximize(self, scores, additional):
        return (scores + (0 if additional is None else additional)).argmax(-1)

    def features(self, structures):
        one = torch.nn.functional.one_hot(structures, 3).double()
        return one, one


def test_misuse_is_refused_by_name():
    fg = FactorGraph()
    u = fg.variable_from(torch.zeros(3))
    fg.add(Xor(u))
    with pytest.raises(ValueError, match=r"FactorGraph\.loss: target must have the shape \(3,\)"):
        fg.loss(torch.zeros(2))
    with pytest.raises(ValueError, match=r"FactorGraph\.loss: target must be a tensor for each of the 1 calls"):
        fg.loss([torch.zeros(3)] * 2)
    with pytest.raises(TypeError, match=r"FactorGraph\.loss: target"):
        fg.loss(torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"target must satisfy every factor, got one in example 0 .* for Xor"):
        fg.loss(torch.tensor([1.0, 1.0, 0.0]))
    with pytest.raises(ValueError, match="reduction must be one of"):
        fg.loss(torch.tensor([1.0, 0.0, 0.0]), reduction="median")
    with pytest.raises(ValueError, match=r"target_additional must have an entry for each of the 1 factors"):
        fg.loss(torch.tensor([1.0, 0.0, 0.0]), [])
    with pytest.raises(ValueError, match=r"target_additional\[0\] must be None"):
        fg.loss(torch.tensor([1.0, 0.0, 0.0]), [torch.zeros(1)])
    other = FactorGraph()
    other.add(Free(), other.variable_from(torch.zeros(3)), additional=torch.zeros(3))
    with pytest.raises(ValueError, match="a factor does not know its additional parts"):
        other.loss(torch.tensor([1.0, 0.0, 0.0]))
    y = torch.tensor([1.0, 0.0, 0.0])
    assert other.loss(y, [y]).item() == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match=r"target_additional\[0\] must have as many entries"):
        other.loss(y, [torch.zeros(2)])
