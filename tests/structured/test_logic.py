"""Logic factors, budgets and pairs, each by itself: projections onto the hull of what they allow."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor

from omegamax import k_subsets, sparsemax, structured
from omegamax.structured import Budget, FactorGraph, Or, Pair, Xor
from structured.joint import MEANING, Joint, allowed, solved

F64 = torch.float64


def logic(name: str, size: int, budget: int = 2):
    """What a factor means, and how it is made from a list of variables."""
    if name == "Budget":
        return (lambda *y: sum(y) <= budget), (lambda variables: Budget(variables, budget))
    if name == "Budget exactly":
        return (lambda *y: sum(y) == budget), (lambda variables: Budget(variables, budget, exactly=True))
    return MEANING[name], (lambda variables: getattr(structured, name)(*variables))


NAMES = [*MEANING, "Budget", "Budget exactly"]
SINGLE = ("Xor", "AtMostOne", "Or", "Budget")  # make sense for one variable
CASES = [
    (name, size) for name in NAMES for size in (1, 2, 3, 5) if size > 1 + (name == "Budget exactly") or name in SINGLE
]


def scores_for(size: int, rows: int = 40) -> Tensor:
    """Scores of all magnitudes around the unit cube, with ties and values on its faces."""
    z = torch.randn(rows, size, dtype=F64) * torch.logspace(-1, 2, rows, dtype=F64)[:, None] + 0.5
    ties = torch.tensor(list(itertools.islice(itertools.product((0.0, 0.5, 1.0), repeat=size), 30)), dtype=F64)
    return torch.cat([z, ties])


@pytest.mark.parametrize("negations", ["none", "some", "all"])
@pytest.mark.parametrize(("name", "size"), CASES)
def test_factor_projects_onto_the_hull_of_what_it_allows(name: str, size: int, negations: str):
    meaning, make = logic(name, size)
    flips = {"none": [False] * size, "some": [i % 2 == 1 for i in range(size)], "all": [True] * size}[negations]
    z = scores_for(size)
    p = solved(z, lambda fg, u: fg.add(make([~v if flip else v for v, flip in zip(u, flips, strict=True)])))
    vertices = torch.from_numpy(np.abs(allowed(meaning, size) - np.array(flips)))
    # Nothing allowed is closer to the scores in any direction, ...
    gain = ((vertices - p[:, None]) * (z - p)[:, None]).sum(-1)
    assert gain.max() <= 1e-13 * (1 + z.abs().max())
    # ... and the result is a mixture of what is allowed.
    system = torch.cat([vertices, torch.ones(len(vertices), 1, dtype=F64)], 1).T.numpy()
    for row in p:
        assert nnls(system, np.append(row.numpy(), 1.0))[1] <= 1e-13


@pytest.mark.parametrize("negations", list(itertools.product((False, True), repeat=2)))
def test_pair_solves_its_program(negations: tuple[bool, bool]):
    generator = torch.Generator().manual_seed(1)
    for scale in (0.3, 1.0, 4.0):
        z = scale * torch.randn(6, 2, dtype=F64, generator=generator) + 0.5
        s = scale * torch.randn(6, 1, dtype=F64, generator=generator)
        fg = FactorGraph()
        u = fg.variable_from(z, batch_dims=1)
        a, b = (~v if flip else v for v, flip in zip(u, negations, strict=True))
        fg.add(Pair(a[None], b[None], s))
        fg.solve()
        for row, score, value in zip(z, s, u.value, strict=True):
            joint = Joint(row.numpy())
            flipped = [int(a.negated), int(b.negated)]
            both = structured.Variable(fg, u.index, np.array(flipped, dtype=bool), F64)
            joint.add(both, allowed(lambda *y: True, 2), np.array([0.0, 0.0, 0.0, score.item()]))
            assert np.abs(joint.solve() - value.numpy()).max() < 2e-8


def test_pair_satisfies_its_optimality_conditions():
    # Lifted to (u_1, u_2, v): no corner of the square with its score gains over the solution.
    z = 2 * torch.randn(500, 2, dtype=F64) + 0.5
    s = 3 * torch.randn(500, dtype=F64)
    p = solved(z, lambda fg, u: fg.add(Pair(u[0], u[1], s)))
    v = torch.where(s > 0, p.amin(-1), (p.sum(-1) - 1).clamp(min=0))
    corners = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=F64)
    gain = ((corners - p[:, None]) * (z - p)[:, None]).sum(-1) + s[:, None] * (corners.prod(-1) - v[:, None])
    assert gain.max() < 1e-13


def test_pair_that_may_not_be_on_together_is_at_most_one():
    z = torch.randn(50, 2, dtype=F64) + 0.5
    apart = solved(z, lambda fg, u: fg.add(Pair(u[0], u[1], float("-inf"))))
    at_most_one = solved(z, lambda fg, u: fg.add(structured.AtMostOne(u)))
    torch.testing.assert_close(apart, at_most_one, atol=1e-15, rtol=0)


def test_pair_of_huge_score_loses_no_digits():
    z = torch.tensor([0.75, 0.5], dtype=F64)
    for score, wanted in ((-1e30, [0.625, 0.375]), (1e30, [1.0, 1.0])):
        p = solved(z, lambda fg, u, score=score: fg.add(Pair(u[0], u[1], score)))
        torch.testing.assert_close(p, torch.tensor(wanted, dtype=F64), atol=1e-15, rtol=0)


def test_xor_is_sparsemax_and_budget_is_k_subsets():
    z = torch.randn(20, 7, dtype=F64)
    assert torch.equal(solved(z, lambda fg, u: fg.add(Xor(u))), k_subsets(z, 1))
    torch.testing.assert_close(k_subsets(z, 1), sparsemax(z), atol=1e-15, rtol=0)
    assert torch.equal(solved(z, lambda fg, u: fg.add(Budget(u, 3))), k_subsets(z, 3, at_most=True))
    assert torch.equal(solved(z, lambda fg, u: fg.add(Budget(u, 3, exactly=True))), k_subsets(z, 3))


def test_negations_turn_one_factor_into_another():
    z = torch.randn(30, 4, dtype=F64)
    pairs = [
        (lambda u: structured.AndOut(u), lambda u: structured.OrOut(~u)),
        (lambda u: structured.Imply(u), lambda u: Or(~u[:3], u[3])),
        (lambda u: structured.XorOut(u), lambda u: Xor(u[:3], ~u[3])),
        (lambda u: Or(u), lambda u: Budget(~u, 3)),
    ]
    for one, other in pairs:
        first = solved(z, lambda fg, u, one=one: fg.add(one(u)))
        second = solved(z, lambda fg, u, other=other: fg.add(other(u)))
        torch.testing.assert_close(first, second, atol=1e-15, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_derivative_of_a_factor(name: str):
    size = 4
    _, make = logic(name, size)
    z = (torch.randn(8, size, dtype=F64) * torch.tensor([0.3, 0.3, 1, 1, 1, 2, 2, 2])[:, None] + 0.3).requires_grad_()
    flips = [i == 1 for i in range(size)]

    def apply(z: Tensor) -> Tensor:
        return solved(z, lambda fg, u: fg.add(make([~v if flip else v for v, flip in zip(u, flips, strict=True)])))

    assert torch.autograd.gradcheck(apply, z, check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(apply, z, fast_mode=True)


def test_derivative_of_pairs_in_all_their_regimes():
    corners = torch.tensor([[0.2, 0.9], [0.8, 0.25], [0.5, 0.6], [1.5, 0.4], [-0.5, 0.4], [0.9, 0.8]], dtype=F64)
    z = corners.repeat(2, 1).requires_grad_()
    s = torch.tensor([0.3] * 6 + [-0.25] * 6, dtype=F64, requires_grad=True)

    def apply(z: Tensor, s: Tensor) -> Tensor:
        return solved(z, lambda fg, u: fg.add(Pair(u[0], ~u[1], s)))

    assert torch.autograd.gradcheck(apply, (z, s), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(apply, (z, s), fast_mode=True)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda u: Xor(), ValueError, "Xor: variables must be at least one"),
        (lambda u: Xor(u[:0]), ValueError, "Xor: variables must be at least one"),
        (
            lambda u: Xor(torch.zeros(3)),
            TypeError,
            "Xor: variables must be made by FactorGraph.variable_from, got Tensor",
        ),
        (lambda u: structured.OrOut(u[0]), ValueError, "OrOut: variables must be at least two"),
        (lambda u: Budget(u, -1), ValueError, "Budget: budget must be an integer >= 0, got -1"),
        (lambda u: Budget(u, 1.5), ValueError, "Budget: budget must be an integer >= 0, got 1.5"),
        (lambda u: Budget(u, float("nan")), ValueError, "Budget: budget must be an integer >= 0"),
        (lambda u: Budget(u, "two"), TypeError, "Budget: budget must be an integer >= 0, got "),
        (lambda u: Budget(u, 4, exactly=True), ValueError, "budget=4 with exactly=True is more than the 3 variables"),
        (
            lambda u: Pair(u[:2], u[2], 1.0),
            ValueError,
            r"Pair: first and second must have one shape, got \(2,\) and \(\)",
        ),
        (lambda u: Pair(u[0], 1.0, 1.0), TypeError, "Pair: second must be a Variable, got float"),
        (lambda u: Pair(u[0], u[1], "much"), TypeError, "Pair: score must be a number or a tensor, got str"),
        (lambda u: Pair(u[0], u[1], torch.tensor(1)), TypeError, "Pair: score must be a floating-point tensor"),
        (lambda u: Pair(u[:2], u[1:], torch.zeros(3)), ValueError, "Pair: score of shape .* does not broadcast"),
        (lambda u: Pair(u[:0], u[:0], 1.0), ValueError, "Pair: first and second must hold at least one variable"),
    ],
)
def test_factor_refuses(make, error, message):
    u = FactorGraph().variable_from(torch.zeros(3))
    with pytest.raises(error, match=message):
        make(u)


def test_factor_refuses_variables_of_two_graphs():
    u, v = (FactorGraph().variable_from(torch.zeros(3)) for _ in range(2))
    with pytest.raises(ValueError, match="Xor: variables must belong to one FactorGraph"):
        Xor(u, v)
    with pytest.raises(ValueError, match="Pair: first and second must belong to one FactorGraph"):
        Pair(u, v, 1.0)
