"""Whole factor graphs against one quadratic program over the listed structures of all factors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from omegamax import structured
from omegamax.structured import (
    AtMostOne,
    Budget,
    ConvergenceWarning,
    DependencyTree,
    Factor,
    FactorGraph,
    Matching,
    OrOut,
    Pair,
    Sequence,
    SequentialSubsets,
    SpanningTree,
    Subsets,
    Variable,
    Xor,
    sparsemap,
)
from omegamax.structured._count import CountPolytope
from structured import listing
from structured.cases import CASES, Case
from structured.joint import MEANING, Joint, allowed, solved

F64 = torch.float64


class Graph:
    """The same factors twice: for the solver, and as a program."""

    def __init__(self, scores: Tensor):
        self.fg = FactorGraph()
        self.scores = scores
        self.u = self.fg.variable_from(scores)
        self.joint = Joint(scores.detach().flatten().numpy())

    def logic(self, name: str, variables: list[Variable]) -> None:
        self.fg.add(getattr(structured, name)(*variables))
        self._list(variables, MEANING[name])

    def budget(self, variables: list[Variable], budget: int, exactly: bool = False) -> None:
        self.fg.add(Budget(variables, budget, exactly=exactly))
        self._list(variables, lambda *y: sum(y) == budget if exactly else sum(y) <= budget)

    def pair(self, first: Variable, second: Variable, score: Tensor) -> None:
        self.fg.add(Pair(first, second, score))
        self._list([first, second], lambda *y: True, np.array([0.0, 0.0, 0.0, score.item()]))

    def _list(self, variables: list[Variable], meaning, worth: np.ndarray | None = None) -> None:
        index = np.array([int(v.index) for v in variables])
        row = Variable(self.fg, index, np.array([bool(v.negated) for v in variables]), F64)
        self.joint.add(row, allowed(meaning, len(variables)), worth)

    def error(self, **options) -> float:
        self.fg.solve(**options)
        return float(np.abs(self.joint.solve() - self.u.value.detach().flatten().numpy()).max())


def random_graph(seed: int, satisfied: bool = True, size: int = 9, factors: int = 6, pairs: int = 3) -> Graph:
    """Logic of all kinds on a few variables, with negations; if ``satisfied``, some assignment fits it all."""
    rng = np.random.default_rng(seed)
    graph = Graph(torch.from_numpy(rng.choice([0.3, 1.0, 3.0, 10.0]) * rng.normal(size=size)).requires_grad_())
    hidden = rng.random(size) < 0.4
    while len(graph.joint.factors) < factors:
        name = rng.choice([*MEANING, "Budget", "Budget exactly"])
        count = int(rng.integers(2, 6))
        chosen, flips = rng.permutation(size)[:count], rng.random(count) < 0.3
        budget = int(rng.integers(0, count + 1))
        variables = [~graph.u[i] if flip else graph.u[i] for i, flip in zip(chosen, flips, strict=True)]
        truth = (hidden[chosen] ^ flips).astype(int)
        exactly = name == "Budget exactly"
        if name.startswith("Budget"):
            fits = truth.sum() == budget if exactly else truth.sum() <= budget
        else:
            fits = MEANING[name](*truth)
        if satisfied and not fits:
            continue
        if name.startswith("Budget"):
            graph.budget(variables, budget, exactly)
        else:
            graph.logic(name, variables)
    for _ in range(pairs):
        a, b = (graph.u[i] for i in rng.permutation(size)[:2])
        graph.pair(a, ~b if rng.random() < 0.3 else b, torch.tensor(rng.normal(), dtype=F64, requires_grad=True))
    return graph


@pytest.mark.parametrize("seed", range(24))
def test_logic_graph_solves_its_program(seed: int):
    assert random_graph(seed).error() < 1e-7


@pytest.mark.parametrize("seed", range(24))
def test_contradictions_are_found_and_no_others(seed: int):
    graph = random_graph(100 + seed, satisfied=False, size=7, factors=8, pairs=1)
    wanted = graph.joint.solve()
    if wanted is None:
        with pytest.raises(ValueError, match=r"FactorGraph\.solve: factors contradict each other"):
            graph.fg.solve()
    else:
        graph.fg.solve()
        assert np.abs(wanted - graph.u.value.detach().numpy()).max() < 1e-7


def test_random_contradictions_are_of_both_kinds():
    found = [random_graph(100 + seed, satisfied=False, size=7, factors=8, pairs=1).joint.solve() for seed in range(24)]
    assert {one is None for one in found} == {True, False}


@pytest.mark.parametrize(("scale", "strength"), [(0.3, 1.0), (1.0, 0.5), (1.0, 3.0), (10.0, 1.0)])
def test_ising_grid_solves_its_program(scale: float, strength: float):
    size = 4
    graph = Graph(scale * torch.randn(size, size, dtype=F64))
    for i, j in itertools.product(range(size), repeat=2):
        for below, right in ((i + 1, j), (i, j + 1)):
            if below < size and right < size:
                graph.pair(graph.u[i, j], graph.u[below, right], scale * strength * torch.randn((), dtype=F64))
    assert graph.error() < 1e-7
    assert not graph.fg.report.acyclic
    assert graph.fg.report.infeasibility < 1e-12


def test_pairs_in_arrays_are_pairs_one_by_one():
    z, s = torch.randn(3, 4, 5, dtype=F64), torch.randn(3, 4, 4, dtype=F64)
    fg = FactorGraph()
    u = fg.variable_from(z, batch_dims=1)
    fg.add(Pair(u[:, :-1], u[:, 1:], s))
    fg.solve()
    for row, scores, pairs in zip(u.value, z, s, strict=True):
        one = FactorGraph()
        v = one.variable_from(scores)
        for i, j in itertools.product(range(4), range(4)):
            one.add(Pair(v[i, j], v[i, j + 1], pairs[i, j]))
        one.solve()
        torch.testing.assert_close(v.value, row, atol=1e-12, rtol=0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_structured_factor_is_sparsemap(case: Case):
    scores, additional = case.draw(3)
    fg = FactorGraph()
    u = fg.variable_from(scores, batch_dims=1)
    fg.add(case.factor, u, additional=additional)
    report = fg.solve()
    assert torch.equal(u.value, sparsemap(scores, case.factor, additional))
    assert report.acyclic and report.tight.all() and (report.iterations == 1).all()


def parser_graph(scores: Tensor, budget: int, batch_dims: int = 0, **options) -> tuple[FactorGraph, Variable]:
    """Make a dependency tree in which no head has more than so many modifiers."""
    fg = FactorGraph()
    u = fg.variable_from(scores, batch_dims=batch_dims)
    fg.add(DependencyTree(**options), u)
    for k in range(u.shape[0]):
        fg.add(Budget(u[:, k], budget=budget))
    return fg, u


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize(("budget", "scale"), [(1, 1.0), (2, 0.3), (2, 3.0), (2, 10.0)])
def test_tree_with_budgets_solves_its_program(budget: int, scale: float, projective: bool):
    scores = scale * torch.randn(4, 4, dtype=F64)
    fg, u = parser_graph(scores, budget, projective=projective)
    report = fg.solve()
    joint = Joint(scores.flatten().numpy())
    joint.add(u, listing.dependency_trees(4, projective).flatten(1).numpy())
    for k in range(4):
        joint.add(u[:, k], allowed(lambda *y: sum(y) <= budget, 4))
    assert np.abs(joint.solve() - u.value.flatten().numpy()).max() < 1e-7
    assert report.infeasibility < 1e-12 and report.gap < 1e-10 and bool(report.converged)


def test_budgets_of_a_parser_hold_and_matter():
    scores = torch.randn(2, 12, 12, dtype=F64)
    scores[:, :, 3] += 2
    fg, u = parser_graph(scores, 5, batch_dims=1)
    fg.solve()
    free = sparsemap(scores, DependencyTree())
    assert (free.sum(1)[:, 3] > 5.5).all()
    assert (u.value.sum(1) <= 5 + 1e-12).all()
    torch.testing.assert_close(u.value.sum(2), torch.ones(2, 12, dtype=F64), atol=1e-12, rtol=0)


def test_sequence_with_transitions_and_logic_solves_its_program():
    length, states = 4, 3
    scores, transition = torch.randn(length, states, dtype=F64), torch.randn(states, states, dtype=F64)
    fg = FactorGraph()
    u = fg.variable_from(scores)
    fg.add(Sequence(transition=transition), u)
    fg.add(Budget(u[:, 0], 1))
    fg.add(structured.Imply(u[0, 1], u[3, 2]))
    fg.solve()
    factor, labels = Sequence(transition=transition), listing.sequences(length, states)
    joint = Joint(scores.flatten().numpy())
    worth = factor.additional_features(labels) @ factor.additional_scores(scores)
    joint.add(u, labels.flatten(1).numpy(), worth.numpy())
    joint.add(u[:, 0], allowed(lambda *y: sum(y) <= 1, length))
    joint.add(u[[0, 3], [1, 2]], allowed(MEANING["Imply"], 2))
    assert np.abs(joint.solve() - u.value.flatten().numpy()).max() < 1e-7


def test_other_structured_factors_share_variables():
    edges = torch.tensor([[0, 0, 1, 1, 2], [1, 2, 2, 3, 3]])
    scores = torch.randn(5, dtype=F64)
    fg = FactorGraph()
    u = fg.variable_from(scores)
    fg.add(SpanningTree(edges), u)
    fg.add(SequentialSubsets(2, transition=0.7), ~u[:4])
    fg.add(Subsets(1, at_most=True), u[[0, 4]])
    fg.solve()
    joint = Joint(scores.numpy())
    joint.add(u, listing.spanning_trees(edges, 4).numpy())
    ones = listing.subsets(4, 2).numpy()
    joint.add(~u[:4], ones, 0.7 * (ones[:, :-1] * ones[:, 1:]).sum(1))
    joint.add(u[[0, 4]], allowed(lambda *y: sum(y) <= 1, 2))
    assert np.abs(joint.solve() - u.value.numpy()).max() < 1e-7


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_matching_is_its_rows_and_columns(shape: tuple[int, int]):
    scores = torch.randn(3, *shape, dtype=F64, requires_grad=True)
    weights = torch.randn(3, *shape, dtype=F64)
    results = []
    for whole in (True, False):
        fg = FactorGraph()
        u = fg.variable_from(scores, batch_dims=1)
        if whole:
            fg.add(Matching(), u)
        else:
            rows, columns = (Xor if a <= b else AtMostOne for a, b in (shape, shape[::-1]))
            for row in u:
                fg.add(rows(row))
            for column in u.T:
                fg.add(columns(column))
        fg.add(Budget(u[:2, :2], 1))
        fg.add(Pair(u[0, 0], u[1, 2], 0.5))
        fg.solve()
        results.append((u.value, torch.autograd.grad((u.value * weights).sum(), scores)[0]))
    torch.testing.assert_close(*results, atol=1e-11, rtol=0)


class Together(Factor):
    """A factor of one's own, all on or all off, with a score for being on; counts the rows it is asked about."""

    rows: tuple[int, ...] = ()

    def maximize(self, scores: Tensor, additional: Tensor | None) -> Tensor:
        type(self).rows += (len(scores),)
        on = scores.sum(-1) + (0 if additional is None else additional[:, 0]) > 0
        return on[:, None].expand_as(scores).to(scores)

    def features(self, structures: Tensor) -> tuple[Tensor, Tensor | None]:
        return structures, structures[:, :1]


def test_own_factor_with_additional_scores_in_leading_axes():
    z, bonus = torch.randn(2, 3, 4, dtype=F64), torch.randn(2, 3, 1, dtype=F64)
    fg = FactorGraph()
    u = fg.variable_from(z, batch_dims=1)
    Together.rows = ()
    fg.add(Together(), u, additional=bonus)  # three of them
    fg.solve()
    level = (z.mean(-1, keepdim=True) + bonus / 4).clamp(0, 1)
    torch.testing.assert_close(u.value, level.expand_as(z), atol=1e-14, rtol=0)
    assert Together.rows[0] == 6


def test_like_factors_are_solved_in_one_call(monkeypatch):
    shapes = []
    project = CountPolytope.project

    def counted(self, z: Tensor, parameters: Tensor, additional: Tensor | None) -> Tensor:
        shapes.append(tuple(z.shape))
        return project(self, z, parameters, additional)

    monkeypatch.setattr(CountPolytope, "project", counted)
    fg = FactorGraph()
    u = fg.variable_from(torch.randn(3, 5, 4, dtype=F64), batch_dims=1)
    for row in u:
        fg.add(Xor(row))
        fg.add(Budget(~row, 3))
        fg.add(structured.Or(row))
    fg.solve()
    assert {shape[1:] for shape in shapes} == {(15, 4)} and max(shape[0] for shape in shapes) == 3


class Listed(Factor):
    """Any list of 0/1 vectors, with a score of their own."""

    def __init__(self, structures: Tensor, worth: Tensor):
        self.structures, self.worth = structures, worth

    def maximize(self, scores: Tensor, additional: Tensor | None) -> Tensor:
        return (scores @ self.structures.T + additional @ self.worth.T).argmax(-1)

    def features(self, structures: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.structures[structures], self.worth[structures]


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_tree_of_factors_is_sparsemap_over_joint_assignments(scale: float):
    z, s = scale * torch.randn(6, 8, dtype=F64), scale * torch.randn((), dtype=F64)
    fg = FactorGraph()
    u = fg.variable_from(z, batch_dims=1)
    fg.add(Xor(u[:3]))
    fg.add(OrOut(u[2:6]))
    fg.add(AtMostOne(~u[5], u[6]))
    fg.add(Pair(u[0], u[7], s))
    fg.add(Budget(u[6], 1))
    report = fg.solve()
    assert report.acyclic and report.tight.all()
    checks = [
        lambda y: sum(y[:3]) == 1,
        lambda y: bool(y[5]) == any(y[2:5]),
        lambda y: (1 - y[5]) + y[6] <= 1,
    ]
    everything = itertools.product((0.0, 1.0), repeat=8)
    rows = torch.tensor([y for y in everything if all(check(y) for check in checks)], dtype=F64)
    exact = sparsemap(z, Listed(rows, rows[:, :1] * rows[:, 7:]), additional=s.expand(6, 1))
    torch.testing.assert_close(u.value, exact, atol=1e-10, rtol=0)


def test_chain_of_pairs_is_sparsemap_over_joint_assignments():
    z, s = torch.randn(5, 6, dtype=F64), torch.randn(5, 5, dtype=F64)
    value = solved(z, lambda fg, u: fg.add(Pair(u[:-1], u[1:], s)))
    rows = torch.tensor(list(itertools.product((0.0, 1.0), repeat=6)), dtype=F64)
    exact = sparsemap(z, Listed(rows, rows[:, :-1] * rows[:, 1:]), additional=s)
    torch.testing.assert_close(value, exact, atol=1e-10, rtol=0)


def test_loops_may_be_loose_and_the_report_does_not_claim_otherwise():
    fg = FactorGraph()
    u = fg.variable_from(torch.full((3,), 0.6, dtype=F64))
    fg.add(Pair(u[[0, 1, 2]], u[[1, 2, 0]], float("-inf")))  # at most one of three, pair by pair
    report = fg.solve()
    torch.testing.assert_close(u.value, torch.full((3,), 0.5, dtype=F64))
    assert not report.acyclic and not report.tight and not report.integral
    exact = solved(torch.full((3,), 0.6, dtype=F64), lambda fg, u: fg.add(AtMostOne(u)))
    torch.testing.assert_close(exact, torch.full((3,), 1 / 3, dtype=F64))


def test_batch_is_its_examples_one_by_one():
    scores = torch.randn(2, 3, 6, 6, dtype=F64) * torch.tensor([0.3, 1.0, 10.0])[:, None, None]
    fg, u = parser_graph(scores, 2, batch_dims=2)
    report = fg.solve()
    for i, j in itertools.product(range(2), range(3)):
        one, v = parser_graph(scores[i, j], 2)
        alone = one.solve()
        assert alone.iterations == report.iterations[i, j]
        torch.testing.assert_close(v.value, u.value[i, j], atol=1e-13, rtol=0)


def test_variables_outside_all_factors_are_clipped():
    z = torch.tensor([0.25, 2.0, -1.0, 1.0, 0.5], dtype=F64)
    value = solved(z, lambda fg, u: fg.add(Xor(u[3:])))
    torch.testing.assert_close(value, torch.tensor([0.25, 1.0, 0.0, 0.75, 0.25], dtype=F64))
    torch.testing.assert_close(solved(z, lambda fg, u: None), z.clamp(0, 1))


def test_zeros_and_ones_are_exact():
    fg, u = parser_graph(3 * torch.randn(8, 8, dtype=F64), 3)
    fg.solve()
    near = (u.value < 1e-9) | (u.value > 1 - 1e-9)
    assert near.sum() > 30
    assert ((u.value[near] == 0) | (u.value[near] == 1)).all()


def test_limit_of_iterations_warns_with_the_residual():
    fg, u = parser_graph(torch.randn(3, 6, 6, dtype=F64), 1, batch_dims=1)
    with pytest.warns(
        ConvergenceWarning, match=r"FactorGraph.solve: \d of 3 examples stopped after 2 .* up to \d"
    ) as caught:
        report = fg.solve(max_iter=2)
    assert caught[0].filename == __file__
    assert not report.converged.all() and (report.infeasibility > 1e-9).any()
    assert u.value.isfinite().all()
