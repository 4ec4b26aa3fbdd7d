"""Boxes: the mass that a density puts on each, from its distribution function."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.basis import Rectangles
from omegamax.densities._base import register_expectation
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._laplace import BetaLaplace
from omegamax.densities._location_scale import LocationScale
from omegamax.densities.expectations._interval import closed_order
from omegamax.densities.expectations._windows import NODES, POWER, WEIGHTS, Bell, Flank, Rule, integral, wide

# In place of infinite ends, which would leave NaNs in gradients.
_FAR = 1e200


@register_expectation(BetaGaussian, Rectangles)
def expect_rectangles(density: BetaGaussian, basis: Rectangles) -> Tensor:
    """``[*, J]``: closed at alpha = 1, 2, 3/2, 4/3, 5/4, else by 64 nodes between the ends. One or two dimensions."""
    if density.dimension > 2:
        raise NotImplementedError(
            f"expect: BetaGaussian with Rectangles needs 1 or 2 dimensions, got {density.dimension}; there, "
            "GaussianRBF, Fourier and Polynomial have rules"
        )
    m = closed_order(density.alpha)
    if density.dimension == 2:
        from omegamax.densities.expectations._boxes import boxes  # which is made of intervals

        return boxes(density, basis)
    bell = Bell.of(density)
    low, high = ((end - bell.loc) / bell.unit for end in finite(basis))
    standard = Bell.standard(bell.e if isinstance(density.alpha, Tensor) else density.alpha - 1, bell.loc)
    return mass(m, standard, low, high).to(density.loc.dtype)


def mass(m: int | None, bell: Bell, low: Tensor, high: Tensor, nodes: Rule = (NODES, WEIGHTS)) -> Tensor:
    """Of the beta-Gaussian in its own units between ``low`` and ``high``; 0 if there is nothing between.

    ``m`` is 1 / (alpha - 1) if that is an integer with a closed form, 0 for the Gaussian, else None.
    """
    if m is None:
        return integral(lambda x, still: bell.point(x, still)[1], bell.place(low), bell.place(high), nodes)
    value = _power(m, high) - _power(m, low) if m else _normal(low, high)
    return torch.where(high > low, value, 0.0)


@register_expectation(BetaLaplace, Rectangles)
def expect_laplace(density: BetaLaplace, basis: Rectangles) -> Tensor:
    """``[*, J]``, closed for every alpha."""
    flank = Flank.of(density)
    low, high = (_beside(flank, end) for end in finite(basis))
    return (high - low).to(density.loc.dtype)


@register_expectation(LocationScale, Rectangles)
def expect_location_scale(density: LocationScale, basis: Rectangles) -> Tensor:
    """``[*, J]``, closed: the density is a derivative."""
    loc, scale, edge = wide(density.loc), wide(density.scale), wide(density._edge)
    masses = []
    for end in finite(basis):
        x = (end.reshape((-1,) + (1,) * loc.dim()) - loc) / scale  # what g holds broadcasts with [*, 1]
        side = torch.where(x < 0, -1.0, 1.0)
        beyond = side * x >= edge
        masses.append(side * torch.where(beyond, 0.5, density._mass(torch.where(beyond, 0.0, side * x))))
    return (masses[1] - masses[0]).squeeze(-1).movedim(0, -1).to(density.loc.dtype)


def finite(basis: Rectangles, axis: int = 0) -> tuple[Tensor, Tensor]:
    """The ends of the boxes along an axis, ``[J]``."""
    low, high = (wide(t[:, axis]).clamp(-_FAR, _FAR) for t in (basis.lower, basis.upper))
    return low, high


def _power(m: int, end: Tensor) -> Tensor:
    r"""Between 0 and ``end``, negative to the left: :math:`\int_0^v (1 - s^2)^m ds / B(1/2, m + 1)`."""
    v = (end / math.sqrt(2 * m)).clamp(-1, 1)
    square = v.square()
    total = torch.full_like(v, (-1) ** m / (2 * m + 1))
    for i in range(m - 1, -1, -1):
        total = total * square + (-1) ** i * math.comb(m, i) / (2 * i + 1)
    return v * total * (math.gamma(m + 1.5) / math.gamma(m + 1) / math.sqrt(math.pi))


def _normal(low: Tensor, high: Tensor) -> Tensor:
    """From the tail in which the interval lies, so that far ones keep their digits."""
    right = low > 0
    left_end, right_end = torch.where(right, -high, low), torch.where(right, -low, high)
    return 0.5 * (torch.erfc(right_end / -math.sqrt(2)) - torch.erfc(left_end / -math.sqrt(2)))


def _beside(flank: Flank, end: Tensor) -> Tensor:
    """The mass between the location and ``end``, negative to the left."""
    offset = end - flank.loc
    side = torch.where(offset < 0, -1.0, 1.0)
    return side * 0.5 * (1 - flank.place(side * offset / flank.unit).pow(POWER))
