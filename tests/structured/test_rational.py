"""Marginals, values and Jacobians against SparseMAP in rational arithmetic, above all where structures tie."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

import omegamax
from omegamax.structured import (
    DependencyTree,
    Matching,
    Sequence,
    SequentialSubsets,
    SpanningTree,
    Subsets,
    sparsemap,
    sparsemap_loss,
)
from structured import listing, rational
from structured.cases import COMPLETE, F64, GRAPH, Case

STEP = 2.0**-20


def matchings(rows: int, columns: int) -> Tensor:
    if rows > columns:
        return matchings(columns, rows).mT
    choices = torch.tensor(list(itertools.permutations(range(columns), rows)))
    return torch.nn.functional.one_hot(choices, columns).to(F64)


CASES = [
    Case("Subsets", Subsets(2), listing.subsets(4, 2)),
    Case("Subsets at most", Subsets(2, True), listing.subsets(4, 2, True)),
    Case("SequentialSubsets", SequentialSubsets(3), listing.subsets(6, 3)),
    Case("SequentialSubsets at most", SequentialSubsets(2, at_most=True), listing.subsets(5, 2, True)),
    Case("Sequence", Sequence(), listing.sequences(3, 2)),
    Case("Matching", Matching(), matchings(3, 3)),
    Case("Matching wide", Matching(), matchings(2, 4)),
    Case("Matching tall", Matching(), matchings(3, 2)),
    Case("DependencyTree", DependencyTree(), listing.dependency_trees(3)),
    Case("DependencyTree single root", DependencyTree(single_root=True), listing.dependency_trees(3, single_root=True)),
    Case("DependencyTree projective", DependencyTree(True), listing.dependency_trees(3, True)),
    Case("SpanningTree", SpanningTree(GRAPH), listing.spanning_trees(GRAPH, 5)),
    Case("SpanningTree complete", SpanningTree(COMPLETE[:, :6]), listing.spanning_trees(COMPLETE[:, :6], 5)),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
both_backends = pytest.mark.parametrize("backend", ["auto", "reference"])

KINDS = {
    "generic": lambda z: z,
    "small": lambda z: z / 16,
    "halves": lambda z: (2 * z).round() / 2,
    "quarters": lambda z: (2 * z).round() / 4,
    "whole": lambda z: z.round(),
    "flat": lambda z: torch.zeros_like(z),
    "almost ties": lambda z: z.round() + 1e-12 * z,
    "1e-12": lambda z: 1e-12 * z,
    "1e6": lambda z: 1e6 * z,
}


def exact(case: Case, scores: Tensor, additional: Tensor | None) -> rational.Exact | None:
    return rational.solve(case.structures.flatten(1), case.additional, scores.flatten(), additional)


@every_case
@both_backends
def test_marginals_value_and_loss_are_exact(case: Case, backend: str):
    for seed, kind in enumerate(KINDS.values()):
        scores, additional = (None if a is None else kind(a)[0] for a in case.draw(1, seed=seed))
        truth = exact(case, scores, additional)
        with omegamax.backend(backend):
            u, found = sparsemap(scores, case.factor, additional, return_structures=True)
            loss = sparsemap_loss(scores, case.structures[0], case.factor, additional)
        scale = 1 + scores.abs().max().item()
        assert (u.flatten() - truth.tensor).abs().max() <= 1e-14 * scale
        p = found.probabilities
        assert (p >= 0).all() and (p[1:] <= p[:-1]).all() and (p.sum() - 1).abs() <= 1e-15 * len(p)
        value = (u * scores).sum() - u.square().sum() / 2
        first = (case.structures[0] * scores).sum() - case.structures[0].sum() / 2
        if additional is not None:
            value = value + (found.additional_marginals * additional).sum()
            first = first + (case.additional[0] * additional).sum()
        assert abs(value.item() - float(truth.value)) <= 1e-14 * scale * u.numel()
        assert loss >= 0 and abs(loss.item() - (float(truth.value) - first.item())) <= 1e-14 * scale * u.numel()


@every_case
@both_backends
@pytest.mark.parametrize("kind", ["generic", "halves", "quarters", "whole", "flat"])
def test_jacobian_is_exact_wherever_the_map_is_smooth(case: Case, backend: str, kind: str):
    scores, additional = (None if a is None else KINDS[kind](a)[0] for a in case.draw(1, seed=7))
    given = (scores,) if additional is None else (scores, additional)
    flat = torch.cat([a.flatten() for a in given])
    size = scores.numel()

    def moved(nudge: Tensor) -> list[Fraction]:
        whole = flat + nudge
        return exact(case, whole[:size], None if additional is None else whole[size:]).marginals

    here = moved(torch.zeros_like(flat))
    sides = []
    for h in (STEP, -STEP):
        columns = (
            [float((a - b) / Fraction(h)) for a, b in zip(moved(n), here, strict=True)]
            for n in h * torch.eye(len(flat), dtype=F64)
        )
        sides.append(torch.tensor(list(columns), dtype=F64).T)
    with omegamax.backend(backend):
        blocks = jacobian(lambda *a: sparsemap(a[0], case.factor, *a[1:]), given)
    ours = torch.cat([b.reshape(size, -1) for b in blocks], 1)
    smooth = (sides[0] - sides[1]).abs().max() <= 1e-9
    if smooth:
        assert (ours - sides[0]).abs().max() <= 1e-9
    # At a kink, still the projection onto the face of a point nearby.
    unary = ours[:, :size]
    assert (unary - unary.mT).abs().max() <= 1e-12 and (unary @ unary - unary).abs().max() <= 1e-12
    assert smooth or kind != "generic"


@every_case
@both_backends
def test_forbidden_parts_are_as_if_their_structures_were_not_there(case: Case, backend: str):
    scores, additional = case.draw(12, seed=3)
    barred = torch.rand(scores.shape, generator=torch.Generator().manual_seed(0)) < 0.3
    scores = scores.masked_fill(barred, -math.inf)
    scores[0] = -math.inf
    refused = 0
    for row, more in zip(scores, [None] * 12 if additional is None else additional, strict=True):
        truth = exact(case, row, more)
        with omegamax.backend(backend):
            if truth is None:
                refused += 1
                with pytest.raises(ValueError, match=r"sparsemap: .*scores"):
                    sparsemap(row, case.factor, more)
            else:
                assert (sparsemap(row, case.factor, more).flatten() - truth.tensor).abs().max() <= 1e-14
    assert refused or getattr(case.factor, "at_most", False)
