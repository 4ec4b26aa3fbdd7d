"""From the factors that a user added to blocks of like ones."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from omegamax._checks import check_floating
from omegamax.structured._blocks import Block, ByProjection, BySearch, Rule, likeness
from omegamax.structured._factor import Factor
from omegamax.structured._logic import LogicFactor
from omegamax.structured._variables import Variable

if TYPE_CHECKING:
    from omegamax.structured._graph import FactorGraph


@dataclass
class Placed:
    """K factors of one kind on variables of a graph."""

    kind: Hashable  # one call can solve those of equal kind
    rule: Any  # what makes their rule: a polytope, or a structured factor and its event
    index: np.ndarray  # [K, m]
    negated: np.ndarray  # [K, m]
    parameters: np.ndarray  # [K, p]
    additional: Tensor | None  # [*batch, K, a]
    label: str


def place(graph: FactorGraph, factor: Any, variables: Any, additional: Tensor | None) -> Placed:
    """Check what :meth:`FactorGraph.add` is given."""
    name = "FactorGraph.add"
    if isinstance(factor, Factor) and factor.variables is not None:
        if variables is not None:
            raise TypeError(f"{name}: variables of {factor!r} are given twice")
        variables = factor.variables
    if isinstance(factor, LogicFactor):
        if variables is not None or additional is not None:
            raise TypeError(f"{name}: variables and additional belong to structured factors; {factor!r} has its own")
        if factor.graph is not graph:
            raise ValueError(f"{name}: factor must be on variables of this graph, got {factor!r} of another")
        count = 0 if factor.additional is None else factor.additional.shape[-1]
        kind = (type(factor.polytope), factor.index.shape[1], count)
        return Placed(
            kind, factor.polytope, factor.index, factor.negated, factor.parameters, factor.additional, repr(factor)
        )
    if not isinstance(factor, Factor):
        raise TypeError(f"{name}: factor must be a logic factor or a structured Factor, got {type(factor).__name__}")
    if not isinstance(variables, Variable):
        given = "none" if variables is None else type(variables).__name__
        raise TypeError(f"{name}: variables must be a Variable, as in add({type(factor).__name__}(u)), got {given}")
    if variables.graph is not graph:
        raise ValueError(f"{name}: variables must be of this graph, got variables of another")
    return _structured(name, graph, factor, variables, additional)


def _structured(
    name: str, graph: FactorGraph, factor: Factor, variables: Variable, additional: Tensor | None
) -> Placed:
    rank = len(variables.shape) - factor.event_dims
    if rank < 0 or not variables.index.size:
        raise ValueError(
            f"{name}: variables for {factor!r} must have at least {factor.event_dims} axes and one entry, got shape "
            f"{variables.shape}"
        )
    lead, event = variables.shape[:rank], variables.shape[rank:]
    whole = (*graph.batch_shape, *lead)
    like = torch.zeros(*whole, *event, dtype=torch.float64, device=graph._scores[0].device)
    factor.check(name, like)
    if additional is None:
        additional = factor.additional_scores(like)
    if additional is not None:
        additional = _spread(name, factor, additional, whole, factor.additional_size(event))
        additional = additional.reshape(*graph.batch_shape, math.prod(lead), additional.shape[-1])
    count = math.prod(lead)
    return Placed(
        (likeness(factor, event), event, 0 if additional is None else additional.shape[-1]),
        (factor, event),
        variables.index.reshape(count, -1),
        variables.negated.reshape(count, -1),
        np.zeros((count, 0)),
        additional,
        repr(factor),
    )


def _spread(name: str, factor: Factor, additional: Tensor, whole: tuple[int, ...], size: int | None) -> Tensor:
    check_floating(name, "additional", additional)
    if additional.dim() < 1 or size not in (None, additional.shape[-1]):
        raise ValueError(
            f"{name}: additional scores for {factor!r} must be [*, {'m' if size is None else size}], got shape "
            f"{tuple(additional.shape)}"
        )
    try:
        return additional.expand(*whole, additional.shape[-1])
    except RuntimeError:
        raise ValueError(
            f"{name}: additional scores of shape {tuple(additional.shape)} do not broadcast to {whole}"
        ) from None


def blocks(
    placed: list[Placed], count: int, device: torch.device
) -> tuple[list[Block], list[Tensor | None], list[str]]:
    """Like factors together: the blocks, their additional scores ``[B, K, a]``, and what each factor is called."""
    kinds: dict[Hashable, list[Placed]] = {}
    for one in placed:
        kinds.setdefault(one.kind, []).append(one)
    found: list[Block] = []
    additional: list[Tensor | None] = []
    for group in kinds.values():

        def joined(name: str, group: list[Placed] = group) -> Tensor:
            return torch.from_numpy(np.concatenate([getattr(one, name) for one in group])).to(device)

        rule: Rule
        if isinstance(group[0].rule, tuple):
            rule = BySearch(*group[0].rule)
        else:
            rule = ByProjection(group[0].rule, joined("parameters"))
        found.append(Block(rule, joined("index"), joined("negated")))
        extra = [one.additional for one in group if one.additional is not None]
        shaped = [a.to(device, torch.float64).reshape(count, *a.shape[-2:]) for a in extra]
        additional.append(torch.cat(shaped, 1) if extra else None)
    labels = [one.label for group in kinds.values() for one in group for _ in one.index]
    return found, additional, labels


def is_acyclic(placed: list[Placed]) -> bool:
    """Whether factors and variables, as the two kinds of nodes of a graph, form a forest."""
    parent: dict[Hashable, Hashable] = {}

    def root(node: Hashable) -> Hashable:
        while parent.setdefault(node, node) != node:
            parent[node] = node = parent[parent[node]]
        return node

    for number, one in enumerate(placed):
        for k, row in enumerate(one.index.tolist()):
            for variable in row:
                mine, its = root((number, k)), root(variable)
                if mine == its:
                    return False
                parent[mine] = its
    return True
