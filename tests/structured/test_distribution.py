"""Which of the many distributions with the same marginals is found: always the same one, and in bounded time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import omegamax
from omegamax.structured import DependencyTree, Factor, Structures, sparsemap
from structured.cases import CASES, F64, Case

# Several structures, and not one for each marginal.
NAMES = (
    "Subsets",
    "SequentialSubsets",
    "Sequence",
    "DependencyTree",
    "DependencyTree projective",
    "SpanningTree complete",
)
many_mixtures = pytest.mark.parametrize("case", [c for c in CASES if c.name in NAMES], ids=lambda case: case.name)


def support(found: Structures) -> list[set[tuple[float, ...]]]:
    return [
        {tuple(y.tolist()) for y, p in zip(ys.flatten(1), ps, strict=True) if p > 1e-6}
        for ys, ps in zip(found.structures, found.probabilities, strict=True)
    ]


def found(case: Case, scores: Tensor, additional: Tensor | None, backend: str) -> Structures:
    with omegamax.backend(backend):
        return sparsemap(scores, case.factor, additional, return_structures=True)[1]


@many_mixtures
def test_distribution_does_not_jump_with_the_scores(case: Case):
    scores, additional = case.draw(60, 0.3)
    nearby = scores + 1e-10 * torch.randn_like(scores)
    for backend in ("auto", "reference"):
        here, there = (found(case, z, additional, backend) for z in (scores, nearby))
        assert support(here) == support(there)
        assert (here.probabilities - there.probabilities).abs().max() <= 1e-7


@many_mixtures
def test_both_searches_find_the_same_distribution(case: Case):
    scores, additional = case.draw(60, 0.3, seed=2)
    ours, plain = (found(case, scores, additional, backend) for backend in ("auto", "reference"))
    assert support(ours) == support(plain)


@many_mixtures
def test_expectations_have_the_derivative_that_differences_show(case: Case):
    # Of what is no function of the marginals: the square of a weighted sum of parts.
    scores, additional = case.draw(1, 0.3, seed=3)
    weight = torch.randn(case.event, dtype=F64)

    def expected(z: Tensor) -> Tensor:
        distribution = sparsemap(z, case.factor, additional, return_structures=True)[1]
        worth = (distribution.structures * weight).flatten(2).sum(-1).square()
        return (distribution.probabilities * worth).sum()

    leaf = scores.clone().requires_grad_()
    (slope,) = torch.autograd.grad(expected(leaf), leaf)
    away = torch.randn_like(scores)
    step = 1e-7
    difference = (expected(scores + step * away) - expected(scores - step * away)) / (2 * step)
    assert abs((slope * away).sum() - difference) <= 1e-6


@pytest.mark.parametrize("seed", [3, 5, 19])
def test_scores_that_nearly_tie_end_the_search(seed: int):
    # Structures that gain 1e-12 by rounding were once taken in and let go again until the limit.
    generator = torch.Generator().manual_seed(seed)
    scores = (torch.randn(1, 20, 20, dtype=F64, generator=generator) / 2).round() / 4
    scores = scores + 1e-9 * torch.randn(1, 20, 20, dtype=F64, generator=generator)
    factor: Factor = DependencyTree()
    solution = factor.solve(scores)
    assert solution.active.iterations.item() < 600
    slope = scores - solution.marginals
    gap = ((factor.maximize(slope, None) - solution.marginals) * slope).sum()
    assert gap <= 1e-12
