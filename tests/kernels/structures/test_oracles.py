"""The best structure, against the list of all."""

from __future__ import annotations

import math

import pytest
import torch
from structured import listing
from structured.cases import COMPLETE, F64, Case, every_case
from torch import Tensor

from omegamax.kernels.structures.oracles import oracle
from omegamax.structured import DependencyTree, SequentialSubsets


def scores_of(case: Case, found: Tensor, scores: Tensor, additional: Tensor | None) -> Tensor:
    total = (found * scores).flatten(1).sum(-1)
    return total if additional is None else total + (case.factor.additional_features(found) * additional).sum(-1)


def is_listed(case: Case, found: Tensor) -> bool:
    equal = (found[:, None] == case.structures).flatten(2).all(-1)
    return bool(equal.any(-1).all())


@every_case
@pytest.mark.parametrize("kind", ["normal", "negative", "ties", "flat", "huge"])
def test_best_structure_beats_all_others(case: Case, kind: str):
    scores, additional = case.draw(40)
    if kind == "negative":
        scores, additional = -5 - scores.abs(), None if additional is None else -additional.abs()
    elif kind == "ties":
        scores, additional = scores.round(), None if additional is None else additional.round()
    elif kind == "flat":
        scores, additional = torch.zeros_like(scores), None if additional is None else torch.zeros_like(additional)
    elif kind == "huge":
        scores, additional = 1e30 * scores, None if additional is None else 1e30 * additional
    found = case.factor.maximize(scores, additional)
    assert is_listed(case, found)
    best = case.linear(scores, additional).max(-1).values
    short = best - scores_of(case, found, scores, additional)
    assert (short / scores.abs().max().clamp(min=1)).max() <= 4e-15


@every_case
def test_forbidden_parts_are_avoided(case: Case):
    scores, additional = case.draw(60, seed=1)
    # Forbid what the best structure uses, part by part.
    for step in range(6):
        linear = case.linear(torch.where(scores == -math.inf, -1e9, scores), additional)
        feasible = linear.max(-1).values > -1e8
        found = case.factor.maximize(scores, additional)
        assert torch.equal(~found.flatten(1).isnan().any(-1), feasible)
        found, left = found[feasible], scores[feasible]
        assert ((found == 0) | (left > -math.inf)).all()
        got = scores_of(
            case, found, torch.where(left == -math.inf, 0.0, left), None if additional is None else additional[feasible]
        )
        assert torch.allclose(linear.max(-1).values[feasible], got, rtol=0, atol=1e-12)
        used = torch.zeros(len(scores), scores[0].numel(), dtype=torch.bool)
        used[feasible] = found.flatten(1) > 0
        one = (used.cumsum(-1) == 1 + step % 2) & used
        scores = scores.masked_fill(one.reshape(scores.shape), -math.inf)


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("single_root", [False, True])
def test_trees_of_five_words_beat_all_others(projective: bool, single_root: bool):
    case = Case("", DependencyTree(projective, single_root), listing.dependency_trees(5, projective, single_root))
    # Cayley's formula, and every one of its relatives known.
    count = {(False, False): 6**4, (False, True): 5**4, (True, False): 273, (True, True): 143}
    assert len(case.structures) == count[projective, single_root]
    for scores in (case.draw(60)[0], case.draw(60)[0].round(), 10 * case.draw(60, seed=3)[0] - 20):
        found = case.factor.maximize(scores, None)
        assert is_listed(case, found)
        assert (case.linear(scores, None).max(-1).values - (found * scores).sum((-2, -1))).abs().max() <= 1e-13


def test_nested_cycles_are_contracted():
    # Greedy heads form {0, 1}, its contraction joins {2, 3}, and so on: every merge makes another cycle.
    size = 6
    scores = torch.zeros(1, size, size, dtype=F64)
    for i in range(size):
        for j in range(size):
            scores[0, i, j] = -50 if i == j else 10.0 / (1 + abs(i - j)) - 0.01 * i
    structures = listing.dependency_trees(size)
    found = DependencyTree().maximize(scores, None)
    assert (found * scores).sum() == pytest.approx((structures * scores).sum((-2, -1)).max().item(), abs=1e-12)


def test_single_root_holds_whatever_the_scores():
    scores = torch.diag_embed(torch.full((3, 5), 1e12, dtype=F64)) + torch.randn(3, 5, 5, dtype=F64)
    for projective in (False, True):
        found = DependencyTree(projective, single_root=True).maximize(scores, None)
        assert (found.diagonal(dim1=-2, dim2=-1).sum(-1) == 1).all()


def test_sequential_subset_counts_ones_and_pairs():
    scores, transition = torch.randn(50, 12, dtype=F64), 2 * torch.randn(50, 11, dtype=F64)
    for k in (0, 1, 5, 12):
        case = Case("", SequentialSubsets(k), listing.subsets(12, k))
        found = case.factor.maximize(scores, transition)
        assert (found.sum(-1) == k).all()
        best = case.linear(scores, transition).max(-1).values
        assert (best - scores_of(case, found, scores, transition)).abs().max() <= 1e-13


def test_kinds_are_those_of_the_kernels():
    # Each row of the answer depends on its own row of the scores only.
    for kind, sizes, graph, parts, extra in (
        ("k_subsets", (5, 2, 0), None, 5, 0),
        ("sequential_k_subsets", (5, 2, 1), None, 5, 4),
        ("sequence", (3, 2), None, 6, 12),
        ("arborescence", (4, 0), None, 16, 0),
        ("projective", (4, 1), None, 16, 0),
        ("spanning_tree", (5,), COMPLETE, 10, 0),
    ):
        scores, additional = torch.randn(7, parts, dtype=F64), torch.randn(7, extra, dtype=F64)
        best = oracle(kind, sizes, graph)
        unary, more = best(scores, additional)
        assert unary.shape == scores.shape and more.shape == additional.shape
        one, _ = best(scores[3:4], additional[3:4])
        assert torch.equal(one[0], unary[3])
        none, _ = best(scores[:0], additional[:0])
        assert none.shape == (0, parts)
