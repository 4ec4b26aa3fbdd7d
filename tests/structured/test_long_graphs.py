"""Graphs whose factors are far apart: chains, trees and grids of any length, and contradictions along them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import Tensor

from omegamax import structured
from omegamax.structured import ConvergenceWarning, DependencyTree, FactorGraph, Imply, Sequence, Xor, XorOut
from structured import listing
from structured.joint import MEANING
from structured.test_factor_graph import Graph

F64 = torch.float64
KINDS = [*MEANING, "Budget", "Pair"]


def chain(length: int, width: int) -> list[list[int]]:
    """Factors on ``width`` variables each, of which neighbours share one."""
    step = width - 1
    return [list(range(step * i, step * i + width)) for i in range(length)]


def tree(length: int, width: int, seed: int = 0) -> list[list[int]]:
    """Factors that each hang from some variable of those before."""
    rng, groups, size = np.random.default_rng(seed), [], 1
    for _ in range(length):
        groups.append([int(rng.integers(max(0, size - 20), size)), *range(size, size + width - 1)])
        size += width - 1
    return groups


def grid(side: int) -> list[list[int]]:
    at = np.arange(side * side).reshape(side, side)
    return [
        *np.stack([at[:, :-1], at[:, 1:]], -1).reshape(-1, 2).tolist(),
        *np.stack([at[:-1], at[1:]], -1).reshape(-1, 2).tolist(),
    ]


def planted(groups: list[list[int]], kinds: list[str], seed: int, scale: float = 1.0) -> Graph:
    """Factors of these kinds on groups of variables, negated such that some assignment satisfies all of them."""
    rng = np.random.default_rng(seed)
    size = 1 + max(map(max, groups))
    graph = Graph(torch.from_numpy(scale * rng.normal(size=size)).requires_grad_())
    hidden = rng.random(size) < 0.5
    for group in groups:
        kind = str(rng.choice(kinds))
        for _ in range(100):
            flips = rng.random(len(group)) < 0.5
            truth = (hidden[group] ^ flips).astype(int)
            if kind == "Pair" or (truth.sum() <= len(group) - 1 if kind == "Budget" else MEANING[kind](*truth)):
                break
        variables = [~graph.u[i] if flip else graph.u[i] for i, flip in zip(group, flips, strict=True)]
        if kind == "Pair":
            graph.pair(variables[0], variables[-1], torch.tensor(rng.normal(), dtype=F64, requires_grad=True))
        elif kind == "Budget":
            graph.budget(variables, len(group) - 1)
        else:
            graph.logic(kind, variables)
    return graph


def check(graph: Graph, acyclic: bool | None = None) -> None:
    error = graph.error()
    report = graph.fg.report
    assert error < 1e-6
    assert bool(report.converged) and report.infeasibility <= 1e-9 and report.dual_residual <= 1e-9
    if acyclic is not None:
        assert report.acyclic == acyclic


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_chain_of_one_kind_solves_its_program(kind: str, width: int):
    check(planted(chain(90, width), [kind], seed=width), acyclic=True)


@pytest.mark.parametrize("length", [2, 5, 30, pytest.param(150, marks=pytest.mark.slow), 300])
@pytest.mark.parametrize("shape", [chain, tree])
def test_chain_and_tree_of_all_kinds_solve_their_program(shape, length: int):
    for width in (2, 4):
        check(planted(shape(length, width), KINDS, seed=length), acyclic=True)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_grid_solves_its_program(scale: float):
    check(planted(grid(9), ["AtMostOne", "Or", "Imply", "Pair"], seed=1, scale=scale), acyclic=False)


@pytest.mark.parametrize("length", [2, 30, 299, 300])
@pytest.mark.parametrize("build", [Xor, Imply, XorOut])
def test_chain_of_pairs_has_a_known_solution(build, length: int):
    # Xor and XorOut leave one degree of freedom: all variables, or all others, are the clipped mean of the scores.
    scores = torch.randn(length + 1, dtype=F64)
    fg = FactorGraph()
    u = fg.variable_from(scores)
    for i in range(length):
        fg.add(build(u[i], u[i + 1]))
    assert bool(fg.solve().converged)
    if build is Imply:  # values must not fall: isotonic regression
        wanted = torch.stack([_mean_from(scores, i) for i in range(length + 1)]).clamp(0, 1)
    else:
        odd = (torch.arange(length + 1) % 2 == 1) & (build is Xor)
        mean = torch.where(odd, 1 - scores, scores).mean().clamp(0, 1)
        wanted = torch.where(odd, 1 - mean, mean)
    torch.testing.assert_close(u.value, wanted, atol=1e-8, rtol=0)


def _mean_from(scores: Tensor, i: int) -> Tensor:
    """Entry i of the isotonic regression: the largest, over starts up to i, of the least mean from there past i."""
    sums = torch.cat([scores.new_zeros(1), scores.cumsum(0)])
    starts, ends = torch.arange(i + 1)[:, None], torch.arange(i + 1, len(sums))[None]
    return ((sums[ends] - sums[starts]) / (ends - starts)).amin(1).amax()


# Equality carries furthest; where all kinds are mixed, messages of each kind meet those of each other.
@pytest.mark.slow
@pytest.mark.parametrize("kinds, length", [(["Xor"], 2000), (["Pair"], 800), (KINDS, 800)], ids=["Xor", "Pair", "all"])
def test_very_long_chain_solves_its_program(kinds: list[str], length: int):
    check(planted(chain(length, 3), kinds, seed=0))


@pytest.mark.parametrize("length", [1, 2, 7, 40, 100, 101, 250, 600])
@pytest.mark.parametrize("build", [Xor, Imply, XorOut])
def test_contradiction_of_any_length_is_an_error(build, length: int):
    fg = FactorGraph()
    u = fg.variable_from(torch.randn(length + 1, dtype=F64))
    for i in range(length):
        fg.add(build(u[i], u[i + 1]))
    fg.add(Xor(u[0]))  # which makes the last variable on, or off after an odd number of Xor
    fg.add(Xor(u[-1] if build is Xor and length % 2 else ~u[-1]))
    with pytest.raises(ValueError, match=r"FactorGraph\.solve: factors contradict each other"):
        fg.solve()


@pytest.mark.parametrize("length", [3, 60, 200])
def test_contradiction_with_a_forbidden_variable_is_an_error(length: int):
    scores = torch.randn(2, length + 1, dtype=F64)
    scores[1, -1] = -torch.inf
    fg = FactorGraph()
    u = fg.variable_from(scores, batch_dims=1)
    fg.add(Xor(u[0]))
    for i in range(length):
        fg.add(Imply(u[i], u[i + 1]))
    with pytest.raises(ValueError, match=r"in example \(1,\), given the variables that scores of -inf forbid"):
        fg.solve()


def test_structured_factors_far_apart_solve_their_program():
    # A tree of words and a sequence of labels, joined by a chain of logic.
    rng = np.random.default_rng(3)
    length = 120
    scores = torch.from_numpy(rng.normal(size=9 + 12 + length))
    graph = Graph(scores)
    arcs, labels, links = graph.u[:9].reshape(3, 3), graph.u[9:21].reshape(4, 3), graph.u[21:]
    transition = torch.from_numpy(rng.normal(size=(3, 3)))
    graph.fg.add(DependencyTree(), arcs)
    sequence = Sequence(transition=transition)
    graph.fg.add(sequence, labels)
    graph.joint.add(arcs, listing.dependency_trees(3).flatten(1).numpy())
    listed = listing.sequences(4, 3)
    worth = sequence.additional_features(listed) @ sequence.additional_scores(torch.zeros(4, 3, dtype=F64))
    graph.joint.add(labels, listed.flatten(1).numpy(), worth.numpy())
    graph.logic("XorOut", [arcs[0, 1], links[0]])
    for i in range(length - 1):
        graph.logic(("Imply", "OrOut", "XorOut")[i % 3], [links[i], links[i + 1]])
    graph.logic("Imply", [links[-1], labels[0, 2]])
    check(graph, acyclic=True)


@pytest.mark.parametrize("shape", [chain, tree])
def test_gradient_through_long_graphs(shape):
    graph = planted(shape(80, 3), KINDS, seed=5)
    pairs = [p.additional for p in graph.fg._placements if p.additional is not None]
    graph.fg.solve()
    weights = torch.randn(graph.u.value.shape, dtype=F64)
    inputs = [graph.scores, *pairs]
    grads = torch.autograd.grad((graph.u.value * weights).sum(), inputs)
    directions = [torch.randn(x.shape, dtype=F64) for x in inputs]

    def moved(step: float) -> Tensor:
        with torch.no_grad():
            for x, d in zip(inputs, directions, strict=True):
                x.add_(step * d)
            graph.fg.solve()
            result = (graph.u.value * weights).sum()
            for x, d in zip(inputs, directions, strict=True):
                x.sub_(step * d)
        return result

    wanted = (moved(1e-5) - moved(-1e-5)) / 2e-5
    given = sum((g * d).sum() for g, d in zip(grads, directions, strict=True))
    assert abs(float(wanted - given)) < 1e-4 * (1 + abs(float(wanted)))


def test_batch_of_long_graphs_is_each_alone():
    scores = torch.randn(3, 121, dtype=F64) * torch.tensor([[0.1], [1.0], [5.0]], dtype=F64)
    fg = FactorGraph()
    u = fg.variable_from(scores, batch_dims=1)
    for i in range(120):
        fg.add((Imply if i % 3 else structured.OrOut)(u[i], u[i + 1]))
    assert fg.solve().converged.all()
    for row, wanted in zip(scores, u.value, strict=True):
        one = FactorGraph()
        v = one.variable_from(row)
        for i in range(120):
            one.add((Imply if i % 3 else structured.OrOut)(v[i], v[i + 1]))
        one.solve()
        torch.testing.assert_close(v.value, wanted, atol=1e-7, rtol=0)


def test_too_few_rounds_are_said_to_be_too_few():
    graph = planted(chain(200, 2), ["XorOut"], seed=2)
    solution = graph.joint.solve()
    for rounds in (1, 10, 25, 40):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = graph.fg.solve(max_iter=rounds)
        late = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
        assert bool(report.converged) == (not late)
        error = np.abs(solution - graph.u.value.detach().numpy()).max()
        assert not bool(report.converged) or error < 1e-6
