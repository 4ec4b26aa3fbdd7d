"""Solve total variation in plain torch: chains, grids and graphs, on any device.

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

from omegamax.kernels.variation import flow, taut_string
from omegamax.kernels.variation.graphs import ChainGraph, Graph, GridGraph, average


def tv_chain(x: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Solve for neighbours along ``dim``; ``strength`` is a float, or a tensor with size 1 along ``dim``."""
    chain = ChainGraph(x.shape[dim], x.device)
    return _solve(chain, x, dim, 1.0, strength, lambda y, limits: taut_string.solve(chain, y, limits))


def tv_grid(x: Tensor, strength: float | Tensor) -> Tensor:
    """Solve for neighbours along the last two axes; ``strength`` is a float, or has size 1 along both."""
    grid = GridGraph(x.shape[-2], x.shape[-1], x.device)
    flat, strengths = _flatten(x, strength)
    w = _solve(grid, flat, -1, 1.0, strengths, lambda y, limits: flow.solve("tv_prox_2d", grid, y, limits))
    return w.reshape(x.shape)


def tv_graph(x: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """Solve for nodes along the last axis, joined by ``edges: [2, E]`` of ``weights: [E]``; ``strength`` as above."""
    graph = Graph(x.shape[-1], edges)
    return _solve(graph, x, -1, weights, strength, lambda y, u: flow.solve("tv_prox_graph", graph, y, u))


def tv_chain_vjp(w: Tensor, g: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Average ``g`` over each fused piece of ``w``."""
    return _average(ChainGraph(w.shape[dim], w.device), w, g, dim, 1.0, strength)


def tv_grid_vjp(w: Tensor, g: Tensor, strength: float | Tensor) -> Tensor:
    """Average ``g`` over each fused region of ``w``."""
    flat, strengths = _flatten(w, strength)
    return _average(GridGraph(w.shape[-2], w.shape[-1], w.device), flat, g.flatten(-2), -1, 1.0, strengths).reshape(
        g.shape
    )


def tv_graph_vjp(w: Tensor, g: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """Average ``g`` over each fused component of ``w``."""
    return _average(Graph(w.shape[-1], edges), w, g, -1, weights, strength)


def tv_chain_slope(w: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Compute ``dw / dstrength``: what pulls at the outside of a piece, divided by its size."""
    return tv_chain_vjp(w, chain_pull(w, dim), strength, dim)


def tv_grid_slope(w: Tensor, strength: float | Tensor) -> Tensor:
    """Compute ``dw / dstrength``, likewise for regions."""
    return tv_grid_vjp(w, grid_pull(w), strength)


def tv_graph_slope(w: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """Compute ``dw / dstrength``, likewise for components."""
    falls = weights * drop(w.index_select(-1, edges[0]), w.index_select(-1, edges[1]))
    pull = torch.zeros_like(w).index_add(-1, edges[1], falls).index_add(-1, edges[0], -falls)
    return tv_graph_vjp(w, pull, edges, weights, strength)


def drop(w: Tensor, v: Tensor) -> Tensor:
    """Return the sign of ``w - v`` for neighbours; 0 where one of them is absent."""
    return torch.where((w > -math.inf) & (v > -math.inf), (w - v).sign(), 0.0)


def chain_pull(w: Tensor, dim: int) -> Tensor:
    """Return minus the derivative of the total variation in each entry; 0 across ties."""
    w = w.movedim(dim, -1)
    falls = drop(w[..., :-1], w[..., 1:])
    return (pad(falls, (1, 0)) - pad(falls, (0, 1))).movedim(-1, dim)


def grid_pull(w: Tensor) -> Tensor:
    """Return what :func:`chain_pull` does, over the last two axes."""
    return chain_pull(w, -1) + chain_pull(w, -2)


def _solve(
    graph: Graph,
    x: Tensor,
    dim: int,
    weights: float | Tensor,
    strength: float | Tensor,
    solve: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Run ``solve(x, limits)`` on what is not settled by itself, moved and scaled into [-2, 2]."""
    rows = _columns(x, dim).double()
    if rows.numel() == 0:
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    strengths = _strengths(x, dim, strength)
    there = rows != -math.inf
    sound = (rows < math.inf).all(0) & (strengths >= 0)
    kept = torch.where(sound & there, rows, 0.0)
    a, b = graph.ends(there)
    limits = torch.where(a & b & sound & (_weights(x, weights) > 0), _weights(x, weights) * strengths, 0.0)
    # A node moves by no more than the limits of its edges. Two that are farther apart stay so: their edge is at its
    # limit, and the scores of 1e9 below the others, by which some mask, do not take away the digits of the rest. A
    # close call is left to the solver, which fuses what comes out equal.
    a, b = graph.ends(graph.around(limits) + 16 * torch.finfo(kept.dtype).eps * kept.abs())
    step = graph.difference(kept)
    apart = step.abs() > (a + b) * (1 + 1e-12)
    kept = kept - graph.divergence(torch.where(apart, limits * step.sign(), 0.0))
    limits = torch.where(apart, 0.0, limits)
    label = graph.components(limits > 0)
    low = torch.full_like(kept, math.inf).scatter_reduce_(0, label, kept, "amin").gather(0, label)
    high = torch.full_like(kept, -math.inf).scatter_reduce_(0, label, kept, "amax").gather(0, label)
    middle = torch.where(low < high, low / 2 + high / 2, low)
    # A power of two, so that scaling rounds nothing.
    exponent = torch.frexp((high / 2 - low / 2).amax(0)).exponent - 1
    scale = torch.ldexp(torch.ones_like(middle[0]), exponent)
    # No flow is larger than all there is to be levelled, and infinite limits would not compute.
    limits = (limits / scale).clamp(max=4.0 * graph.nodes)
    w = middle + scale * solve((kept - middle) / scale, limits)
    return _restore(torch.where(sound, torch.where(there, w, rows), math.nan), x, dim)


def _average(graph: Graph, w: Tensor, g: Tensor, dim: int, weights: float | Tensor, strength: float | Tensor) -> Tensor:
    values, given = _columns(w, dim), _columns(g, dim).double()
    a, b = graph.ends(values)
    label = graph.components((a == b) & (_weights(w, weights) > 0) & (_strengths(w, dim, strength) > 0))
    return _restore(average(torch.where(values == -math.inf, 0.0, given), label), g, dim)


def _columns(x: Tensor, dim: int) -> Tensor:
    """View ``x`` with its rows last, ``[K, R]``."""
    return x.movedim(dim, 0).reshape(x.shape[dim], -1)


def _restore(columns: Tensor, x: Tensor, dim: int) -> Tensor:
    """Give ``columns`` the shape and dtype of ``x``."""
    shape = [x.shape[dim], *x.shape[:dim], *x.shape[dim % x.dim() + 1 :]]
    return columns.to(x.dtype).reshape(shape).movedim(0, dim).contiguous()


def _strengths(x: Tensor, dim: int, strength: float | Tensor) -> Tensor:
    """Return one strength for each row, ``[R]``."""
    shape = list(x.shape)
    shape[dim] = 1
    return torch.as_tensor(strength, dtype=torch.float64, device=x.device).expand(shape).reshape(-1)


def _weights(x: Tensor, weights: float | Tensor) -> Tensor:
    """Return one weight for each edge, or for all, ``[E, 1]``."""
    return torch.as_tensor(weights, dtype=torch.float64, device=x.device).reshape(-1, 1)


def _flatten(x: Tensor, strength: float | Tensor) -> tuple[Tensor, float | Tensor]:
    return x.flatten(-2), strength.squeeze(-1) if isinstance(strength, Tensor) else strength
