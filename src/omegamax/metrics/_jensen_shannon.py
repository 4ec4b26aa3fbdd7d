"""How far two maps are apart."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._numerics import on_support
from omegamax.metrics._map_cells import Dim, Map, MapCells, Size, check_base, common_dtype, held_zeros, shares


def jensen_shannon(
    p: Map,
    q: Map,
    *,
    base: float = 2.0,
    sqrt: bool = False,
    dim: Dim | None = None,
    size: Size | None = None,
    samples: int = 1,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Return the Jensen-Shannon divergence between two maps, or its square root; ``[*]``.

    .. math:: \mathrm{JS}(p, q) = \tfrac12 \sum_c p_c \log \frac{p_c}{m_c} + \tfrac12 \sum_c q_c \log \frac{q_c}{m_c},
              \qquad m = \tfrac12 (p + q), \quad 0 \log 0 = 0

    Each map is divided by its sum first. The divergence is 0 for equal maps and :math:`\log 2` for maps that share no
    cell: 1 in bits. It takes account of how much attention a cell has, not only of the order of the cells. Its square
    root is a metric, the Jensen-Shannon distance (that of SciPy).

    Differentiable in both maps. A cell that is exactly zero has an infinite slope, or none; it receives no gradient,
    nor does the square root give one where it is 0. Maps without a positive cell left give NaN, and no gradient.

    Args:
        p, q: maps ``[*, L]`` of numbers >= 0 that need not sum to one, counts for instance, or densities. Their batch
            axes broadcast. Half precision and integers are computed and returned in float32. A negative cell is an
            error, or NaN where values cannot be read (on a GPU, traced, mapped over).
        base: of the logarithm: 2 for bits, ``math.e`` for nats.
        sqrt: return the distance, the square root.
        dim: axis or axes of one map, such as ``(-2, -1)`` for ``[*, H, W]``; the last by default.
        size: the cells along each axis on which densities are read, ``(H, W)``, by :func:`~omegamax.metrics.on_grid`
            with as many ``samples``. It stands for ``dim``: tensors beside a density are ``[*, H, W]``.
        mask: bool, broadcasts to the maps; where it is False a cell is left out, whatever it holds.

        >>> human = torch.tensor([0.0, 3.0, 1.0, 0.0])
        >>> jensen_shannon(torch.tensor([[0.0, 0.6, 0.4, 0.0], [0.5, 0.0, 0.0, 0.5]]), human)
        tensor([0.0186, 1.0000])
        >>> from omegamax.densities import Gaussian
        >>> look = Gaussian(torch.tensor([0.5, 0.25]), 0.02)
        >>> jensen_shannon(look, torch.eye(4), size=(4, 4))
        tensor(0.6955)

    References: Lin, "Divergence measures based on the Shannon entropy" (IEEE Trans. Inf. Theory 1991). Agreement with
    human attention: Farinhas et al. (2021), Sec. 6.2, who do not say which base or whether a root was taken; as
    values of 0.71 are printed (Fig. 7), more than log 2, they are not divergences in nats. Between the steps of one
    caption: Martins et al., "Sparse and structured visual attention" (2020), Sec. 4.
    """
    name = "jensen_shannon"
    unit = check_base(name, base)
    cells = MapCells(name, (p, q), dim, size, samples)
    p, q, keep = cells.rows("p", p), cells.rows("q", q), cells.kept(mask)
    dtype = common_dtype(p, q)
    p, none_p = shares(cells, "p", held_zeros(p), keep, dtype)
    q, none_q = shares(cells, "q", held_zeros(q), keep, dtype)
    value = 0.5 / unit * _twice(p, q).sum(-1)
    if sqrt:
        zero = value == 0
        value = torch.where(zero, 0.0, torch.where(zero, 1.0, value).sqrt())
    return torch.where(none_p | none_q, math.nan, value)


def _twice(p: Tensor, q: Tensor) -> Tensor:
    """Return each cell's part of twice the divergence, in nats."""
    both = p + q
    x = (p - q) / torch.where(both == 0, 1.0, both)
    # With p, q = m (1 +- x) it is m (log(1 - x^2) + 2 x artanh(x)): maps that are nearly equal lose no digits to a
    # difference, and no cell is negative. Towards x = 1 its slope is a difference of large numbers; there each
    # logarithm is taken on its own.
    near = x.abs() < 0.5
    y = torch.where(near, x, 0.0)
    close = 0.5 * both * ((-y * y).log1p() + 2 * y * y.atanh())
    return torch.where(near, close, _part(p, both) + _part(q, both))


def _part(p: Tensor, both: Tensor) -> Tensor:
    some, safe = on_support(p)
    return p * (2 * safe / torch.where(some, both, 2.0)).log()
