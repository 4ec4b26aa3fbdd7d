"""What one map looks like: where its mass is, how spread, how much of it is empty."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import check_type
from omegamax._checks import readable
from omegamax._numerics import on_support
from omegamax.metrics._map_cells import Dim, Map, MapCells, Size, check_base, common_dtype, held_zeros, shares


def mass_inside(
    p: Map,
    region: Tensor,
    *,
    dim: Dim | None = None,
    size: Size | None = None,
    samples: int = 1,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Return the share of a map's attention that falls in a region, in [0, 1]; ``[*]``.

    .. math:: \frac{\sum_c p_c \, r_c}{\sum_c p_c}

    Differentiable in the map and in a soft region. A map without a positive cell left gives NaN, and no gradient.

    Args:
        region: bool, or numbers in [0, 1], the part of each cell that lies within; broadcasts to the map.
        p, dim, size, samples, mask: as for :func:`~omegamax.metrics.jensen_shannon`.

        >>> p = torch.tensor([[0.0, 0.2, 0.3], [0.0, 0.4, 0.1]])
        >>> box = torch.tensor([[False, True, True], [False, False, False]])
        >>> mass_inside(p, box, dim=(-2, -1))
        tensor(0.5000)
    """
    name = "mass_inside"
    cells = MapCells(name, (p,), dim, size, samples)
    p = cells.rows("p", p)
    check_type(name, "region", region, Tensor, "a torch.Tensor")
    inside, keep = cells.beside("region", region), cells.kept(mask)
    dtype = common_dtype(p, inside)
    inside = inside.to(dtype) if keep is None else torch.where(keep, inside.to(dtype), 0.0)
    if readable(inside) and bool(((inside < 0) | (inside > 1)).any()):
        raise ValueError(f"{name}: region must be bool or lie in [0, 1], got values outside it")
    p, none = shares(cells, "p", p, keep, dtype)
    return torch.where(none, math.nan, (p * inside).sum(-1))


def entropy(
    p: Map,
    base: float = 2.0,
    *,
    dim: Dim | None = None,
    size: Size | None = None,
    samples: int = 1,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Return Shannon's entropy of a map, from 0 for a single cell to :math:`\log L` for equal ones; ``[*]``.

    .. math:: H(p) = - \sum_c p_c \log p_c, \qquad 0 \log 0 = 0

    The map is divided by its sum first. Differentiable; cells that are exactly zero, where the slope is infinite,
    receive no gradient. A map without a positive cell left gives NaN, and no gradient. Of a density, it is the entropy
    of its map, which grows with the number of cells; ``density.entropy()`` is that of the density itself.

    Args:
        base: of the logarithm: 2 for bits, ``math.e`` for nats.
        p, dim, size, samples, mask: as for :func:`~omegamax.metrics.jensen_shannon`.

        >>> entropy(torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]))
        tensor([2., 1., 0.])
    """
    name = "entropy"
    unit = check_base(name, base)
    cells = MapCells(name, (p,), dim, size, samples)
    p, keep = cells.rows("p", p), cells.kept(mask)
    p, none = shares(cells, "p", held_zeros(p), keep, common_dtype(p))
    # Of a positive sum: the entropy of a single cell is 0, not -0.
    value = (p * -on_support(p)[1].log()).sum(-1) / unit
    return torch.where(none, math.nan, value)


@torch.no_grad()
def zero_area(
    p: Map,
    *,
    dim: Dim | None = None,
    size: Size | None = None,
    samples: int = 1,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Return the share of the cells that have exactly no attention, in [0, 1]; ``[*]``.

    .. math:: \frac{|\{c : p_c = 0\}|}{L}

    It is 1 for a map of zeros, and has no gradient. A NaN in a map, or no cell left by the mask, gives NaN.

    Args:
        p, dim, size, samples, mask: as for :func:`~omegamax.metrics.jensen_shannon`.

        >>> import omegamax
        >>> z = torch.tensor([1.0, 0.5, -1.0, -1.2])
        >>> zero_area(omegamax.sparsemax(z)), zero_area(omegamax.softmax(z))
        (tensor(0.5000), tensor(0.))

    Reference: Martins et al., "Sparse and structured visual attention" (2020), Sec. 4, where sparsemax leaves 34% of
    the image area without attention and TVmax 25%.
    """
    cells = MapCells("zero_area", (p,), dim, size, samples)
    p, keep = cells.rows("p", p), cells.kept(mask)
    if keep is not None:
        p = torch.where(keep, p, 1)
    cells.check_sign("p", p)
    dtype = common_dtype(p)
    zero = (p == 0).to(dtype)
    bad = (p.isnan() | (p < 0)).any(-1)
    value = zero.mean(-1) if keep is None else zero.sum(-1) / keep.sum(-1)
    return torch.where(bad, math.nan, value)
