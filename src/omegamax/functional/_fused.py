"""Maps that give neighbours equal probabilities: total variation on chains, grids and graphs, over any base map."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from omegamax._checks import check_scores
from omegamax._numerics import returned_dtype, working_dtype
from omegamax._registry import get
from omegamax.functional._mask import masked
from omegamax.functional._variation import prox_1d, prox_2d, prox_graph

if TYPE_CHECKING:
    from omegamax.omegas import Omega


def fusedmax(
    z: Tensor,
    strength: float | Tensor = 1.0,
    dim: int = -1,
    *,
    base: str | Omega = "sparsemax",
    mask: Tensor | None = None,
) -> Tensor:
    r"""Probabilities in runs: a penalty on the difference of neighbours in a row.

    .. math:: \arg\max_p \langle p, z \rangle - \Omega(p) - \lambda \sum_i |p_{i+1} - p_i|

    with Omega and its domain those of ``base``. The solution is ``base`` of the scores smoothed by
    :func:`tv_prox_1d`, because a subgradient of the penalty there is one at p as well: ``base`` keeps their order.

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        strength: the penalty's weight lambda >= 0, a number or a tensor: 0-d, or of size 1 along ``dim``. Gradients
            reach it. At 0 the map is ``base``.
        base: a map whose probabilities are one non-decreasing function of their scores, by name or as an Omega:
            softmax, sparsemax, entmax, normmax, k_subsets.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry, and parts its neighbours.

    Returns:
        Like ``z``: in the domain of ``base``.

        >>> fusedmax(torch.tensor([1.0, 0.9, -1.0, 0.8]), strength=0.1)
        tensor([0.4000, 0.4000, 0.0000, 0.2000])
        >>> fusedmax(torch.tensor([1.0, 0.9, -1.0, 0.8]), strength=0.1, base="softmax")
        tensor([0.3332, 0.3332, 0.0609, 0.2728])

    Reference: Niculae & Blondel (NeurIPS 2017), Prop. 2; Martins et al. (ICIP 2021), Prop. 1, for a graph.
    """
    dim = check_scores("fusedmax", z, dim)
    omega = keeps_order("fusedmax", base)

    def solve(x: Tensor) -> Tensor:
        return omega.argmax(prox_1d("fusedmax", x, strength, dim, "z"), dim)

    return _composed(masked("fusedmax", z, mask), omega, (dim,), solve)


def tvmax(
    z: Tensor,
    strength: float | Tensor = 0.01,
    *,
    base: str | Omega = "sparsemax",
    mask: Tensor | None = None,
) -> Tensor:
    r"""Probabilities in patches: a penalty on the difference of neighbours in an image.

    .. math:: \arg\max_p \langle p, z \rangle - \Omega(p)
              - \lambda \sum_{i,j} |p_{i+1,j} - p_{i,j}| + |p_{i,j+1} - p_{i,j}|

    Args:
        z: scores ``[*, H, W]``, normalised over both axes; ``-inf`` masks a cell.
        strength: the penalty's weight lambda >= 0, a number or a tensor: 0-d, or ``[*, 1, 1]``. Gradients reach it.
        base: as in :func:`fusedmax`.
        mask: bool, broadcastable to ``z``; ``False`` masks a cell, with its edges: pad images of different sizes to
            one and mask the padding.

    Returns:
        Like ``z``: in the domain of ``base``, which sums to one over both axes.

        >>> tvmax(torch.tensor([[1.0, 0.9, -1.0], [0.95, 0.5, 0.0]]), strength=0.1)
        tensor([[0.3375, 0.2625, 0.0000],
                [0.3375, 0.0625, 0.0000]])

    Reference: Martins et al. (ICIP 2021), eqs. 5-7.
    """
    if isinstance(z, Tensor) and z.dim() < 2:
        raise ValueError(f"tvmax: z must have at least two axes [*, H, W], got shape {tuple(z.shape)}")
    for axis in (-1, -2):
        check_scores("tvmax", z, axis)
    omega = keeps_order("tvmax", base)
    shape = z.shape[-2:]

    def solve(x: Tensor) -> Tensor:
        return omega.argmax(prox_2d("tvmax", x, strength, "z").flatten(-2)).unflatten(-1, shape)

    return _composed(masked("tvmax", z, mask), omega, (-2, -1), solve)


def graph_fusedmax(
    z: Tensor,
    edges: Tensor,
    strength: float | Tensor = 1.0,
    dim: int = -1,
    *,
    weights: Tensor | None = None,
    base: str | Omega = "sparsemax",
    mask: Tensor | None = None,
) -> Tensor:
    r"""Probabilities in connected clusters: a penalty on the difference of neighbours in a graph.

    .. math:: \arg\max_p \langle p, z \rangle - \Omega(p) - \lambda \sum_{(i, j) \in E} w_{ij} |p_i - p_j|

    Args:
        z: scores, one for each of the K nodes along ``dim``; ``-inf`` masks a node.
        edges: integers ``[2, E]``, each undirected edge once; one graph for all rows.
        strength: the penalty's weight lambda >= 0, a number or a tensor: 0-d, or of size 1 along ``dim``. Gradients
            reach it.
        weights: of the edges, ``[E]``, >= 0; ones if None. Gradients reach them.
        base: as in :func:`fusedmax`.
        mask: bool, broadcastable to ``z``; ``False`` masks a node, with its edges.

    Returns:
        Like ``z``: in the domain of ``base``.

        >>> star = torch.tensor([[0, 0, 0], [1, 2, 3]])
        >>> graph_fusedmax(torch.tensor([1.0, 0.9, -1.0, 0.8]), star, strength=0.1)
        tensor([0.3333, 0.3333, 0.0000, 0.3333])

    Reference: Martins et al. (ICIP 2021), Prop. 1.
    """
    dim = check_scores("graph_fusedmax", z, dim)
    omega = keeps_order("graph_fusedmax", base)

    def solve(x: Tensor) -> Tensor:
        return omega.argmax(prox_graph("graph_fusedmax", x, edges, strength, dim, weights, "z"), dim)

    return _composed(masked("graph_fusedmax", z, mask), omega, (dim,), solve)


def keeps_order(name: str, base: str | Omega) -> Omega:
    """The Omega of ``base``; refuses one whose probabilities are not one non-decreasing function of their scores."""
    omega = get(base)
    if not getattr(omega, "keeps_order", False):
        raise ValueError(
            f"{name}: base must be a map whose probabilities are one non-decreasing function of their scores "
            f"(softmax, sparsemax, entmax, normmax, k_subsets), got {base!r}"
        )
    return omega


def from_top(z: Tensor, omega: Omega, *axes: int) -> Tensor:
    """Scores less the largest, on the whole simplex: means of groups then lose no digits to what all scores share.

    A budget or a ceiling has entries that the largest says nothing about, and which it may be far above; and without
    a fixed sum the level of the scores counts.
    """
    total = omega.total
    whole = not isinstance(total, Tensor) and total == 1 and not hasattr(omega, "upper")
    if not whole or getattr(omega, "at_most", False) or not z.dim():
        return z
    top = z.detach().amax(axes, keepdim=True)
    return z - torch.where(top.isfinite(), top, 0.0)


def _composed(z: Tensor, omega: Omega, axes: tuple[int, ...], solve: Callable[[Tensor], Tensor]) -> Tensor:
    """``solve`` in the working precision, rounded once: in float32 for half scores, kept under autocast."""
    return solve(from_top(z.to(working_dtype(z)), omega, *axes)).to(returned_dtype(z))
