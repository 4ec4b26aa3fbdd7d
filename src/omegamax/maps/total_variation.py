"""Proximal operators of the total variation on chains, grids and graphs."""

from __future__ import annotations

from torch import Tensor

from omegamax._operation import check_not_exporting
from omegamax.maps._fused_groups import chain_map, graph_map, grid_map
from omegamax.maps._penalty_arguments import check_edges, check_values, to_strength, to_weights


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
    Chambolle & Darbon (IJCV 2009), sec. 4, the maximum flows that are compiled for a CPU; the kernel for a GPU
    sweeps over the edges and proves what it finds.
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
