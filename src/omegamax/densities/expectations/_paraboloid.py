"""Truncated paraboloids as basis functions: exact zeros where supports do not meet."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax.basis import TruncatedParaboloidRBF
from omegamax.densities._base import register_expectation
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._laplace import BetaLaplace
from omegamax.densities._location_scale import LocationScale
from omegamax.densities.expectations._interval import closed_order
from omegamax.densities.expectations._location_scale import height
from omegamax.densities.expectations._windows import NODES, WEIGHTS, Bell, Flank, Rule, gauss_legendre, integral, wide

# A polynomial of degree 2m + 2, m <= 4.
_FEW, _FEW_WEIGHTS = gauss_legendre(6)
# On a parabola over which the density is smooth.
_OWN, _OWN_WEIGHTS = gauss_legendre(20)


@register_expectation(BetaGaussian, TruncatedParaboloidRBF)
def expect_paraboloid(density: BetaGaussian, basis: TruncatedParaboloidRBF) -> Tensor:
    """``E_p[psi_j]``, ``[*, J]``; exactly 0, with gradient 0, where the supports do not meet. One or two dimensions."""
    if density.dimension > 2:
        raise NotImplementedError(
            f"expect: BetaGaussian with TruncatedParaboloidRBF needs 1 or 2 dimensions, got {density.dimension}; "
            "there, GaussianRBF, Fourier and Polynomial have rules"
        )
    if density.dimension == 2:
        from omegamax.densities.expectations._ellipses import ellipses  # which is made of parabolas

        return ellipses(density, basis)
    bell = Bell.of(density)
    center, radius, peak = _bumps(basis)
    standard = Bell.standard(bell.e if isinstance(density.alpha, Tensor) else density.alpha - 1, bell.loc)
    value = parabola(closed_order(density.alpha), standard, (center - bell.loc) / bell.unit, radius / bell.unit)
    return (value * peak).to(density.loc.dtype)


@register_expectation(BetaLaplace, TruncatedParaboloidRBF)
def expect_laplace(density: BetaLaplace, basis: TruncatedParaboloidRBF) -> Tensor:
    """``[*, J]``, by 64 nodes where the supports meet on each side of the peak."""
    flank = Flank.of(density)
    center, radius, peak = _bumps(basis)
    d, ratio = (center - flank.loc) / flank.unit, radius / flank.unit
    d = torch.stack([d, -d])

    def integrand(x: Tensor, still: bool) -> Tensor:
        r, weight = flank.point(x)
        y = (r - d.unsqueeze(-1)) / ratio.unsqueeze(-1)
        return (1 - y) * (1 + y) * weight

    near, far = flank.place((d - ratio).clamp(min=0)), flank.place((d + ratio).clamp(min=0))
    return (integral(integrand, far, near).sum(0) * peak).to(density.loc.dtype)


@register_expectation(LocationScale, TruncatedParaboloidRBF)
def expect_location_scale(density: LocationScale, basis: TruncatedParaboloidRBF) -> Tensor:
    """``[*, J]``, by 64 nodes where the supports meet on each side of the peak, in the root of the distance from it."""
    loc, scale = wide(density.loc), wide(density.scale)
    # What g holds broadcasts with [*, 1]: sides and functions go in front.
    center, radius = (t.reshape((-1,) + (1,) * loc.dim()) for t in _bumps(basis)[:2])
    d, ratio = (center - loc) / scale, radius / scale
    d = torch.stack([d, -d])

    def integrand(x: Tensor, still: bool) -> Tensor:
        v = x.square()
        y = (v - d.unsqueeze(-1)) / ratio.unsqueeze(-1)
        return (1 - y) * (1 + y) * 2 * x * height(density, v.movedim(-1, 0)).movedim(0, -1)

    # Not below a positive number: the derivative of the root would be infinite.
    near = (d - ratio).clamp(min=1e-60).sqrt()
    far = torch.minimum(d + ratio, wide(density._edge)).clamp(min=1e-60).sqrt()
    value = integral(integrand, near, far).sum(0).squeeze(-1).movedim(0, -1)
    return (value * _bumps(basis)[2]).to(density.loc.dtype)


def _bumps(basis: TruncatedParaboloidRBF) -> tuple[Tensor, Tensor, Tensor]:
    """Centre, radius and peak of each function over the line, ``[J]``."""
    height = wide(basis.height)
    radius = (2 * height * wide(basis.covariance[:, 0, 0])).sqrt()
    return wide(basis.centers[:, 0]), radius, height if basis.normalised else torch.ones_like(height)


def parabola(m: int | None, bell: Bell, center: Tensor, radius: Tensor, nodes: Rule = (NODES, WEIGHTS)) -> Tensor:
    """``E[1 - ((z - center) / radius)^2]_+`` under the beta-Gaussian in its own units.

    ``m`` is 1 / (alpha - 1) if that is an integer with a closed form, 0 for the Gaussian, else None.
    """
    if m:
        return _polynomial(m, center, radius)
    own = bell.smooth_over(center, radius)  # then nodes are placed on the parabola
    every, some = (bool(own.all()), bool(own.any())) if readable(own) else (False, True)
    value = center
    if not every:
        value = _any_power(bell, center, radius, own, nodes) if m is None else _normal(center, radius, own)
    if some:
        y = 2 * _OWN.to(center.device) - 1
        z = torch.where(own, center, 0.0).unsqueeze(-1) + torch.where(own, radius, 0.0).unsqueeze(-1) * y
        total = (bell.height(z) * (1 - y.square()) * (2 * _OWN_WEIGHTS.to(y.device))).sum(-1)
        value = torch.where(own, total * radius, value)
    return value


def _polynomial(m: int, center: Tensor, radius: Tensor) -> Tensor:
    """A polynomial over the intersection of two intervals: a few nodes are exact.

    In units of the shorter one, so that the other is never a difference of large numbers.
    """
    half = torch.full_like(radius, math.sqrt(2 * m))  # of the support
    outer = radius < half  # which of the two is the longer: the density
    short, long = torch.where(outer, radius, half), torch.where(outer, half, radius)
    offset = torch.where(outer, -center, center)  # centre of the longer less that of the shorter
    low = ((offset - long) / short).clamp(-1, 1)
    width = (((offset + long) / short).clamp(-1, 1) - low).relu()
    y = low.unsqueeze(-1) + width.unsqueeze(-1) * _FEW.to(width.device)
    ratio, apart = (short / long).unsqueeze(-1), (offset / long).unsqueeze(-1)
    x = y * ratio - apart
    # Never negative but for empty windows, where it may be large.
    near, far = (1 - y) * (1 + y), ((1 - x) * (1 + x)).clamp(min=0)
    outer = outer.unsqueeze(-1)
    value = torch.where(outer, far, near).pow(m) * torch.where(outer, near, far)
    total = (value * _FEW_WEIGHTS.to(width.device)).sum(-1)
    scale = math.gamma(m + 1.5) / math.gamma(m + 1) / math.sqrt(math.pi)  # 1 / B(1/2, m + 1)
    return total * width * short * (scale / math.sqrt(2 * m))


def _normal(center: Tensor, radius: Tensor, skip: Tensor) -> Tensor:
    """By the moments of the truncated Gaussian, which cancel where the parabola is narrow: there it is skipped."""
    radius = torch.where(skip, 1.0, radius)
    # Even in the centre; with that on the left, the far end is in the upper tail and the near one may be.
    c = torch.where(center > 0, -center, center)
    low, high = c - radius, c + radius
    at_low, at_high = ((-end.square() / 2).exp() / math.sqrt(2 * math.pi) for end in (low, high))
    first = 0.5 * (torch.erfc(high / -math.sqrt(2)) - torch.erfc(low / -math.sqrt(2)))
    second = first + low * at_low - high * at_high
    ratio = c / radius
    return (1 - ratio) * (1 + ratio) * first + 2 * ratio * (at_low - at_high) / radius - second / radius.square()


def _any_power(bell: Bell, center: Tensor, radius: Tensor, skip: Tensor, nodes: Rule) -> Tensor:
    def integrand(x: Tensor, still: bool) -> Tensor:
        z, density = bell.point(x, still)
        y = (z - center.unsqueeze(-1)) / radius.unsqueeze(-1)
        return (1 - y) * (1 + y) * density

    low, high = bell.place(center - radius), bell.place(center + radius)
    return integral(integrand, low, torch.where(skip, low, high), nodes)
