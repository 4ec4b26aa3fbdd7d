"""Where the factors of a graph are: like ones go into one block, and whether they close a cycle can be told."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from omegamax.structured._blocks import Block, BlockSolver, ProjectionSolver, SparseMAPSolver
from omegamax.structured._factor import Factor
from omegamax.structured._logic import Polytope


@dataclass
class Placement:
    """K factors of one kind on variables of a graph."""

    kind: Hashable  # one call can solve those of equal kind
    source: Polytope | tuple[Factor, tuple[int, ...]]  # a polytope, or a structured factor and its event
    index: np.ndarray  # [K, m]
    negated: np.ndarray  # [K, m]
    parameters: np.ndarray  # [K, p]
    additional: Tensor | None  # [*batch, K, a]
    label: str


def group_placements(
    placements: list[Placement], count: int, device: torch.device
) -> tuple[list[Block], list[Tensor | None], list[str]]:
    """Put like factors together: return blocks, their additional scores ``[B, K, a]``, and a label for each factor."""
    kinds: dict[Hashable, list[Placement]] = {}
    for placement in placements:
        kinds.setdefault(placement.kind, []).append(placement)
    blocks: list[Block] = []
    additional: list[Tensor | None] = []
    for group in kinds.values():

        def join(name: str, group: list[Placement] = group) -> Tensor:
            return torch.from_numpy(np.concatenate([getattr(one, name) for one in group])).to(device)

        source = group[0].source
        solver: BlockSolver
        if isinstance(source, tuple):
            solver = SparseMAPSolver(*source)
        else:
            solver = ProjectionSolver(source, join("parameters"))
        blocks.append(Block(solver, join("index"), join("negated")))
        extra = [one.additional for one in group if one.additional is not None]
        shaped = [a.to(device, torch.float64).reshape(count, *a.shape[-2:]) for a in extra]
        additional.append(torch.cat(shaped, 1) if extra else None)
    labels = [one.label for group in kinds.values() for one in group for _ in one.index]
    return blocks, additional, labels


def is_acyclic(placements: list[Placement]) -> bool:
    """Tell whether factors and variables, as the two kinds of nodes of a graph, form a forest."""
    parent: dict[Hashable, Hashable] = {}

    def root(node: Hashable) -> Hashable:
        while parent.setdefault(node, node) != node:
            parent[node] = node = parent[parent[node]]
        return node

    for p, placement in enumerate(placements):
        for k, row in enumerate(placement.index.tolist()):
            for variable in row:
                mine, its = root((p, k)), root(variable)
                if mine == its:
                    return False
                parent[mine] = its
    return True
