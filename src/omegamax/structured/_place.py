"""Factors on variables of a graph: what is given is checked and brought into one form."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from omegamax.structured._factor import BuiltIn, Factor, expand_additional
from omegamax.structured._logic import LogicFactor
from omegamax.structured._placements import Placement
from omegamax.structured._variables import Variable

if TYPE_CHECKING:
    from omegamax.structured._graph import FactorGraph

PLAIN = (bool, int, float, str, type(None))  # options that can be compared


def place(graph: FactorGraph, factor: Any, variables: Any, additional: Tensor | None) -> Placement:
    """Check what :meth:`FactorGraph.add` is given, and bring it into one form."""
    name = "FactorGraph.add"
    if isinstance(factor, LogicFactor):
        if variables is not None or additional is not None:
            raise TypeError(f"{name}: variables and additional belong to structured factors; {factor!r} has its own")
        if factor.graph is not graph:
            raise ValueError(f"{name}: factor must be on variables of this graph, got {factor!r} of another")
        count = 0 if factor.additional is None else factor.additional.shape[-1]
        kind = (type(factor.polytope), factor.index.shape[1], count)
        return Placement(
            kind, factor.polytope, factor.index, factor.negated, factor.parameters, factor.additional, repr(factor)
        )
    if not isinstance(factor, Factor):
        raise TypeError(f"{name}: factor must be a logic factor or a structured Factor, got {type(factor).__name__}")
    if factor.variables is not None:
        if variables is not None:
            raise TypeError(f"{name}: variables of {factor!r} are given twice")
        variables = factor.variables
    if not isinstance(variables, Variable):
        given = "none" if variables is None else type(variables).__name__
        raise TypeError(f"{name}: variables must be a Variable, as in add({type(factor).__name__}(u)), got {given}")
    if variables.graph is not graph:
        raise ValueError(f"{name}: variables must be of this graph, got variables of another")
    return _place_structured(name, graph, factor, variables, additional)


def _place_structured(
    name: str, graph: FactorGraph, factor: Factor, variables: Variable, additional: Tensor | None
) -> Placement:
    """Place a structured factor, once for each of the leading axes of the variables."""
    rank = len(variables.shape) - factor.event_dims
    if rank < 0 or not variables.index.size:
        raise ValueError(
            f"{name}: variables for {factor!r} must have at least {factor.event_dims} axes and one entry, got shape "
            f"{variables.shape}"
        )
    lead, event = variables.shape[:rank], variables.shape[rank:]
    batch = (*graph.batch_shape, *lead)
    like = torch.zeros(*batch, *event, dtype=torch.float64, device=graph._scores[0].device)
    factor.check(name, like)
    if additional is None:
        additional = factor.additional_scores(like)
    if additional is not None:
        additional = expand_additional(name, factor, additional, event, batch)
        additional = additional.reshape(*graph.batch_shape, math.prod(lead), additional.shape[-1])
    count = math.prod(lead)
    return Placement(
        (_batch_key(factor, event), event, 0 if additional is None else additional.shape[-1]),
        (factor, event),
        variables.index.reshape(count, -1),
        variables.negated.reshape(count, -1),
        np.zeros((count, 0)),
        additional,
        repr(factor),
    )


def _batch_key(factor: Factor, event: tuple[int, ...]) -> Hashable:
    """Return a key that is equal for factors that one call can solve."""
    if isinstance(factor, BuiltIn):  # all that differs between two of a kind travels as additional scores
        kind, sizes, graph = factor.kind(event)
        return type(factor), kind, sizes, None if graph is None else tuple(graph.flatten().tolist())
    options = {name: value for name, value in vars(factor).items() if name != "variables"}
    if all(isinstance(value, PLAIN) for value in options.values()):
        return type(factor), tuple(sorted(options.items()))
    return id(factor)
