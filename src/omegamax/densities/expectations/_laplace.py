"""Basis functions under the beta-Laplace family: closed for Laplace's density and the triangular one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax._numerics import log_ratio, phi
from omegamax.basis import Basis, GaussianRBF, Polynomial
from omegamax.densities._base import register_expectation
from omegamax.densities._laplace import BetaLaplace
from omegamax.densities.expectations._windows import (
    NODES,
    POWER,
    WEIGHTS,
    Flank,
    gauss_legendre,
    integrate,
    phi_of_negative,
    to_double,
)

# Beyond so many standard deviations a Gaussian is below 1e-16 of its peak.
REACH = 8.6
_ROOT2 = math.sqrt(2)
# The closed form of the triangular density cancels where the basis function is wide, in units of the half-width; from
# there on, that many nodes on each side leave 1e-15.
_NARROW = 0.5
_WIDE_NODES, _WIDE_WEIGHTS = gauss_legendre(16)
# Coefficients of sqrt(pi) x erfcx(x) in powers of 1 / 2x^2: (-1)^n (2n - 1)!!.
_ERFCX = [(-1.0) ** n * math.prod(range(1, 2 * n, 2)) for n in range(17)]


@register_expectation(BetaLaplace, GaussianRBF)
def expect_laplace(density: BetaLaplace, basis: GaussianRBF) -> Tensor:
    """Return ``E_p[psi_j]`` for Gaussian functions, ``[*, J]``.

    It is closed at alpha = 1 and 2, and otherwise a sum over nodes in a window.
    """
    flank = Flank.of(density)
    d = to_double(basis.centers[:, 0]) - flank.loc
    s = to_double(basis.covariance[:, 0, 0]).sqrt()
    if not isinstance(density.alpha, Tensor) and density.alpha in (1.0, 2.0):
        value = (_laplace if density.alpha == 1 else _triangular)(d, s, flank.unit)
    else:
        value = _integrate_windows(flank, d / flank.unit, s / flank.unit) / flank.unit
    return (value * to_double(basis.log_weight).exp()).to(density.loc.dtype)


@register_expectation(BetaLaplace, Basis)
def expect_any(density: BetaLaplace, basis: Basis) -> Tensor:
    """Return ``E_p[psi_j]`` for any other functions, ``[*, J]``, by 64 nodes on each side of the peak.

    Absolute error 1e-12 for functions that are smooth on the scale of the density (a wave that turns by less than 10
    radians over it); functions with kinks or narrow peaks need a rule of their own.
    """
    flank = Flank.of(density)
    x = NODES.to(flank.loc.device)
    distance, weight = flank.point(x)  # [*, 1 or 64, 64]
    distance, weight = distance.squeeze(-2) * flank.unit, weight * WEIGHTS.to(x.device)
    value = sum(basis((flank.loc + side * distance).unsqueeze(-1)) for side in (-1, 1))
    return (value * weight.unsqueeze(-1)).sum(-2).to(density.loc.dtype)


@register_expectation(BetaLaplace, Polynomial)
def expect_polynomial(density: BetaLaplace, basis: Polynomial) -> Tensor:
    r"""Return moments ``[*, J]``, closed: :math:`E|t - \mu|^q = s^q q! / \prod_{i \le q} (\alpha + i (\alpha - 1))`.

    With heavy tails, from the first q on where the product is not positive, even moments are inf and odd ones NaN.
    """
    flank = Flank.of(density)
    share = flank.e + 1
    central, raw, powers = [torch.ones_like(flank.unit * share)], [], [torch.ones_like(flank.loc)]
    for q in range(basis.degree + 1):
        terms = [math.comb(q, i) * central[i] * powers[q - i] for i in range(0, q + 1, 2)]
        raw.append(torch.where(share > 0, torch.stack(terms).sum(0), math.nan if q % 2 else math.inf))
        share = share + flank.e
        central.append(central[-1] * flank.unit * (q + 1) / torch.where(share > 0, share, 1.0))
        powers.append(powers[-1] * flank.loc)
    return torch.cat(raw, -1).index_select(-1, basis.exponents[:, 0]).to(density.loc.dtype)


def _laplace(d: Tensor, s: Tensor, b: Tensor) -> Tensor:
    r"""Return the normal density convolved with Laplace's, at d:

    .. math:: \frac{1}{4b} e^{-d^2 / 2s^2} \Bigl[\operatorname{erfcx}\frac{s/b - d/s}{\sqrt2}
              + \operatorname{erfcx}\frac{s/b + d/s}{\sqrt2}\Bigr], \qquad
              \operatorname{erfcx} x = e^{x^2} \operatorname{erfc} x
    """
    d = torch.where(d < 0, -d, d)  # not abs: its curvature at 0 would be lost with the sign
    near, far = (s / b - d / s) / _ROOT2, (s / b + d / s) / _ROOT2
    bell = (-(d / s).square() / 2).exp()
    # erfcx of a negative number is huge; there erfc itself does, with a decaying exponential.
    left = near < 0
    tail = (torch.where(left, s / b * (s / b / 2 - d / s), 0.0)).exp() * torch.erfc(torch.where(left, near, 0.0))
    scaled = bell * _erfcx(torch.where(left, 1.0, near))
    return (torch.where(left, tail, scaled) + bell * _erfcx(far)) / (4 * b)


def _erfcx(x: Tensor) -> Tensor:
    """Return ``exp(x^2) erfc(x)`` for x >= 0.

    For large x it is a series, since torch's derivative there is a difference of nearly equal numbers.
    """
    large = x > 8
    inner, outer = torch.where(large, 1.0, x), torch.where(large, x, 8.0)
    y = 0.5 / outer.square()
    series = torch.full_like(y, _ERFCX[-1])
    for coefficient in reversed(_ERFCX[:-1]):
        series = series * y + coefficient
    return torch.where(large, series / (outer * math.sqrt(math.pi)), torch.special.erfcx(inner))


def _triangular(d: Tensor, s: Tensor, a: Tensor) -> Tensor:
    r"""Return the normal density convolved with the triangular one on [-a, a], at d: a second difference,

    .. math:: \frac{G(d + a) - 2 G(d) + G(d - a)}{a^2}, \qquad G(x) = x \Phi(x / s) + s \varphi(x / s) = x_+ + g(|x|).

    The differences of :math:`x_+` are the triangle itself, and :math:`g` decays: nothing large cancels.
    """
    narrow = s < _NARROW * a
    every, some = (bool(narrow.all()), bool(narrow.any())) if readable(narrow) else (False, True)
    closed = by_nodes = d
    if some:
        safe = torch.where(narrow, s, 0.1 * a)
        size = torch.where(d < 0, -d, d)
        triangle = torch.where(size < a, 1 - size / a, 0.0) / a
        # For a single sign of d only d - a may change its own.
        rest = _gaussian_tail(size + a, safe) - 2 * _gaussian_tail(size, safe)
        rest = rest + _gaussian_tail(torch.where(size < a, a - size, size - a), safe)
        closed = triangle + rest / a.square()
    if not every:
        r = _WIDE_NODES.to(d.device)
        weight = _WIDE_WEIGHTS.to(d.device) * (1 - r) / math.sqrt(2 * math.pi)
        safe = torch.where(narrow, a, s)
        left, right = ((d.unsqueeze(-1) + side * a.unsqueeze(-1) * r) / safe.unsqueeze(-1) for side in (-1, 1))
        by_nodes = (((left.square() / -2).exp() + (right.square() / -2).exp()) @ weight) / safe
    return torch.where(narrow, closed, by_nodes)


def _gaussian_tail(x: Tensor, s: Tensor) -> Tensor:
    """Return ``s phi(x / s) - x Q(x / s)`` for x >= 0, with Q the upper tail."""
    z = x / s
    return s * ((-z.square() / 2).exp() / math.sqrt(2 * math.pi) - z * torch.erfc(z / _ROOT2) / 2)


def _integrate_windows(flank: Flank, d: Tensor, w: Tensor) -> Tensor:
    """Return centres ``d`` and widths ``w``, ``[*, J]``, in units of the density; any alpha."""
    d = torch.stack([d, -d])  # one side and the other
    heavy = flank.e < 0
    with torch.no_grad():
        near, far = (d - REACH * w).clamp(min=0), (d + REACH * w).clamp(min=0)
        # A heavy tail may put a wide function far from the peak, but within its reach: the coordinate of the density
        # serves up to where the function begins to bend, the cube root of the distance from there on.
        split = torch.where(heavy, torch.minimum(torch.maximum(near, w / 8), far), far)
    value = _integrate_near(flank, d, w, near, split)
    if flank.fixed_e is not None:
        some = flank.fixed_e < 0
    else:
        some = not readable(flank.e) or bool(heavy.any())
    if some:
        value = value + torch.where(heavy, _integrate_beyond(torch.where(heavy, flank.e, -1.0), d, w, split, far), 0.0)
    return value.sum(0)


def _integrate_near(flank: Flank, d: Tensor, w: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """Integrate from ``near`` to ``far``, in the coordinate x of the density.

    Measured from the near end: x = start (1 - y). A narrow function far out would feel the rounding of each distance.
    """
    start = flank.coordinate(near).detach()
    depth = flank.depth(start.clamp(min=1e-60))
    fall = (-flank.e * depth).exp()
    with torch.no_grad():
        step = (far - near) / fall
        beyond = flank.e * step >= 1
        step = torch.where(beyond, 0.0, step)
        end = torch.where(beyond, 1.0, -torch.expm1(-flank.rate * step * log_ratio(-flank.e * step)))
    # With heavy tails the next part begins at ``far``, a distance: this one has to end there, whatever alpha.
    heavy = flank.e < 0
    safe = torch.where(heavy, far, 0.0)
    further = safe * log_ratio(-flank.e * safe) - depth
    end = torch.where(heavy, -torch.expm1(-flank.rate * further), end)
    offset, fall = (depth * phi(-flank.e * depth) - d).unsqueeze(-1), fall.unsqueeze(-1)
    fixed = flank.fixed_e is not None and flank.fixed_e >= 0

    def integrand(y: Tensor, still: bool) -> Tensor:
        further = -torch.log1p(-y.clamp(max=1 - 1e-15)) / flank.rate.unsqueeze(-1)
        bend = -flank.e.unsqueeze(-1) * further
        r = offset + fall * further * (phi_of_negative(bend) if fixed and still else phi(bend))
        return (1 - y).pow(POWER - 1) * _bump(r, w)

    return POWER / 2 * start.pow(POWER) * integrate(integrand, None, end)


def _integrate_beyond(e: Tensor, d: Tensor, w: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """Integrate from ``near`` to ``far`` in the cube root of the distance; alpha < 1."""
    with torch.no_grad():
        start, end = near.clamp(min=1e-300).pow(1 / 3), far.clamp(min=1e-300).pow(1 / 3)
        width = ((far - near) / (start.square() + start * end + end.square())).unsqueeze(-1)
        start, step = start.unsqueeze(-1), width * NODES.to(d.device)
        further = step * (3 * start.square() + 3 * start * step + step.square())
        weight = 3 * (start + step).square() * width * WEIGHTS.to(d.device)
        r = near.unsqueeze(-1) + further
    e = e.unsqueeze(-1)
    density = (1 + e) / 2 * (torch.log1p(-e * r) / e).exp()
    return (_bump((near - d).unsqueeze(-1) + further, w) * density * weight).sum(-1)


def _bump(offset: Tensor, w: Tensor) -> Tensor:
    w = w.unsqueeze(-1)
    return ((offset / w).square() / -2).exp() / (w * math.sqrt(2 * math.pi))
