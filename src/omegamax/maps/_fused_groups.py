"""Total variation's proximal operators as operations, whose derivatives are means over fused groups.

A fused group moves as one: a change of its entries moves it by their mean, a change of the limit of an edge around it
by that change over its size. So both directions of the derivative, in the values, in the strength and in the weights,
are one averaging over groups, :func:`_spread`, before or after what the edges do. The groups themselves are constant
almost everywhere, and so is the averaging.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._operation import Map
from omegamax.kernels import export
from omegamax.kernels.variation import chain_pull, drop, grid_pull

Parameter = TypeVar("Parameter", Tensor, float, float | Tensor)


def _detach(a: Parameter) -> Parameter:
    return a.detach() if isinstance(a, Tensor) else a


def _spread(name: str, parameters: list[str], solve: Callable[..., Tensor]) -> Map:
    """Make the map ``solve(g, w, *parameters, dim)`` of ``g`` to its mean over each group: linear, symmetric."""

    def vjp(g: Tensor, _: Tensor, *given, dim: int):
        return (spread(g, *given, dim=dim), *(lambda a=a: torch.zeros_like(a) for a in given))

    def jvp(tangents, out: Tensor, *given, dim: int) -> Tensor:
        return torch.zeros_like(out) if tangents[0] is None else spread(tangents[0], *given, dim=dim)

    spread = Map(f"{name}_spread", ["w", *parameters], solve, vjp, jvp)
    return spread


def _lattice(
    name: str,
    solve: Callable[[Tensor, float | Tensor, int], Tensor],
    mean: Callable[[Tensor, Tensor, float | Tensor, int], Tensor],
    pull: Callable[[Tensor, int], Tensor],
    axes: Callable[[int], tuple[int, ...]],
    export: Callable[..., Tensor] | None = None,
) -> Map:
    """Make the map of a chain or grid; ``pull(w, dim)`` is minus the derivative of its variation on ``axes(dim)``."""
    spread = _spread(name, ["strength"], lambda g, w, strength, dim: mean(w.expand(g.shape), g, strength, dim))

    def vjp(g: Tensor, w: Tensor, strength: float | Tensor, *, dim: int):
        w = _detach(w)
        credit = spread(g, w, _detach(strength), dim=dim)
        return credit, lambda: (credit * pull(w, dim)).sum(axes(dim), keepdim=True)

    def jvp(tangents, w: Tensor, strength: float | Tensor, *, dim: int) -> Tensor:
        dx, dstrength = tangents
        w = _detach(w)
        move = torch.zeros_like(w) if dx is None else dx
        if dstrength is not None:
            move = move + dstrength * pull(w, dim)
        return spread(move, w, _detach(strength), dim=dim)

    return Map(name, ["strength"], solve, vjp, jvp, export=export)


chain_map = _lattice(
    "tv_prox_1d",
    lambda x, strength, dim: kernels.solve("tv_chain", x, strength, dim),
    lambda w, g, strength, dim: kernels.solve("tv_chain_vjp", w, g, strength, dim),
    chain_pull,
    lambda dim: (dim,),
    export.tv_chain,
)


# Grids and graphs lie along the last axes, to the very last of which ``dim`` always points.
grid_map = _lattice(
    "tv_prox_2d",
    lambda x, strength, dim: kernels.solve("tv_grid", x, strength),
    lambda w, g, strength, dim: kernels.solve("tv_grid_vjp", w, g, strength),
    lambda w, dim: grid_pull(w),
    lambda dim: (dim - 1, dim),
)


def _solve_graph(op: str, *tensors: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """Run ``op`` on one graph. Its kernels share the weights between rows: if these differ, each row goes alone."""
    # Weights are [1, ..., 1, E]. Edges are [2, E], but vmap puts an axis in front of them as of every parameter.
    graphs, count = edges.shape[:-2].numel(), weights.shape[-1]
    if graphs != 1:
        raise ValueError(f"{op}: edges cannot be mapped over, all rows share one graph; got {graphs} of them")
    edges = edges.reshape(2, count)
    if weights.numel() == count:
        return kernels.solve(op, *tensors, edges, weights.reshape(count), strength)
    rows = tensors[0].shape[:-1]
    each = [t.reshape(-1, 1, t.shape[-1]) for t in (*tensors, weights.expand(*rows, count))]
    strengths = torch.as_tensor(strength, dtype=each[0].dtype, device=each[0].device).expand(*rows, 1).reshape(-1, 1, 1)
    out = []
    for *row, own, s in zip(*each, strengths, strict=True):
        out.append(kernels.solve(op, *row, edges, own.reshape(count), s))
    return torch.stack(out).reshape(tensors[0].shape)


_graph_spread = _spread(
    "tv_prox_graph",
    ["strength", "weights", "edges"],
    lambda g, w, strength, weights, edges, dim: _solve_graph(
        "tv_graph_vjp", w.expand(g.shape), g, edges=edges, weights=weights, strength=strength
    ),
)


def _ends(v: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    i, j = edges.reshape(2, -1)
    return v.index_select(-1, i), v.index_select(-1, j)


def _graph_vjp(g: Tensor, w: Tensor, strength: float | Tensor, weights: Tensor, edges: Tensor, *, dim: int):
    w = _detach(w)
    credit = _graph_spread(g, w, _detach(strength), _detach(weights), edges, dim=dim)

    def limits() -> Tensor:
        """Return the derivative in the limit of each edge."""
        a, b = _ends(credit, edges)
        return (b - a) * drop(*_ends(w, edges))

    return credit, lambda: (weights * limits()).sum(-1, keepdim=True), lambda: strength * limits(), None


def _graph_jvp(tangents, w: Tensor, strength: float | Tensor, weights: Tensor, edges: Tensor, *, dim: int) -> Tensor:
    dx, dstrength, dweights, _ = tangents
    w = _detach(w)
    move = torch.zeros_like(w) if dx is None else dx
    limits = [] if dstrength is None else [dstrength * weights]
    limits += [] if dweights is None else [strength * dweights]
    if limits:
        i, j = edges.reshape(2, -1)
        falls = sum(limits) * drop(*_ends(w, edges))
        move = move.index_add(-1, j, falls).index_add(-1, i, -falls)
    return _graph_spread(move, w, _detach(strength), _detach(weights), edges, dim=dim)


graph_map = Map(
    "tv_prox_graph",
    ["strength", "weights", "edges"],
    lambda x, strength, weights, edges, dim: _solve_graph(
        "tv_graph", x, edges=edges, weights=weights, strength=strength
    ),
    _graph_vjp,
    _graph_jvp,
)
