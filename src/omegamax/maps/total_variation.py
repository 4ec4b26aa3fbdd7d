"""Proximal operators of the total variation on chains, grids and graphs.

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
from omegamax._operation import Map, check_not_exporting
from omegamax.kernels import export
from omegamax.kernels.variation import chain_pull, drop, grid_pull
from omegamax.maps._penalty_arguments import check_edges, check_values, to_strength, to_weights

Parameter = TypeVar("Parameter", Tensor, float, float | Tensor)


def tv_prox_1d(x: Tensor, strength: float | Tensor, dim: int = -1) -> Tensor:
    r"""Smooth a row into pieces that are level, by the proximal operator of total variation on a chain.

    .. math:: \arg\min_w \tfrac12 \lVert w - x \rVert^2 + \lambda \sum_i |w_{i+1} - w_i|

    Exact. Neighbours that come out equal form a group, whose value is the mean of its entries, moved by lambda over
    its size for every neighbour above (up) or below (down); gradients spread evenly over a group.

    Args:
        x: values, K of them along ``dim``. An entry of ``-inf`` is absent: it stays as it is, and parts its neighbours.
        strength: lambda >= 0, a number or a tensor: 0-d, or broadcastable to ``x`` with size 1 along ``dim``. Gradients
            reach it. At 0 nothing changes.

    Returns:
        Like ``x``. Values in a group are equal to the last bit.

        >>> import torch
        >>> tv_prox_1d(torch.tensor([1.0, 0.75, -1.0, 0.5]), strength=0.25)
        tensor([ 0.7500,  0.7500, -0.5000,  0.2500])

    Reference: Condat (IEEE Signal Processing Letters 2013); Davies & Kovac (Annals of Statistics 2001), the taut string
    that plain torch and Triton find; Johnson (JCGS 2013), sec. 3, the dynamic program that is compiled.
    """
    return prox_1d("tv_prox_1d", x, strength, dim)


def tv_prox_2d(x: Tensor, strength: float | Tensor) -> Tensor:
    r"""Smooth an image into regions that are level, by the proximal operator of (anisotropic) total variation.

    .. math:: \arg\min_w \tfrac12 \lVert w - x \rVert^2
              + \lambda \sum_{i,j} |w_{i+1,j} - w_{i,j}| + |w_{i,j+1} - w_{i,j}|

    Which cells are fused is read off the dual, and the values follow from that, to rounding. A duality gap above 1e-8
    of the squared range is told by a :class:`ConvergenceWarning`.

    Args:
        x: values ``[*, H, W]``. A cell of ``-inf`` is absent, with its edges.
        strength: lambda >= 0, a number or a tensor: 0-d, or broadcastable to ``x`` with size 1 along both axes.
            Gradients reach it.

    Returns:
        Like ``x``. Values in a group, connected cells that come out level, are equal to the last bit.

        >>> import torch
        >>> tv_prox_2d(torch.tensor([[1.0, 0.75, -1.0], [0.5, 0.25, 0.0]]), strength=0.25)
        tensor([[ 0.5000,  0.5000, -0.5000],
                [ 0.5000,  0.5000,  0.0000]])

    Reference: Martins et al. (ICIP 2021), eqs. 3-4 on a grid; Prop. 2 for the groups, their values and the gradient;
    Chambolle & Darbon (IJCV 2009), sec. 4, the maximum flows that are compiled.
    """
    return prox_2d("tv_prox_2d", x, strength)


def tv_prox_graph(
    x: Tensor, edges: Tensor, strength: float | Tensor, dim: int = -1, *, weights: Tensor | None = None
) -> Tensor:
    r"""Smooth values on a graph into connected groups that are level.

    .. math:: \arg\min_w \tfrac12 \lVert w - x \rVert^2 + \lambda \sum_{(i, j) \in E} a_{ij} |w_i - w_j|

    As :func:`tv_prox_2d`, on any graph.

    Args:
        x: values, one for each of the K nodes along ``dim``. A node of ``-inf`` is absent, with its edges.
        edges: integers ``[2, E]``, one graph for all rows. Each undirected edge once: an edge that is there twice, in
            whichever direction, counts twice.
        strength: lambda >= 0, a number or a tensor: 0-d, or broadcastable to ``x`` with size 1 along ``dim``. Gradients
            reach it.
        weights: of the edges, ``[E]``, >= 0; ones if None. Gradients reach them.

    Returns:
        Like ``x``. Values in a group are equal to the last bit.

        >>> import torch
        >>> star = torch.tensor([[0, 0, 0], [1, 2, 3]])
        >>> tv_prox_graph(torch.tensor([1.0, 0.75, -1.0, 0.5]), star, strength=0.25)
        tensor([ 0.6667,  0.6667, -0.7500,  0.6667])

    Reference: Martins et al. (ICIP 2021), eqs. 3-4; Prop. 2 for the groups, their values and the gradient.
    """
    return prox_graph("tv_prox_graph", x, edges, strength, dim, weights)


def prox_1d(name: str, x: Tensor, strength: float | Tensor, dim: int, argument: str = "x") -> Tensor:
    """Return :func:`tv_prox_1d` as a part of the map ``name``, whose errors speak of it and of its ``argument``."""
    dim = check_values(name, argument, x, dim)
    return chain_map(x, to_strength(name, strength, x, dim), dim=dim)


def prox_2d(name: str, x: Tensor, strength: float | Tensor, argument: str = "x") -> Tensor:
    """Return :func:`tv_prox_2d`, likewise."""
    check_not_exporting(name)
    if isinstance(x, Tensor) and x.dim() < 2:
        raise ValueError(f"{name}: {argument} must have at least two axes [*, H, W], got shape {tuple(x.shape)}")
    rank = check_values(name, argument, x, -1) + 1
    check_values(name, argument, x, -2)
    return grid_map(x, to_strength(name, strength, x, rank - 2, rank - 1), dim=rank - 1)


def prox_graph(
    name: str,
    x: Tensor,
    edges: Tensor,
    strength: float | Tensor,
    dim: int,
    weights: Tensor | None,
    argument: str = "x",
) -> Tensor:
    """Return :func:`tv_prox_graph`, likewise."""
    check_not_exporting(name)
    dim = check_values(name, argument, x, dim)
    if x.dim() == 0:
        return prox_graph(name, x.reshape(1), edges, strength, 0, weights, argument).reshape(())
    strength = to_strength(name, strength, x, dim)
    edges = check_edges(name, edges, x.shape[dim])
    weights = to_weights(name, weights, edges, x)
    last = x.dim() - 1
    if isinstance(strength, Tensor):
        strength = strength.movedim(dim, last)
    shared = weights.reshape((1,) * last + (-1,))
    return graph_map(x.movedim(dim, last), strength, shared, edges, dim=last).movedim(last, dim)


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
