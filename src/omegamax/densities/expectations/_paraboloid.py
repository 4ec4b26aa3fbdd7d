r"""Truncated paraboloids as basis functions: exact zeros where supports do not meet.

Over the plane, in the coordinates of :mod:`._plane`, turned so that the longer axis of the basis function is the first,
it is a parabola on every line :math:`z_1 = \text{const}`. What is left to integrate over :math:`z_1` is smooth but
where the two ellipses cross: four points at most, the roots of a quartic, between which the nodes are placed.
"""

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
from omegamax.densities.expectations._location_scale import height_of
from omegamax.densities.expectations._plane import INNER, Plane, check_planar, integrate_in_parts
from omegamax.densities.expectations._windows import (
    NODES,
    WEIGHTS,
    Bell,
    Flank,
    Rule,
    find_closed_order,
    gauss_legendre,
    integrate,
    nodes_between,
    to_double,
)

# A polynomial of degree 2m + 2, m <= 4.
_POLYNOMIAL_NODES, _POLYNOMIAL_WEIGHTS = gauss_legendre(6)
# On a parabola over which the density is smooth.
_OWN, _OWN_WEIGHTS = gauss_legendre(20)


@register_expectation(BetaGaussian, TruncatedParaboloidRBF)
def expect_paraboloid(density: BetaGaussian, basis: TruncatedParaboloidRBF) -> Tensor:
    """Return ``E_p[psi_j]``, ``[*, J]``; exactly 0, with gradient 0, where the supports do not meet.

    Needs one or two dimensions.
    """
    check_planar(density, basis)
    if density.dimension == 2:
        return integrate_ellipses(density, basis)
    bell = Bell.of(density)
    center, radius, peak = _over_line(basis)
    standard = Bell.standard(bell.e if isinstance(density.alpha, Tensor) else density.alpha - 1, bell.loc)
    value = expect_parabola(
        find_closed_order(density.alpha), standard, (center - bell.loc) / bell.unit, radius / bell.unit
    )
    return (value * peak).to(density.loc.dtype)


@register_expectation(BetaLaplace, TruncatedParaboloidRBF)
def expect_laplace(density: BetaLaplace, basis: TruncatedParaboloidRBF) -> Tensor:
    """Return ``[*, J]``, by 64 nodes where the supports meet on each side of the peak."""
    flank = Flank.of(density)
    center, radius, peak = _over_line(basis)
    d, ratio = (center - flank.loc) / flank.unit, radius / flank.unit
    d = torch.stack([d, -d])

    def integrand(x: Tensor, still: bool) -> Tensor:
        r, weight = flank.point(x)
        y = (r - d.unsqueeze(-1)) / ratio.unsqueeze(-1)
        return (1 - y) * (1 + y) * weight

    near, far = flank.coordinate((d - ratio).clamp(min=0)), flank.coordinate((d + ratio).clamp(min=0))
    return (integrate(integrand, far, near).sum(0) * peak).to(density.loc.dtype)


@register_expectation(LocationScale, TruncatedParaboloidRBF)
def expect_location_scale(density: LocationScale, basis: TruncatedParaboloidRBF) -> Tensor:
    """Return ``[*, J]``, by 64 nodes where the supports meet on each side of the peak.

    The nodes are spaced in the root of the distance from it.
    """
    loc, scale = to_double(density.loc), to_double(density.scale)
    # What g holds broadcasts with [*, 1]: sides and functions go in front.
    center, radius = (t.reshape((-1,) + (1,) * loc.dim()) for t in _over_line(basis)[:2])
    d, ratio = (center - loc) / scale, radius / scale
    d = torch.stack([d, -d])

    def integrand(x: Tensor, still: bool) -> Tensor:
        v = x.square()
        y = (v - d.unsqueeze(-1)) / ratio.unsqueeze(-1)
        return (1 - y) * (1 + y) * 2 * x * height_of(density, v.movedim(-1, 0)).movedim(0, -1)

    # Not below a positive number: the derivative of the root would be infinite.
    near = (d - ratio).clamp(min=1e-60).sqrt()
    far = torch.minimum(d + ratio, to_double(density._edge)).clamp(min=1e-60).sqrt()
    value = integrate(integrand, near, far).sum(0).squeeze(-1).movedim(0, -1)
    return (value * _over_line(basis)[2]).to(density.loc.dtype)


def _over_line(basis: TruncatedParaboloidRBF) -> tuple[Tensor, Tensor, Tensor]:
    """Return centre, radius and peak of each function over the line, ``[J]``."""
    height = to_double(basis.height)
    radius = (2 * height * to_double(basis.covariance[:, 0, 0])).sqrt()
    return to_double(basis.centers[:, 0]), radius, height if basis.normalised else torch.ones_like(height)


def expect_parabola(
    m: int | None, bell: Bell, center: Tensor, radius: Tensor, nodes: Rule = (NODES, WEIGHTS)
) -> Tensor:
    """Return ``E[1 - ((z - center) / radius)^2]_+`` under the beta-Gaussian in its own units.

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
    """Integrate a polynomial over the intersection of two intervals: a few nodes are exact.

    In units of the shorter one, so that the other is never a difference of large numbers.
    """
    half = torch.full_like(radius, math.sqrt(2 * m))  # of the support
    outer = radius < half  # which of the two is the longer: the density
    short, long = torch.where(outer, radius, half), torch.where(outer, half, radius)
    offset = torch.where(outer, -center, center)  # centre of the longer less that of the shorter
    low = ((offset - long) / short).clamp(-1, 1)
    width = (((offset + long) / short).clamp(-1, 1) - low).relu()
    y = low.unsqueeze(-1) + width.unsqueeze(-1) * _POLYNOMIAL_NODES.to(width.device)
    ratio, apart = (short / long).unsqueeze(-1), (offset / long).unsqueeze(-1)
    x = y * ratio - apart
    # Never negative but for empty windows, where it may be large.
    near, far = (1 - y) * (1 + y), ((1 - x) * (1 + x)).clamp(min=0)
    outer = outer.unsqueeze(-1)
    value = torch.where(outer, far, near).pow(m) * torch.where(outer, near, far)
    total = (value * _POLYNOMIAL_WEIGHTS.to(width.device)).sum(-1)
    scale = math.gamma(m + 1.5) / math.gamma(m + 1) / math.sqrt(math.pi)  # 1 / B(1/2, m + 1)
    return total * width * short * (scale / math.sqrt(2 * m))


def _normal(center: Tensor, radius: Tensor, skip: Tensor) -> Tensor:
    """Return the mean by moments of the truncated Gaussian; narrow parabolas, where these cancel, are skipped."""
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

    low, high = bell.coordinate(center - radius), bell.coordinate(center + radius)
    return integrate(integrand, low, torch.where(skip, low, high), nodes)


def integrate_ellipses(density: BetaGaussian, basis: TruncatedParaboloidRBF) -> Tensor:
    """Return ``E_p[psi_j]`` in two dimensions, ``[*, J]``.

    The absolute error is 1e-12, 1e-8 where alpha is below 1/2, for peak 1.
    """
    plane = Plane.of(density)
    root = plane.root.unsqueeze(-3)
    height = to_double(basis.height)
    shape = torch.linalg.cholesky_ex(to_double(basis.covariance))[0] * (2 * height).sqrt()[:, None, None]
    apart = (to_double(basis.centers) - to_double(density.loc).unsqueeze(-2)).unsqueeze(-1)
    # The basis function's ellipse is center + axes y over |y| <= 1.
    axes = torch.linalg.solve_triangular(root, shape.expand(*apart.shape[:-2], 2, 2), upper=False)
    center = torch.linalg.solve_triangular(root, apart, upper=False).squeeze(-1)
    value = integrate_in_parts(_integrate_lines, plane, 160, center, axes[..., 0], axes[..., 1])
    return (value * (height if basis.normalised else 1.0)).to(density.loc.dtype)


def _integrate_lines(plane: Plane, center: Tensor, column: Tensor, other: Tensor) -> Tensor:
    """Integrate along lines, given centres and the columns of the lower triangular axes, ``[*, J, 2]``."""
    with torch.no_grad():  # the integral is the same whichever way the plane is turned
        a, b, d = column[..., 0], column[..., 1], other[..., 1]
        angle = torch.atan2(2 * a * b, a.square() - b.square() - d.square()) / 2
        along = torch.stack([angle.cos(), angle.sin()], -1)
        across = torch.stack([-angle.sin(), angle.cos()], -1)
    rows = [[(v * c).sum(-1) for c in (column, other)] for v in (along, across)]
    square = rows[0][0].square() + rows[0][1].square()
    reach = square.sqrt()
    lean = (rows[0][0] * rows[1][0] + rows[0][1] * rows[1][1]) / square
    girth = column[..., 0] * other[..., 1] / reach
    x0, y0 = ((v * center).sum(-1) for v in (along, across))

    bell = plane.first
    low, high = bell.coordinate(x0 - reach), bell.coordinate(x0 + reach)
    narrow = bell.smooth_over(x0 / bell.unit, reach / bell.unit)
    low, high = torch.where(narrow, -1.0, low), torch.where(narrow, 1.0, high)
    with torch.no_grad():
        cuts = _find_crossings(plane.e, x0, y0, reach, girth)  # [*, J, 4]
        cuts = torch.where(narrow.unsqueeze(-1), -1.0, bell.add_axis().coordinate(cuts))
        cuts = torch.minimum(torch.maximum(cuts, low.unsqueeze(-1)), high.unsqueeze(-1)).sort(-1).values
    x, weight = nodes_between(torch.cat([low.unsqueeze(-1), cuts, high.unsqueeze(-1)], -1))

    # From here on [*, J, Q]. Where the basis function is narrow, nodes are relative to it.
    narrow, x0, y0, reach, lean, girth = (t.unsqueeze(-1) for t in (narrow, x0, y0, reach, lean, girth))
    unit = bell.unit.unsqueeze(-1)
    own = torch.where(narrow, x, 0.0)
    z, mass = bell.point(torch.where(narrow, 0.0, x))
    z = torch.where(narrow, x0 + reach * own, z * unit)
    y = torch.where(narrow, own, (z - x0) / reach)
    mass = torch.where(narrow, bell.height(torch.where(narrow, z, 0.0) / unit) * reach / unit, mass)
    rest = ((1 - y) * (1 + y)).clamp(min=1e-40)
    chord = plane.chord(z)
    center, radius = (y0 + lean * (z - x0)) / chord, girth * rest.sqrt() / chord
    return (weight * mass * rest * expect_parabola(plane.order, plane.second, center, radius, INNER)).sum(-1)


def _find_crossings(e: Tensor, x0: Tensor, y0: Tensor, reach: Tensor, girth: Tensor) -> Tensor:
    """Return where an ellipse with these half-axes crosses the edge of the density: first coordinates, ``[*, J, 4]``.

    On the smaller of both, at ``center + size (cos, sin)``, the other's equation is a trigonometric polynomial of
    degree 2 in the angle. Complex pairs give the point where the curves are nearest.
    """
    edge = (2 / torch.where(e > 0, e, 1.0)).sqrt()
    bounded = reach < edge
    p, q = edge / reach, edge / girth
    u, v = x0 / reach, y0 / girth
    constant = torch.where(
        bounded,
        (x0.square() + y0.square() - edge.square() + (reach.square() + girth.square()) / 2) / edge.square(),
        (u.square() + v.square() - 1 + (p.square() + q.square()) / 2) / q.square(),
    )
    cos1 = torch.where(bounded, 2 * x0 * reach / edge.square(), -2 * u * p / q.square())
    sin1 = torch.where(bounded, 2 * y0 * girth / edge.square(), -2 * v / q)
    cos2 = torch.where(bounded, (reach.square() - girth.square()) / (2 * edge.square()), ((p / q).square() - 1) / 2)
    # In t = tan(angle / 2), counted from where the polynomial is far from zero opposite: the leading coefficient.
    angles = torch.arange(16, dtype=x0.dtype, device=x0.device) * (math.pi / 8)
    columns = [t.unsqueeze(-1) for t in (constant, cos1, sin1, cos2)]
    samples = columns[0] + columns[1] * angles.cos() + columns[2] * angles.sin() + columns[3] * (2 * angles).cos()
    start = angles[samples.abs().argmax(-1)] - math.pi
    c, s, c2, s2 = start.cos(), start.sin(), (2 * start).cos(), (2 * start).sin()
    a1, b1, a2, b2 = cos1 * c + sin1 * s, sin1 * c - cos1 * s, cos2 * c2, -cos2 * s2
    lead = constant - a1 + a2
    lead = torch.where(lead == 0, 1.0, lead)
    rest = [constant + a1 + a2, 2 * b1 + 4 * b2, 2 * constant - 6 * a2, 2 * b1 - 4 * b2]
    last = torch.stack([-(r / lead) for r in rest], -1)
    shift = torch.eye(4, dtype=last.dtype, device=last.device)[1:].expand(*last.shape[:-1], 3, 4)
    companion = torch.cat([shift, last.unsqueeze(-2)], -2)
    t = torch.linalg.eigvals(companion).real
    angle = start.unsqueeze(-1) + 2 * t.atan()
    crossings = torch.where(
        bounded.unsqueeze(-1), x0.unsqueeze(-1) + reach.unsqueeze(-1) * angle.cos(), edge.unsqueeze(-1) * angle.cos()
    )
    # A density without edge crosses nothing, but a heavy tail sees the girth of a long ellipse at all distances.
    far = girth + y0.abs()
    return torch.where((e > 0).unsqueeze(-1), crossings, torch.stack([-far, -far.sqrt(), far.sqrt(), far], -1))
