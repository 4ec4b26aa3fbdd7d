"""A factor graph as an Omega: its map, its conjugate, its loss and its memory."""

from __future__ import annotations

import itertools

import cvxpy as cp
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from omegamax import attention, fenchel_young_loss
from omegamax.hopfield import Memory, retrieved_exactly, threshold
from omegamax.structured import Budget, DependencyTree, FactorGraph, GraphOmega, Pair, StructuredOmega, Subsets, Xor
from structured.joint import F64, solved


def budgets(fg, u):
    fg.add(DependencyTree(u))
    for k in range(u.shape[0]):
        fg.add(Budget(u[:, k], budget=2))


def logic(fg, u):
    fg.add(Xor(u[:3]))
    fg.add(Budget(u[1:], budget=2))


def chain(fg, u):
    fg.add(Pair(u[:-1], u[1:], 0.4))


def two(fg, u):
    fg.add(Subsets(2), u)


def program(build, z):
    """The largest value of the objective, with the polytopes written out."""
    u, both = cp.Variable(5), cp.Variable(4)
    value, constraints = z.numpy() @ u - cp.sum_squares(u) / 2, [u >= 0, u <= 1]
    if build is logic:
        constraints += [cp.sum(u[:3]) == 1, cp.sum(u[1:]) <= 2]
    else:
        value, constraints = value + 0.4 * cp.sum(both), [*constraints, both <= u[:-1], both <= u[1:]]
    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-13)
    return cp.Problem(cp.Maximize(value), constraints).solve(solver=cp.CLARABEL, **tolerances)


@pytest.mark.parametrize("build", [logic, chain])
def test_map_and_conjugate_are_those_of_the_graph(build):
    z = torch.randn(4, 5, dtype=F64)
    omega = GraphOmega(build)
    assert torch.equal(omega.argmax(z), solved(z, build))
    for row, value in zip(z, omega.conjugate(z), strict=True):
        assert value.item() == pytest.approx(program(build, row), abs=1e-9)


def test_one_factor_is_that_of_the_factor():
    z = torch.randn(3, 6, dtype=F64)
    one, other = GraphOmega(two), StructuredOmega(Subsets(2))
    torch.testing.assert_close(one.argmax(z), other.argmax(z), rtol=0, atol=1e-14)
    torch.testing.assert_close(one.conjugate(z), other.conjugate(z), rtol=0, atol=1e-13)


def test_gradient_of_the_conjugate_is_the_marginals():
    z = torch.randn(2, 9, dtype=F64, requires_grad=True)
    omega = GraphOmega(budgets, (3, 3))
    (slope,) = torch.autograd.grad(omega.conjugate(z).sum(), z)
    torch.testing.assert_close(slope, omega.argmax(z.detach()), rtol=0, atol=1e-13)
    assert gradcheck(omega.conjugate, z, fast_mode=True) and gradgradcheck(omega.conjugate, z, fast_mode=True)
    assert gradcheck(GraphOmega(chain).conjugate, torch.randn(1, 5, dtype=F64, requires_grad=True))


def test_loss_is_that_of_the_graph():
    z = torch.randn(4, 5, dtype=F64, requires_grad=True)
    y = torch.tensor([[1.0, 0.0, 0.0, 1.0, 0.0]] * 4, dtype=F64)
    fg = FactorGraph()
    logic(fg, fg.variable_from(z, batch_dims=1))
    loss, wanted = fenchel_young_loss(z, y, GraphOmega(logic), "none"), fg.loss(y, reduction="none")
    torch.testing.assert_close(loss, wanted, rtol=0, atol=1e-12)
    slopes = [torch.autograd.grad(each.sum(), z)[0] for each in (loss, wanted)]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-12)
    with pytest.raises(NotImplementedError, match="GraphOmega: with additional scores"):
        fenchel_young_loss(z, y, GraphOmega(chain))


def test_energy_of_a_memory_never_rises_and_planted_assignments_stay():
    for build, shape, size in ((logic, None, 5), (budgets, (3, 3), 9), (chain, None, 6)):
        omega = GraphOmega(build, shape)
        x, q = torch.randn(size, 7, dtype=F64), torch.randn(6, 7, dtype=F64)
        for beta in (0.5, 3.0):
            energies = Memory(x, omega, beta).retrieve(q, steps=8).energies
            assert (energies[1:] - energies[:-1]).max() <= 1e-12 * energies.abs().max()
    every = torch.tensor(list(itertools.product((0.0, 1.0), repeat=5)), dtype=F64)
    y = every[(every[:, :3].sum(-1) == 1) & (every[:, 1:].sum(-1) <= 2)]
    x = torch.linalg.qr(torch.randn(8, 5, dtype=F64))[0].T
    # Scores are 2 inside and 0 outside: each part pays 1 and gains no less.
    found = Memory(x, GraphOmega(logic), 2.0).retrieve(y @ x)
    torch.testing.assert_close(found.weights, y, rtol=0, atol=1e-13)


def test_masks_attention_and_misuse():
    omega = GraphOmega(logic)
    mask = torch.tensor([True, False, True, True, True])
    assert omega.argmax(torch.ones(2, 5), mask=mask)[:, 1].tolist() == [0.0, 0.0]
    out = attention(torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6), omega)
    assert out.shape == (2, 3, 6)
    with pytest.raises(TypeError, match="GraphOmega: build must be a function"):
        GraphOmega("logic")
    with pytest.raises(ValueError, match=r"GraphOmega: scores must be \[\*, 9\]"):
        GraphOmega(budgets, (3, 3)).argmax(torch.zeros(8))
    with pytest.raises(ValueError, match="threshold: no lead alone makes"):
        threshold(omega, 1.0)
    with pytest.raises(ValueError, match="retrieved_exactly"):
        retrieved_exactly(torch.zeros(1, 4), torch.zeros(5, 4), omega, 1.0)
