r"""One-dimensional integrals over windows, and coordinates in which the densities over the line are smooth there.

A rule with fixed nodes over the support misses a basis function that is narrow, and a rule over the basis function
misses a narrow density, or converges slowly where the density ends in a power. Here the nodes lie where both are not
zero, in a coordinate x of the density in which

- a beta-Gaussian is smooth times :math:`(1 - x^2)^{k - 1}` over [-1, 1], whatever alpha, and
- the tail of a beta-Laplace density is :math:`x^k` over [0, 1].

With k = 5 the ends are flat enough for Gauss-Legendre nodes, alpha may be anything, also a tensor, and nothing special
happens at alpha = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax._numerics import log_ratio, log_volume, phi
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._laplace import BetaLaplace

POWER = 5
_FARTHEST = 1e150  # in standard units: its square is still finite
_DEEPEST = 36.0  # 1 - x^2 is 2e-16, the rounding of x
ORDERS = (1, 2, 3, 4)  # of m = 1 / (alpha - 1) with a closed form


Rule = tuple[Tensor, Tensor]


def gauss_legendre(count: int) -> Rule:
    """Return nodes and weights on [0, 1], float64."""
    x, w = np.polynomial.legendre.leggauss(count)
    return torch.from_numpy((1 + x) / 2), torch.from_numpy(w / 2)


NODES, WEIGHTS = gauss_legendre(64)
# Pushed towards the ends, flat as x^3, where a power that need not be an integer begins.
_X, _W = gauss_legendre(32)
_PUSHED, _PUSHED_WEIGHTS = _X**3 * (10 - 15 * _X + 6 * _X**2), _W * 30 * (_X * (1 - _X)) ** 2


def integrate(
    f: Callable[[Tensor, bool], Tensor], low: Tensor | None, high: Tensor, nodes: Rule = (NODES, WEIGHTS)
) -> Tensor:
    """Integrate f from ``low`` to ``high``, elementwise; twice differentiable in the ends and in what f holds.

    ``f(x, still)`` takes points ``[*, Q]`` to values of that shape; ``still`` says that no derivative in x is wanted.
    Not called at ``low`` if that is None, which means 0. Exactly 0, with gradient 0, where ``high <= low``.
    """
    end = high.detach()
    start = torch.zeros_like(end) if low is None else low.detach()
    width = (end - start).clamp(min=0)
    x, weight = (t.to(end.device) for t in nodes)
    inside = width * (f(start.unsqueeze(-1) + width.unsqueeze(-1) * x, True) * weight).sum(-1)
    # The nodes stand still. What an end sweeps over when it moves is a strip of height f, taken at its middle: no
    # width, but the right first and second derivative.
    moved = [high - end] if low is None else [high - end, start - low]
    middle = [(high + end) / 2] if low is None else [(high + end) / 2, (low + start) / 2]
    swept = (torch.stack(moved, -1) * f(torch.stack(middle, -1), False)).sum(-1)
    return inside + torch.where(end > start, swept, 0.0)


def nodes_between(cuts: Tensor) -> tuple[Tensor, Tensor]:
    """Return nodes and weights from each of the ascending cuts ``[*, C]`` to the next, ``[*, Q]``.

    They move with the cuts.
    """
    width = (cuts[..., 1:] - cuts[..., :-1]).unsqueeze(-1)
    x = cuts[..., :-1].unsqueeze(-1) + width * _PUSHED.to(cuts.device)
    return x.flatten(-2), (width * _PUSHED_WEIGHTS.to(cuts.device)).flatten(-2)


def to_double(t: Tensor) -> Tensor:
    """Return a tensor in double precision, where the device has it."""
    return t if t.device.type == "mps" else t.double()


def phi_of_negative(y: Tensor) -> Tensor:
    """Return ``expm1(y) / y`` for y <= 0 by that formula: the value is accurate, derivatives at 0 are not."""
    y = y.clamp(max=-1e-300)
    return torch.expm1(y) / y


def excess(density: BetaGaussian) -> Tensor:
    """Return ``alpha - 1`` as ``[*, 1]``, ``[1]`` for a float."""
    alpha = density.alpha
    return (
        to_double(alpha).unsqueeze(-1) - 1
        if isinstance(alpha, Tensor)
        else to_double(density.loc).new_full((1,), alpha - 1)
    )


@dataclass(frozen=True)
class Bell:
    r"""A beta-Gaussian over the line: :math:`t = \mu + s z`, and the coordinate x of z.

    With :math:`u = -\log(p(t) / p(\mu))`, x has the sign of z and :math:`1 - x^2 = e^{-\rho u / k}`; the rate
    :math:`\rho` is alpha, or (1 + alpha) / 2 for alpha < 1. All are ``[*, 1]``.
    """

    loc: Tensor
    unit: Tensor  # s
    e: Tensor  # alpha - 1
    rate: Tensor  # rho / k
    peak: Tensor  # s p(mu)
    fixed_e: float | None = None  # alpha - 1 if that is no tensor, and has no derivative

    @classmethod
    def of(cls, density: BetaGaussian) -> Bell:
        """Return the bell of a density over the line."""
        loc, sigma, e = to_double(density.loc), to_double(density.scale_tril[..., 0]), excess(density)
        bell = cls.standard(e if isinstance(density.alpha, Tensor) else density.alpha - 1, loc)
        level = (bell.peak.log() - sigma.log()) / (1 + e / 2)
        return replace(bell, loc=loc, unit=sigma * (e * level / 2).exp())

    @classmethod
    def standard(cls, e: float | Tensor, like: Tensor) -> Bell:
        """Return the bell at 0 in units of s, for alpha - 1 as ``[*, 1]`` or a float."""
        fixed_e = None if isinstance(e, Tensor) else e
        delta = log_volume(e, 1) if isinstance(e, Tensor) else like.new_full((1,), log_volume(e, 1))
        e = e if isinstance(e, Tensor) else like.new_full((1,), e)
        peak = (delta - 0.5 * math.log(2 * math.pi)).exp()
        rate = (1 + torch.where(e < 0, e / 2, e)) / POWER
        return cls(torch.zeros_like(e), torch.ones_like(e), e, rate, peak, fixed_e)

    def add_axis(self) -> Bell:
        """Return the bell with an axis more, for arrays of nodes."""
        loc, unit, e, rate, peak = (t.unsqueeze(-1) for t in (self.loc, self.unit, self.e, self.rate, self.peak))
        return Bell(loc, unit, e, rate, peak, self.fixed_e)

    def coordinate(self, t: Tensor) -> Tensor:
        """Return x at points ``[*, J]``, infinite ones too; -1 and 1, with gradient 0, beyond the support."""
        with torch.no_grad():
            z = (t - self.loc) / self.unit
            beyond = (self.e * z.square() >= 2) | (z.abs() > _FARTHEST)
            r = torch.where(beyond, 0.0, z).square() / 2
            # Far out in the tail, where nothing is left, derivatives are differences of huge numbers.
            beyond = beyond | (self.rate * r * log_ratio(-self.e * r) > _DEEPEST)
        z = (torch.where(beyond, self.loc, t) - self.loc) / self.unit
        r = z.square() / 2
        bend = log_ratio(-self.e * r)
        x = z * (self.rate / 2 * bend * phi(-self.rate * r * bend)).sqrt()
        return torch.where(beyond, torch.where(t < self.loc, -1.0, 1.0), x.clamp(-1, 1))

    def point(self, x: Tensor, still: bool = False) -> tuple[Tensor, Tensor]:
        """Return z at coordinates ``[*, J, Q]``, and the density of x there.

        ``still`` says that no derivative in x is wanted.
        """
        e, rate, peak = self.e.unsqueeze(-1), self.rate.unsqueeze(-1), self.peak.unsqueeze(-1)
        square = x.square().clamp(1e-300, 1 - 1e-15)
        size = torch.where(e < 0, -e, e)
        if still and self.fixed_e is not None:
            logarithm = torch.log1p(-square)
            slope = -logarithm / (square * rate)
            stretch = (2 * slope * phi_of_negative(size / rate * logarithm)).sqrt()
        else:
            slope = log_ratio(-square) / rate
            stretch = (2 * slope * phi(-size * square * slope)).sqrt()
        z = x * stretch * (torch.where(e < 0, -e, 0.0) * square * slope / 2).exp()
        return z, peak * 2 / rate * (1 - square).pow(POWER - 1) / stretch

    def smooth_over(self, center: Tensor, radius: Tensor) -> Tensor:
        """Tell whether the density has no edge and no peak near the interval of z, ``[*, J]``: bool."""
        return (radius < 0.25) & (self.e * (center.abs() + 2 * radius).square() < 2)

    def height(self, z: Tensor) -> Tensor:
        """Return the density of z at points ``[*, J, Q]`` inside the support."""
        r = z.square() / 2
        if self.fixed_e is None:
            log = -r * log_ratio(-self.e.unsqueeze(-1) * r)
        else:
            log = torch.log1p(-self.fixed_e * r) / self.fixed_e if self.fixed_e else -r
        return self.peak.unsqueeze(-1) * log.exp()


class Flank(NamedTuple):
    r"""Either side of a beta-Laplace density: the distance from the peak is :math:`s r`, and its coordinate x.

    The mass beyond is :math:`x^k / 2`. All are ``[*, 1]``.
    """

    loc: Tensor
    unit: Tensor  # s
    e: Tensor  # alpha - 1
    rate: Tensor  # alpha / k
    fixed_e: float | None  # alpha - 1 if that is no tensor, and has no derivative

    @classmethod
    def of(cls, density: BetaLaplace) -> Flank:
        loc, scale = to_double(density.loc), to_double(density.scale)
        alpha = density.alpha
        alpha = to_double(alpha).unsqueeze(-1) if isinstance(alpha, Tensor) else loc.new_tensor([alpha])
        level = (alpha / (2 * scale)).log() / alpha
        fixed_e = None if isinstance(density.alpha, Tensor) else density.alpha - 1
        return cls(loc, scale * ((alpha - 1) * level).exp(), alpha - 1, alpha / POWER, fixed_e)

    def coordinate(self, r: Tensor) -> Tensor:
        """Return x at distances r >= 0 ``[*, J]``, infinite ones too; 0, with gradient 0, beyond the support."""
        beyond = (self.e * r >= 1) | (r > _FARTHEST)
        r = torch.where(beyond, 0.0, r)
        return torch.where(beyond, 0.0, (-self.rate * r * log_ratio(-self.e * r)).exp())

    def point(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return r at coordinates ``[*, J, Q]``, and the density of x there (1/2 over [0, 1])."""
        depth = -x.clamp(min=1e-60).log() / self.rate.unsqueeze(-1)
        return depth * phi(-self.e.unsqueeze(-1) * depth), POWER / 2 * x.pow(POWER - 1)

    def depth(self, x: Tensor) -> Tensor:
        """Return ``log(p(mu) / p(t))`` at coordinates x > 0 ``[*, J]``."""
        return -x.log() / self.rate


def find_order(alpha: float | Tensor) -> int | None:
    """Return ``m = 1 / (alpha - 1)`` if it is one of the integers that :func:`interval` covers, else None.

    >>> find_order(1.5), find_order(4 / 3), find_order(1.7)
    (2, 3, None)
    """
    if isinstance(alpha, Tensor):
        return None
    return next((m for m in ORDERS if abs((alpha - 1) * m - 1) < 1e-14), None)


def find_closed_order(alpha: float | Tensor) -> int | None:
    """Return :func:`find_order`, and 0 for the Gaussian."""
    return 0 if not isinstance(alpha, Tensor) and alpha == 1 else find_order(alpha)
