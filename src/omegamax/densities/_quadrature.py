"""Composite Gauss-Legendre rules: nodes and weights for densities on a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from omegamax._arguments import check_count, is_number


def gauss_legendre_nodes(
    cells: int,
    order: int,
    low: float | Sequence[float] = 0.0,
    high: float | Sequence[float] = 1.0,
    *,
    breaks: Sequence[float] | Sequence[Sequence[float]] = (),
    dimension: int = 1,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Return nodes and weights of a rule that integrates over a box, exact for piecewise polynomials.

    .. math:: \int f(t) \, dt \approx \sum_i w_i f(t_i)

    Each axis is cut into equal cells, and again at every break; a cell holds ``order`` Gauss-Legendre nodes, which
    integrate polynomials of degree ``2 order - 1``. A score with kinks (at the centres of exponential kernels, say)
    keeps that accuracy if the kinks are among the breaks.

    Args:
        cells: equal cells along each axis.
        order: nodes in a cell, along each axis.
        low, high: ends of the interval; a number for all axes, or one for each.
        breaks: further points at which cells end; numbers for all axes, or a sequence for each. Those outside
            the interval are left out.
        dimension: number n of axes.
        dtype: of the result; torch's default if none is given.

    Returns:
        ``nodes [Q, n]``, the last coordinate varying fastest, and ``weights [Q]``, which sum to the volume.

        >>> nodes, weights = gauss_legendre_nodes(cells=2, order=2, breaks=[0.25])
        >>> nodes.shape, weights.sum()
        (torch.Size([6, 1]), tensor(1.))
        >>> (weights * nodes[:, 0] ** 3).sum()
        tensor(0.2500)
    """
    for argument, value in (("cells", cells), ("order", order), ("dimension", dimension)):
        check_count("gauss_legendre_nodes", argument, value)
    lows, highs = _per_axis("low", low, dimension), _per_axis("high", high, dimension)
    inner = list(breaks)
    shared = not inner or is_number(inner[0])
    if not shared and len(inner) != dimension:
        raise ValueError(
            f"gauss_legendre_nodes: breaks must be numbers or {dimension} sequences, one for each axis, "
            f"got {len(inner)} sequences"
        )
    axes = [
        _axis(cells, order, a, b, inner if shared else inner[i])  # type: ignore[arg-type]
        for i, (a, b) in enumerate(zip(lows, highs, strict=True))
    ]
    mesh = np.meshgrid(*(t for t, _ in axes), indexing="ij")
    nodes = np.stack([t.ravel() for t in mesh], -1)
    weights = np.prod(np.stack(np.meshgrid(*(w for _, w in axes), indexing="ij")), axis=0).ravel()
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return torch.tensor(nodes, dtype=dtype, device=device), torch.tensor(weights, dtype=dtype, device=device)


def _per_axis(argument: str, value: float | Sequence[float], dimension: int) -> list[float]:
    values = [float(value)] * dimension if is_number(value) else [float(v) for v in value]  # type: ignore
    if len(values) != dimension:
        raise ValueError(
            f"gauss_legendre_nodes: {argument} must be a number or {dimension} of them, got {len(values)} values"
        )
    return values


def _axis(cells: int, order: int, low: float, high: float, breaks: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"gauss_legendre_nodes: low must be < high and both finite, got {low:g} and {high:g}")
    inner = [float(b) for b in breaks if low < b < high]
    ends = np.unique(np.concatenate([np.linspace(low, high, cells + 1), inner]))
    x, w = np.polynomial.legendre.leggauss(order)
    half = np.diff(ends)[:, None] / 2
    return (ends[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()
