"""The built-in factors at a size at which all their structures can be listed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from omegamax.structured import DependencyTree, Factor, Sequence, SequentialSubsets, SpanningTree, Subsets
from structured import listing

F64 = torch.float64
# Two triangles with an edge in common, a fifth node hanging off, and a parallel edge.
GRAPH = torch.tensor([[0, 1, 2, 1, 3, 3, 0], [1, 2, 0, 3, 2, 4, 1]])
COMPLETE = torch.tensor(list(itertools.combinations(range(5), 2))).T


@dataclass(frozen=True)
class Case:
    """A factor and the list of its structures."""

    name: str
    factor: Factor
    structures: Tensor  # [S, *event]

    @property
    def event(self) -> tuple[int, ...]:
        return tuple(self.structures.shape[1:])

    @property
    def additional(self) -> Tensor | None:
        """Additional parts ``[S, m]``."""
        return self.factor.additional_features(self.structures)

    def draw(self, rows: int, scale: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor | None]:
        """Scores, and additional scores if the factor has them."""
        generator = torch.Generator().manual_seed(seed)
        scores = scale * torch.randn(rows, *self.event, dtype=F64, generator=generator)
        if self.additional is None:
            return scores, None
        return scores, scale * torch.randn(rows, self.additional.shape[1], dtype=F64, generator=generator)

    def linear(self, scores: Tensor, additional: Tensor | None) -> Tensor:
        """The score of every structure, ``[B, S]``."""
        total = scores.flatten(1) @ self.structures.flatten(1).T
        return total if additional is None else total + additional @ self.additional.T


CASES = [
    Case("Subsets", Subsets(2), listing.subsets(6, 2)),
    Case("Subsets at most", Subsets(3, at_most=True), listing.subsets(6, 3, at_most=True)),
    Case("Subsets none", Subsets(0), listing.subsets(4, 0)),
    Case("Subsets all", Subsets(4), listing.subsets(4, 4)),
    Case("SequentialSubsets", SequentialSubsets(3), listing.subsets(7, 3)),
    Case("SequentialSubsets at most", SequentialSubsets(3, at_most=True), listing.subsets(7, 3, at_most=True)),
    Case("SequentialSubsets none", SequentialSubsets(0), listing.subsets(4, 0)),
    Case("SequentialSubsets all", SequentialSubsets(4), listing.subsets(4, 4)),
    Case("SequentialSubsets of one", SequentialSubsets(1), listing.subsets(1, 1)),
    Case("Sequence", Sequence(), listing.sequences(4, 3)),
    Case("Sequence of one", Sequence(), listing.sequences(1, 4)),
    Case("Sequence of one label", Sequence(), listing.sequences(3, 1)),
    Case("DependencyTree", DependencyTree(), listing.dependency_trees(4)),
    Case("DependencyTree single root", DependencyTree(single_root=True), listing.dependency_trees(4, single_root=True)),
    Case("DependencyTree projective", DependencyTree(True), listing.dependency_trees(4, True)),
    Case("DependencyTree projective single root", DependencyTree(True, True), listing.dependency_trees(4, True, True)),
    Case("DependencyTree of one", DependencyTree(), listing.dependency_trees(1)),
    Case("SpanningTree", SpanningTree(GRAPH), listing.spanning_trees(GRAPH, 5)),
    Case("SpanningTree complete", SpanningTree(COMPLETE), listing.spanning_trees(COMPLETE, 5)),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
some_cases = pytest.mark.parametrize(
    "case",
    [
        c
        for c in CASES
        if c.name in ("Subsets at most", "SequentialSubsets", "Sequence", "DependencyTree", "SpanningTree complete")
    ],
    ids=lambda case: case.name,
)
