"""Total variation in plain torch: chains, grids and graphs, on any device.

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
from omegamax.kernels.variation_graph import Graph, Grid

OPS = (
    *("tv_chain", "tv_chain_vjp", "tv_chain_slope"),
    *("tv_grid", "tv_grid_vjp", "tv_grid_slope"),
    *("tv_graph", "tv_graph_vjp", "tv_graph_slope"),
)


def tv_chain(x: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Neighbours along ``dim``; ``strength`` is a float, or has the rank of ``x`` and size 1 along ``dim``."""

    def solve(y: Tensor, strengths: Tensor, there: Tensor) -> Tensor:
        limits = torch.where(there[:, 1:] & there[:, :-1], strengths, 0.0)
        return variation_chain.solve(y, limits.clamp(max=_most(y)))

    x, strength = _along(dim, x, strength)
    return _scaled(x, strength, solve).movedim(-1, dim).contiguous()


def tv_grid(x: Tensor, strength: float | Tensor) -> Tensor:
    """Neighbours along the last two axes; ``strength`` is a float, or has the rank of ``x`` and size 1 along both."""
    flat, strengths = _flat(x, strength)
    return _solve("tv_prox_2d", Grid(*x.shape[-2:], x.device), flat, 1.0, strengths).reshape(x.shape)


def tv_graph(x: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """Nodes along the last axis, joined by ``edges: [2, E]`` of ``weights: [E]``; ``strength`` as for a chain."""
    return _solve("tv_prox_graph", Graph(x.shape[-1], edges), x, weights, strength)


def tv_chain_vjp(w: Tensor, g: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """The mean of ``g`` over each fused piece of ``w``."""
    w, strength = _along(dim, w, strength)
    values, rows, strengths = _rows(w), _rows(_settled(w, g.movedim(dim, -1))), _each(w, strength)
    group = variation_chain.runs((values[:, 1:] == values[:, :-1]) & (strengths > 0))
    return variation_chain.averaged(rows, group).to(g.dtype).reshape(w.shape).movedim(-1, dim).contiguous()


def tv_grid_vjp(w: Tensor, g: Tensor, strength: float | Tensor) -> Tensor:
    """The mean of ``g`` over each fused region of ``w``."""
    flat, strengths = _flat(w, strength)
    return _spread(Grid(*w.shape[-2:], w.device), flat, g.flatten(-2), 1.0, strengths).reshape(g.shape)


def tv_graph_vjp(w: Tensor, g: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """The mean of ``g`` over each fused component of ``w``."""
    return _spread(Graph(w.shape[-1], edges), w, g, weights, strength)


def tv_chain_slope(w: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """``dw / dstrength``: what pulls at the outside of a piece, divided by its size."""
    return tv_chain_vjp(w, chain_pull(w, dim), strength, dim)


def tv_grid_slope(w: Tensor, strength: float | Tensor) -> Tensor:
    """``dw / dstrength``, likewise for regions."""
    return tv_grid_vjp(w, grid_pull(w), strength)


def tv_graph_slope(w: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """``dw / dstrength``, likewise for components."""
    falls = weights * drop(w.index_select(-1, edges[0]), w.index_select(-1, edges[1]))
    pull = torch.zeros_like(w).index_add(-1, edges[1], falls).index_add(-1, edges[0], -falls)
    return tv_graph_vjp(w, pull, edges, weights, strength)


def drop(w: Tensor, v: Tensor) -> Tensor:
    """The sign of ``w - v`` for neighbours; 0 where one of them is absent."""
    return torch.where((w > -math.inf) & (v > -math.inf), (w - v).sign(), 0.0)


def chain_pull(w: Tensor, dim: int) -> Tensor:
    """Minus the derivative of the total variation in each entry; 0 across ties."""
    w = w.movedim(dim, -1)
    falls = drop(w[..., :-1], w[..., 1:])
    return (pad(falls, (1, 0)) - pad(falls, (0, 1))).movedim(-1, dim)


def grid_pull(w: Tensor) -> Tensor:
    """The same over the last two axes."""
    return chain_pull(w, -1) + chain_pull(w, -2)


def _solve(name: str, graph: Graph, x: Tensor, weights: float | Tensor, strength: float | Tensor) -> Tensor:
    weights = torch.as_tensor(weights, dtype=torch.float64, device=x.device)

    def solve(y: Tensor, strengths: Tensor, there: Tensor) -> Tensor:
        both = there.index_select(-1, graph.i) & there.index_select(-1, graph.j)
        limits = torch.where(both & (weights > 0), weights * strengths, 0.0).clamp(max=_most(y))
        return variation_graph.solve(name, graph, y.mT.contiguous(), limits.mT.contiguous()).mT

    return _scaled(x, strength, solve).contiguous()


def _spread(graph: Graph, w: Tensor, g: Tensor, weights: float | Tensor, strength: float | Tensor) -> Tensor:
    values = _rows(w).mT
    weights = torch.as_tensor(weights, device=w.device).reshape(-1, 1)
    joined = values.index_select(0, graph.i) == values.index_select(0, graph.j)
    label = variation_graph.components(graph, joined & (weights > 0) & (_each(w, strength).mT > 0))
    return variation_graph.averaged(_rows(_settled(w, g)).mT, label).mT.to(g.dtype).reshape(g.shape).contiguous()


def _along(dim: int, x: Tensor, strength: float | Tensor) -> tuple[Tensor, float | Tensor]:
    return x.movedim(dim, -1), strength.movedim(dim, -1) if isinstance(strength, Tensor) else strength


def _flat(x: Tensor, strength: float | Tensor) -> tuple[Tensor, float | Tensor]:
    return x.flatten(-2), strength.squeeze(-1) if isinstance(strength, Tensor) else strength


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])


def _each(x: Tensor, strength: float | Tensor) -> Tensor:
    """One strength for each row, ``[R, 1]``."""
    strengths = torch.as_tensor(strength, dtype=torch.float64, device=x.device)
    return strengths.expand(*x.shape[:-1], 1).reshape(-1, 1)


def _settled(w: Tensor, g: Tensor) -> Tensor:
    """Nothing comes from entries that are absent."""
    return torch.where(w == -math.inf, 0.0, g).double()


def _most(y: Tensor) -> float:
    """A limit that no flow reaches in rows within [-1, 1]; infinite ones would not compute."""
    return 4.0 * y.shape[-1]


def _scaled(x: Tensor, strength: float | Tensor, solve: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """Run ``solve(rows, strengths, there)`` on rows moved and scaled into [-1, 1], and settle odd ones."""
    rows, each = _rows(x).double(), _each(x, strength)
    if rows.numel() == 0:
        return torch.empty_like(x, memory_format=torch.contiguous_format)
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
    w = torch.where(there & (each > 0), w, rows)
    return torch.where(sound, w, math.nan).to(x.dtype).reshape(x.shape)
