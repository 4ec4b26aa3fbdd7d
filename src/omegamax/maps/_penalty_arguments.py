"""Checks of what a penalty of total variation is given: values, strength, edges and their weights."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._arguments import check_type, is_number
from omegamax._checks import check_dim, check_floating, check_integers, readable
from omegamax._map_parameters import row_parameter
from omegamax._numerics import working_dtype


def check_values(name: str, argument: str, x: Tensor, dim: int) -> int:
    """Refuse what is not a floating tensor with at least one entry along ``dim``; return ``dim`` >= 0."""
    check_floating(name, argument, x)
    return check_dim(name, x, dim)


def check_strength(name: str, strength: float | Tensor) -> None:
    """Refuse what is not a number or a floating tensor, or is below 0."""
    if not isinstance(strength, Tensor):
        if not is_number(strength):
            check_type(name, "strength", strength, Tensor, "a float or a tensor")
        if not strength >= 0:
            raise ValueError(f"{name}: strength must be >= 0, got {strength:g}")
        return
    check_floating(name, "strength", strength)
    if readable(strength) and not bool((strength >= 0).all()):
        raise ValueError(f"{name}: strength must be >= 0 everywhere, got a minimum of {strength.min().item():g}")


def to_strength(name: str, strength: float | Tensor, x: Tensor, *axes: int) -> float | Tensor:
    """Return a finite strength, a float or with the rank of ``x`` and size 1 along ``axes``; refuse one below 0."""
    check_strength(name, strength)
    # Infinity levels everything, and so does any number that is large enough; it is no trouble as a factor.
    most = torch.finfo(working_dtype(x)).max
    if not isinstance(strength, Tensor):
        return min(float(strength), most)
    for axis in axes:
        rows = row_parameter(name, "strength", strength, x, axis)
    return rows.clamp(max=most)


def check_edges(name: str, edges: Tensor, nodes: int | None = None) -> Tensor:
    """Return edges ``[2, E]`` as int64; refuse negative indices, and those beyond ``nodes`` if that is known."""
    check_integers(name, "edges", edges)
    if edges.dim() != 2 or edges.shape[0] != 2:
        raise ValueError(f"{name}: edges must have shape [2, E], got {tuple(edges.shape)}")
    if edges.numel() and readable(edges):
        least, most = int(edges.min()), int(edges.max())
        if nodes is None:
            nodes = max(most, 0) + 1
        if least < 0 or most >= nodes:
            worst = least if least < 0 else most
            raise IndexError(f"{name}: edges must lie in [0, {nodes}), the nodes along dim, got {worst}")
    return edges.long()


def to_weights(name: str, weights: Tensor | None, edges: Tensor, x: Tensor) -> Tensor:
    """Return one weight for each edge, >= 0, in the dtype of the computation: 1 if none is given, 0 for a loop.

    A loop joins a node to itself, where nothing can differ. Graphs with them are common: message passing adds them.
    """
    count = edges.shape[1]
    loops = edges[0] == edges[1]
    if weights is None:
        return (~loops).to(working_dtype(x))
    check_floating(name, "weights", weights)
    if weights.shape != (count,):
        raise ValueError(f"{name}: weights must have shape [{count}], one for each edge, got {tuple(weights.shape)}")
    if readable(weights) and not bool(((weights >= 0) & weights.isfinite()).all()):
        raise ValueError(f"{name}: weights must be finite and >= 0 everywhere, got values that are not")
    return torch.where(loops, 0.0, weights.to(working_dtype(x)))
