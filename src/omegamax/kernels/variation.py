"""Total variation in plain torch: chains, grids and graphs, exact, on any device.

``tv_*`` solves ``argmin_w 1/2 |w - x|^2 + strength * sum_e weight_e |w_i - w_j|`` for each row, in float64 whatever the
dtype. Entries of ``-inf`` are absent, with their edges, and come out as they are; NaN or ``+inf`` makes its row NaN.
Values inside a fused group are the same to the last bit, so that groups can be read off the result: ``tv_*_vjp`` is the
mean over them, ``tv_*_slope`` the derivative in the strength.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from omegamax.kernels import variation_chain, variation_graph
from omegamax.kernels.variation_graph import Graph

OPS = (
    *("tv_chain", "tv_chain_vjp", "tv_chain_slope"),
    *("tv_grid", "tv_grid_vjp", "tv_grid_slope"),
    *("tv_graph", "tv_graph_vjp", "tv_graph_slope"),
)


def tv_chain(x: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Neighbours along ``dim``; ``strength`` is a float, or has the rank of ``x`` and size 1 along ``dim``."""

    def solve(y: Tensor, limit: Tensor, there: Tensor) -> Tensor:
        limits = torch.where(there[:, 1:] & there[:, :-1], limit, 0.0)
        return variation_chain.chain(y, limits.clamp(max=_most(y)))

    rows, strengths = _along(x, strength, dim)
    return _scaled(rows, strengths, solve).movedim(-1, dim).contiguous()


def tv_grid(x: Tensor, strength: float | Tensor) -> Tensor:
    """Neighbours along the last two axes; ``strength`` is a float, or has the rank of ``x`` and size 1 along both."""
    edges = grid_edges(x.shape[-2], x.shape[-1], x.device)
    flat, strengths = _flat(x, strength)
    return tv_graph(flat, edges, flat.new_ones(edges.shape[-1]), strengths).reshape(x.shape)


def tv_graph(x: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """Nodes along the last axis, joined by ``edges: [2, E]`` of ``weights: [E]``; ``strength`` as for a chain."""
    i, j = edges

    def solve(y: Tensor, limit: Tensor, there: Tensor) -> Tensor:
        limits = torch.where(there[:, i] & there[:, j] & (weights > 0), weights.double() * limit, 0.0)
        return variation_graph.solve(y.mT, limits.clamp(max=_most(y)).mT, edges).mT

    return _scaled(x, strength, solve).contiguous()


def tv_chain_vjp(w: Tensor, g: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """The mean of ``g`` over each fused piece of ``w``."""
    rows, strengths = _along(w, strength, dim)
    joined = (rows[..., 1:] == rows[..., :-1]) & _positive(strengths)
    group = variation_chain.runs(joined.flatten(0, -2))
    out = variation_chain.averaged(_finite(rows, g.movedim(dim, -1)).flatten(0, -2), group)
    return out.reshape(rows.shape).to(g.dtype).movedim(-1, dim).contiguous()


def tv_grid_vjp(w: Tensor, g: Tensor, strength: float | Tensor) -> Tensor:
    """The mean of ``g`` over each fused region of ``w``."""
    edges = grid_edges(w.shape[-2], w.shape[-1], w.device)
    flat, strengths = _flat(w, strength)
    return tv_graph_vjp(flat, g.flatten(-2), edges, flat.new_ones(edges.shape[-1]), strengths).reshape(g.shape)


def tv_graph_vjp(w: Tensor, g: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """The mean of ``g`` over each fused component of ``w``."""
    i, j = edges
    joined = (w[..., i] == w[..., j]) & (weights > 0) & _positive(strength)
    nodes = w.shape[-1]
    label = variation_graph.components(Graph(nodes, edges), joined.reshape(-1, i.numel()).mT)
    out = variation_graph.averaged(_finite(w, g).reshape(-1, nodes).mT, label)
    return out.mT.reshape(g.shape).to(g.dtype).contiguous()


def tv_chain_slope(w: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """``dw / dstrength``."""
    return tv_chain_vjp(w, chain_pull(w, dim), strength, dim)


def tv_grid_slope(w: Tensor, strength: float | Tensor) -> Tensor:
    """``dw / dstrength``."""
    return tv_grid_vjp(w, grid_pull(w), strength)


def tv_graph_slope(w: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """``dw / dstrength``."""
    return tv_graph_vjp(w, graph_pull(w, edges, weights), edges, weights, strength)


def grid_edges(height: int, width: int, device: torch.device) -> Tensor:
    """The edges ``[2, E]`` of a grid whose cells are numbered row by row."""
    cells = torch.arange(height * width, device=device).reshape(height, width)
    across = torch.stack([cells[:, :-1], cells[:, 1:]]).flatten(1)
    down = torch.stack([cells[:-1], cells[1:]]).flatten(1)
    return torch.cat([across, down], -1)


def drop(w: Tensor, v: Tensor) -> Tensor:
    """The sign of ``w - v``, which are neighbours; 0 where one of them is absent."""
    return torch.where((w > -math.inf) & (v > -math.inf), (w - v).sign(), 0.0)


def chain_pull(w: Tensor, dim: int) -> Tensor:
    """Minus the derivative of the total variation in each entry, 0 across ties."""
    w = w.movedim(dim, -1)
    falls = drop(w[..., :-1], w[..., 1:])
    return (pad(falls, (1, 0)) - pad(falls, (0, 1))).movedim(-1, dim)


def grid_pull(w: Tensor) -> Tensor:
    """The same over the last two axes."""
    return chain_pull(w, -1) + chain_pull(w, -2)


def graph_pull(w: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
    """The same over the edges of a graph."""
    i, j = edges
    falls = weights * drop(w[..., i], w[..., j])
    return torch.zeros_like(w).index_add(-1, j, falls).index_add(-1, i, -falls)


def _along(x: Tensor, strength: float | Tensor, dim: int) -> tuple[Tensor, float | Tensor]:
    return x.movedim(dim, -1), strength.movedim(dim, -1) if isinstance(strength, Tensor) else strength


def _flat(x: Tensor, strength: float | Tensor) -> tuple[Tensor, float | Tensor]:
    return x.flatten(-2), strength.squeeze(-1) if isinstance(strength, Tensor) else strength


def _positive(strength: float | Tensor) -> bool | Tensor:
    return strength > 0


def _most(y: Tensor) -> float:
    """A limit that no flow reaches in rows within [-1, 1]; infinite ones would not compute."""
    return 4.0 * y.shape[-1]


def _finite(w: Tensor, g: Tensor) -> Tensor:
    return torch.where(w == -math.inf, 0.0, g).double()


def _scaled(x: Tensor, strength: float | Tensor, solve: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """Run ``solve(rows, limits, there)`` on rows ``[R, K]`` moved and scaled into [-1, 1], and settle odd ones."""
    rows = x.reshape(-1, x.shape[-1]).double()
    if rows.numel() == 0:
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    each = torch.as_tensor(strength, dtype=torch.float64, device=x.device)
    each = each.expand(*x.shape[:-1], 1).reshape(-1, 1)
    there = rows != -math.inf
    top = rows.amax(-1, keepdim=True)
    bottom = torch.where(there, rows, math.inf).amin(-1, keepdim=True)
    sound = (top < math.inf) & (each >= 0)
    middle = torch.where(sound & (top > -math.inf), bottom / 2 + top / 2, 0.0)
    half = torch.where(sound & (top > bottom), top / 2 - bottom / 2, 1.0)
    # A power of two, so that scaling rounds nothing.
    scale = torch.ldexp(torch.ones_like(half), torch.frexp(half).exponent)
    moved = torch.where(sound & there, (rows - middle) / scale, 0.0)
    w = middle + scale * solve(moved, torch.where(sound, each / scale, 0.0), there)
    w = torch.where(each == 0, rows, torch.where(there, w, rows))
    return torch.where(sound, w, math.nan).to(x.dtype).reshape(x.shape)
