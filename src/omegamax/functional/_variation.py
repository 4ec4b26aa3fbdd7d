"""Proximal operators of the total variation on chains, grids and graphs."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from omegamax import kernels
from omegamax.functional._edges import check_edges, check_values, strength_of, weights_of
from omegamax.functional._map import Map
from omegamax.kernels.variation import chain_pull, drop, grid_pull


def _constant(*parameters: float | Tensor) -> list[float | Tensor]:
    """The groups do not change with anything, but for a null set: no derivative passes through them."""
    return [a.detach() if isinstance(a, Tensor) else a for a in parameters]


def _spread(name: str, parameters: list[str], solve) -> Map:
    """The mean over each fused group as a map of its own, linear in what is averaged and equal to its transpose."""

    def vjp(g: Tensor, _: Tensor, *given, dim: int):
        return (spread(g, *given, dim=dim), *(lambda a=a: torch.zeros_like(a) for a in given))

    def jvp(tangents, out: Tensor, *given, dim: int) -> Tensor:
        return torch.zeros_like(out) if tangents[0] is None else spread(tangents[0], *given, dim=dim)

    spread = Map(name, ["w", *parameters], solve, vjp, jvp)
    return spread


_chain_spread = _spread(
    "tv_prox_1d_spread",
    ["strength"],
    lambda g, w, strength, dim: kernels.solve("tv_chain_vjp", w.expand(g.shape), g, strength, dim),
)


def _chain_vjp(g: Tensor, w: Tensor, strength: float | Tensor, *, dim: int):
    w, fixed = _constant(w, strength)
    credit = _chain_spread(g, w, fixed, dim=dim)
    return credit, lambda: (credit * chain_pull(w, dim)).sum(dim, keepdim=True)


def _chain_jvp(tangents, w: Tensor, strength: float | Tensor, *, dim: int) -> Tensor:
    dx, dstrength = tangents
    w, fixed = _constant(w, strength)
    move = torch.zeros_like(w) if dx is None else dx
    if dstrength is not None:
        move = move + dstrength * chain_pull(w, dim)
    return _chain_spread(move, w, fixed, dim=dim)


_chain = Map("tv_prox_1d", ["strength"], partial(kernels.solve, "tv_chain"), _chain_vjp, _chain_jvp)

# Grids and graphs lie along the last axes, to which ``dim`` always points.
_grid_spread = _spread(
    "tv_prox_2d_spread",
    ["strength"],
    lambda g, w, strength, dim: kernels.solve("tv_grid_vjp", w.expand(g.shape), g, strength),
)


def _grid_vjp(g: Tensor, w: Tensor, strength: float | Tensor, *, dim: int):
    w, fixed = _constant(w, strength)
    credit = _grid_spread(g, w, fixed, dim=dim)
    return credit, lambda: (credit * grid_pull(w)).sum((-2, -1), keepdim=True)


def _grid_jvp(tangents, w: Tensor, strength: float | Tensor, *, dim: int) -> Tensor:
    dx, dstrength = tangents
    w, fixed = _constant(w, strength)
    move = torch.zeros_like(w) if dx is None else dx
    if dstrength is not None:
        move = move + dstrength * grid_pull(w)
    return _grid_spread(move, w, fixed, dim=dim)


_grid = Map(
    "tv_prox_2d", ["strength"], lambda x, strength, dim: kernels.solve("tv_grid", x, strength), _grid_vjp, _grid_jvp
)


def _by_weights(op: str, *tensors: Tensor, edges: Tensor, weights: Tensor, strength: float | Tensor) -> Tensor:
    """Run ``op`` on one graph. Its kernels share the weights between rows: if these differ, each row goes alone."""
    graphs, count = edges.shape[:-2].numel(), weights.shape[-1]
    if graphs != 1:
        raise ValueError(f"{op}: edges cannot be mapped over, all rows share one graph; got {graphs} of them")
    edges = edges.reshape(2, count)
    if weights.numel() == count:
        return kernels.solve(op, *tensors, edges, weights.reshape(count), strength)
    rows = tensors[0].shape[:-1]
    each = [t.reshape(-1, 1, t.shape[-1]) for t in (*tensors, weights.expand(*rows, count))]
    strengths = torch.as_tensor(strength, dtype=each[0].dtype, device=each[0].device).expand(*rows, 1).reshape(-1, 1, 1)
    out = [
        kernels.solve(op, *row[:-1], edges, row[-1].reshape(count), s)
        for *row, s in zip(*each, strengths, strict=True)
    ]
    return torch.stack(out).reshape(tensors[0].shape)


def _ends(v: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    i, j = edges.reshape(2, -1)
    return v.index_select(-1, i), v.index_select(-1, j)


_graph_spread = _spread(
    "tv_prox_graph_spread",
    ["strength", "weights", "edges"],
    lambda g, w, strength, weights, edges, dim: _by_weights(
        "tv_graph_vjp", w.expand(g.shape), g, edges=edges, weights=weights, strength=strength
    ),
)


def _graph_vjp(g: Tensor, w: Tensor, strength: float | Tensor, weights: Tensor, edges: Tensor, *, dim: int):
    w, *fixed = _constant(w, strength, weights, edges)
    credit = _graph_spread(g, w, *fixed, dim=dim)

    def along() -> Tensor:
        a, b = _ends(credit, edges)
        return (b - a) * drop(*_ends(w, edges))

    return credit, lambda: (weights * along()).sum(-1, keepdim=True), lambda: strength * along(), None


def _graph_jvp(tangents, w: Tensor, strength: float | Tensor, weights: Tensor, edges: Tensor, *, dim: int) -> Tensor:
    dx, dstrength, dweights, _ = tangents
    w, *fixed = _constant(w, strength, weights, edges)
    move = torch.zeros_like(w) if dx is None else dx
    i, j = edges.reshape(2, -1)
    for pull in (
        None if dstrength is None else dstrength * weights,
        None if dweights is None else strength * dweights,
    ):
        if pull is not None:
            falls = pull * drop(*_ends(w, edges))
            move = move.index_add(-1, j, falls).index_add(-1, i, -falls)
    return _graph_spread(move, w, *fixed, dim=dim)


_graph = Map(
    "tv_prox_graph",
    ["strength", "weights", "edges"],
    lambda x, strength, weights, edges, dim: _by_weights(
        "tv_graph", x, edges=edges, weights=weights, strength=strength
    ),
    _graph_vjp,
    _graph_jvp,
)


def tv_prox_1d(x: Tensor, strength: float | Tensor, dim: int = -1) -> Tensor:
    r"""A row smoothed into pieces that are level: the proximal operator of total variation on a chain.

    .. math:: \arg\min_w \tfrac12 \lVert w - x \rVert^2 + \lambda \sum_i |w_{i+1} - w_i|

    Exact. Neighbours that come out equal form a group, whose value is the mean of its entries, moved by lambda over
    its size for every neighbour above (up) or below (down); gradients spread evenly over a group.

    Args:
        x: values, K of them along ``dim``. An entry of ``-inf`` is absent: it stays as it is, and parts its neighbours.
        strength: lambda >= 0, a number or a tensor: 0-d, or broadcastable to ``x`` with size 1 along ``dim``. Gradients
            reach it. At 0 nothing changes.

    Returns:
        Like ``x``. Values in a group are equal to the last bit.

        >>> tv_prox_1d(torch.tensor([1.0, 0.75, -1.0, 0.5]), strength=0.25)
        tensor([ 0.7500,  0.7500, -0.5000,  0.2500])

    Reference: Condat (IEEE Signal Processing Letters 2013), eqs. 1-7 (the problem and its dual).
    """
    return prox_1d("tv_prox_1d", x, strength, dim)


def tv_prox_2d(x: Tensor, strength: float | Tensor) -> Tensor:
    r"""An image smoothed into regions that are level: the proximal operator of (anisotropic) total variation.

    .. math:: \arg\min_w \tfrac12 \lVert w - x \rVert^2
              + \lambda \sum_{i,j} |w_{i+1,j} - w_{i,j}| + |w_{i,j+1} - w_{i,j}|

    Args:
        x: values ``[*, H, W]``. A cell of ``-inf`` is absent, with its edges.
        strength: lambda >= 0, a number or a tensor: 0-d, or broadcastable to ``x`` with size 1 along both axes.
            Gradients reach it.

    Returns:
        Like ``x``. Values in a group, connected cells that come out level, are equal to the last bit.

        >>> tv_prox_2d(torch.tensor([[1.0, 0.75, -1.0], [0.5, 0.25, 0.0]]), strength=0.25)
        tensor([[ 0.5000,  0.5000, -0.5000],
                [ 0.5000,  0.5000,  0.0000]])

    Reference: Martins et al. (ICIP 2021), eq. 6 with the square halved, and eq. 9 for the gradient.
    """
    return prox_2d("tv_prox_2d", x, strength)


def tv_prox_graph(
    x: Tensor, edges: Tensor, strength: float | Tensor, dim: int = -1, *, weights: Tensor | None = None
) -> Tensor:
    r"""Values on a graph smoothed into connected groups that are level.

    .. math:: \arg\min_w \tfrac12 \lVert w - x \rVert^2 + \lambda \sum_{(i, j) \in E} a_{ij} |w_i - w_j|

    Args:
        x: values, one for each of the K nodes along ``dim``. A node of ``-inf`` is absent, with its edges.
        edges: integers ``[2, E]``, one graph for all rows. Each undirected edge once: an edge that is there twice, in
            whichever direction, counts twice.
        strength: lambda >= 0, a number or a tensor: 0-d, or broadcastable to ``x`` with size 1 along ``dim``. Gradients
            reach it.
        weights: of the edges, ``[E]``, >= 0; ones if None. Gradients reach them.

    Returns:
        Like ``x``. Values in a group are equal to the last bit.

        >>> star = torch.tensor([[0, 0, 0], [1, 2, 3]])
        >>> tv_prox_graph(torch.tensor([1.0, 0.75, -1.0, 0.5]), star, strength=0.25)
        tensor([ 0.6667,  0.6667, -0.7500,  0.6667])

    Reference: Martins et al. (ICIP 2021), eq. 6 and Prop. 1.
    """
    return prox_graph("tv_prox_graph", x, edges, strength, dim, weights)


def prox_1d(name: str, x: Tensor, strength: float | Tensor, dim: int, argument: str = "x") -> Tensor:
    """:func:`tv_prox_1d` as a part of the map ``name``, whose errors speak of it and of its ``argument``."""
    dim = check_values(name, argument, x, dim)
    return _chain(x, strength_of(name, strength, x, dim), dim=dim)


def prox_2d(name: str, x: Tensor, strength: float | Tensor, argument: str = "x") -> Tensor:
    """:func:`tv_prox_2d`, likewise."""
    if isinstance(x, Tensor) and x.dim() < 2:
        raise ValueError(f"{name}: {argument} must have at least two axes [*, H, W], got shape {tuple(x.shape)}")
    rank = check_values(name, argument, x, -1) + 1
    check_values(name, argument, x, -2)
    return _grid(x, strength_of(name, strength, x, rank - 2, rank - 1), dim=rank - 1)


def prox_graph(
    name: str,
    x: Tensor,
    edges: Tensor,
    strength: float | Tensor,
    dim: int,
    weights: Tensor | None,
    argument: str = "x",
) -> Tensor:
    """:func:`tv_prox_graph`, likewise."""
    dim = check_values(name, argument, x, dim)
    if x.dim() == 0:
        return prox_graph(name, x.reshape(1), edges, strength, 0, weights, argument).reshape(())
    strength = strength_of(name, strength, x, dim)
    edges = check_edges(name, edges, x.shape[dim])
    weights = weights_of(name, weights, edges, x)
    last = x.dim() - 1
    if isinstance(strength, Tensor):
        strength = strength.movedim(dim, last)
    shared = weights.reshape((1,) * last + (-1,))
    return _graph(x.movedim(dim, last), strength, shared, edges, dim=last).movedim(last, dim)
