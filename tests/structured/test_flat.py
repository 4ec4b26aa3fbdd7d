"""Flat scores, such as those of a model before training: many structures, right marginals, right derivatives."""

from __future__ import annotations

import pytest
import torch

from omegamax.structured import (
    DependencyTree,
    Factor,
    FactorGraph,
    Sequence,
    SequentialSubsets,
    SpanningTree,
    sparsemap,
)
from omegamax.structured._solution import ActiveSolution
from structured.cases import CASES, F64, Case
from structured.joint import Joint

FLAT = [0.0, 1e-6, 1e-3, 1e-2, 0.1]
EDGES = torch.combinations(torch.arange(24)).T
WIDE: list[tuple[Factor, tuple[int, ...]]] = [
    (DependencyTree(), (24, 24)),
    (DependencyTree(single_root=True), (24, 24)),
    (DependencyTree(projective=True), (24, 24)),
    (DependencyTree(projective=True, single_root=True), (24, 24)),
    (SpanningTree(EDGES), (EDGES.shape[1],)),
    (Sequence(), (40, 9)),
    (SequentialSubsets(20), (80,)),
]
every_kind = pytest.mark.parametrize(("factor", "shape"), WIDE, ids=[repr(factor) for factor, _ in WIDE])


def drawn(shape: tuple[int, ...], scale: float, seed: int = 0) -> torch.Tensor:
    return scale * torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


@every_kind
@pytest.mark.parametrize("scale", FLAT)
def test_search_asks_no_more_often_than_there_are_directions(factor: Factor, shape: tuple[int, ...], scale: float):
    scores = drawn(shape, scale)
    solution = factor.solve(scores[None], structures=True)
    active = solution.active
    assert int(active.iterations) <= 2 * scores.numel()
    # The best structure at the slope gains nothing over the mixture: that is optimality.
    u = solution.marginals[0]
    slope = scores - u
    best = factor.features(factor.maximize(slope[None], None))[0][0].to(F64)
    assert float((slope * (best - u)).sum()) <= 1e-11
    assert (active.weights >= 0).all() and abs(float(active.weights.sum()) - 1) <= 1e-12
    mixed = (active.weights[0, :, None] * active.unary[0]).sum(0)
    torch.testing.assert_close(mixed, u.flatten(), atol=1e-12, rtol=0)


@every_kind
@pytest.mark.parametrize("scale", [1e-3, 1e-2])
def test_gradient_is_that_of_the_whole_face(factor: Factor, shape: tuple[int, ...], scale: float):
    step, close = 1e-7, 0
    for seed in range(3):
        scores = drawn(shape, scale, seed).requires_grad_()
        weights, direction = drawn(shape, 1.0, 10 + seed), drawn(shape, 1.0, 20 + seed)
        u = sparsemap(scores, factor)
        (grad,) = torch.autograd.grad((u * weights).sum(), scores)
        with torch.no_grad():
            moved = sparsemap(scores + step * direction, factor) - sparsemap(scores - step * direction, factor)
        wanted = float((moved * weights).sum()) / (2 * step)
        close += abs(wanted - float((grad * direction).sum())) <= 1e-4 * (1 + abs(wanted))
    assert close >= 2  # a step may cross from one face to another


@every_kind
def test_derivative_is_the_projection_onto_the_face(factor: Factor, shape: tuple[int, ...]):
    scores = drawn(shape, 1e-3)
    solution = factor.solve(scores[None])
    assert isinstance(solution, ActiveSolution)
    once = solution.jvp(drawn(shape, 1.0, 1)[None], _none(solution))[0]
    twice = solution.jvp(once, _none(solution))[0]
    torch.testing.assert_close(twice, once, atol=1e-9, rtol=0)
    if type(factor) is DependencyTree and not factor.projective:
        # All arcs are in use: what is left is one head a word, and that one of them be the root, if that binds.
        change = drawn(shape, 1.0, 1)
        size = len(change)
        change = change - change.mean(-1, keepdim=True)
        binds = factor.single_root or (scores - scores.mean(-1, keepdim=True)).diagonal().sum() < 0
        root = torch.eye(size, dtype=F64) - 1 / size
        change = change - root * change.diagonal().sum() / root.square().sum() * bool(binds)
        torch.testing.assert_close(once[0], change, atol=1e-9, rtol=0)


class OneOfFour(Factor):
    """One entry of every group of four."""

    def maximize(self, scores: torch.Tensor, additional: torch.Tensor | None) -> torch.Tensor:
        return scores.unflatten(-1, (-1, 4)).argmax(-1)

    def features(self, structures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        return torch.nn.functional.one_hot(structures, 4).flatten(-2), None


def test_derivatives_of_a_custom_factor_see_the_whole_face(monkeypatch):
    # Its face has 24 dimensions, more than the search may keep structures; marginals are sparsemax of each group.
    monkeypatch.setattr("omegamax.kernels.structures.reference.MAX_TIED", 12)
    scores, weights = drawn((32,), 1e-3), drawn((32,), 1.0, 1)
    groups = weights.unflatten(-1, (-1, 4))
    wanted = (groups - groups.mean(-1, keepdim=True)).flatten()

    def value(x: torch.Tensor) -> torch.Tensor:
        return (sparsemap(x, OneOfFour()) * weights).sum()

    assert int(OneOfFour().solve(torch.zeros(1, 32, dtype=F64)).active.count) == 12
    for point in (scores, torch.zeros_like(scores)):
        torch.testing.assert_close(torch.func.grad(value)(point), wanted, atol=1e-9, rtol=0)
    leaf = scores.clone().requires_grad_()
    (grad,) = torch.autograd.grad(value(leaf), leaf, create_graph=True)
    torch.testing.assert_close(grad, wanted, atol=1e-9, rtol=0)


def test_transforms_see_the_whole_face():
    scores, weights = drawn((19, 19), 1e-3), drawn((19, 19), 1.0, 1)

    def value(x: torch.Tensor) -> torch.Tensor:
        return (sparsemap(x, DependencyTree()) * weights).sum()

    leaf = scores.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(value(leaf), leaf)
    torch.testing.assert_close(torch.func.grad(value)(scores), wanted, atol=1e-12, rtol=0)
    _, change = torch.func.jvp(value, (scores,), (weights,))
    torch.testing.assert_close(change, (wanted * weights).sum(), atol=1e-9, rtol=0)


def test_gradient_through_a_graph_is_that_of_the_whole_face():
    # All arcs are in use: what is left is one head a word. The face has more dimensions than a search keeps structures.
    scores, weights = drawn((24, 24), 1e-3), drawn((24, 24), 1.0, 1)
    scores.diagonal().add_(0.1)  # roots are not scarce
    leaf = scores.clone().requires_grad_()
    fg = FactorGraph()
    u = fg.variable_from(leaf)
    fg.add(DependencyTree(u))
    fg.solve()
    (given,) = torch.autograd.grad((u.value * weights).sum(), leaf)
    torch.testing.assert_close(given, weights - weights.mean(-1, keepdim=True), atol=1e-8, rtol=0)


def test_gradient_through_a_graph_of_one_factor_is_that_of_sparsemap():
    scores, weights = drawn((24, 24), 1e-3), drawn((24, 24), 1.0, 1)
    leaf = scores.clone().requires_grad_()
    (wanted,) = torch.autograd.grad((sparsemap(leaf, DependencyTree(projective=True)) * weights).sum(), leaf)
    fg = FactorGraph()
    u = fg.variable_from(leaf)
    fg.add(DependencyTree(u, projective=True))
    fg.solve()
    (given,) = torch.autograd.grad((u.value * weights).sum(), leaf)
    torch.testing.assert_close(given, wanted, atol=1e-8, rtol=0)


def _none(solution: ActiveSolution) -> torch.Tensor | None:
    count = solution.active.additional.shape[-1]
    return torch.zeros(1, count, dtype=F64) if count else None


@pytest.mark.parametrize("case", [c for c in CASES if len(c.structures) > 1], ids=lambda case: case.name)
@pytest.mark.parametrize("scale", [1e-6, 1e-2])
def test_flat_scores_solve_their_program(case: Case, scale: float):
    scores, additional = case.draw(1, scale)
    worth = None if additional is None else (additional @ case.additional.T)[0].numpy()
    joint = Joint(scores.flatten().numpy())
    listed = case.structures.flatten(1).numpy()

    class Row:
        index, negated = torch.arange(listed.shape[1]).numpy(), torch.zeros(listed.shape[1], dtype=torch.bool).numpy()

    joint.add(Row, listed, worth)
    wanted = joint.solve()
    given = sparsemap(scores, case.factor, additional).flatten().numpy()
    assert abs(wanted - given).max() < 1e-6
