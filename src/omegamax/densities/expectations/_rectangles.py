r"""Boxes: the mass that a density puts on each, from its distribution function.

Over the plane, in the coordinates of :mod:`._plane`, a box is where two strips meet. Turned so that the bisector of the
strips is the first axis, each is :math:`a^- \le z_2 - k z_1 \le a^+` with slopes k and -k of at most 1, however thin
the density. What is left to integrate over :math:`z_1` is smooth but at the corners and where sides cross the edge of
the density. Nodes are placed between those, and move with them.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from omegamax.basis import Rectangles
from omegamax.densities._base import register_expectation
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._laplace import BetaLaplace
from omegamax.densities._location_scale import LocationScale
from omegamax.densities.expectations._plane import INNER, Plane, check_planar, integrate_in_parts
from omegamax.densities.expectations._windows import (
    NODES,
    POWER,
    WEIGHTS,
    Bell,
    Flank,
    Rule,
    find_closed_order,
    integrate,
    nodes_between,
    to_double,
)

# In place of infinite ends, which would leave NaNs in gradients: in the units of the user, and in units of the density
# over the plane, of which the fourth power must still be finite.
_FARTHEST_END = 1e200
_FARTHEST_SIDE = 1e70


@register_expectation(BetaGaussian, Rectangles)
def expect_rectangles(density: BetaGaussian, basis: Rectangles) -> Tensor:
    """Return ``[*, J]``: closed at alpha = 1, 2, 3/2, 4/3, 5/4, else by 64 nodes between the ends.

    Needs one or two dimensions.
    """
    check_planar(density, basis)
    m = find_closed_order(density.alpha)
    if density.dimension == 2:
        return integrate_boxes(density, basis)
    bell = Bell.of(density)
    low, high = ((end - bell.loc) / bell.unit for end in finite_ends(basis))
    standard = Bell.standard(bell.e if isinstance(density.alpha, Tensor) else density.alpha - 1, bell.loc)
    return mass_between(m, standard, low, high).to(density.loc.dtype)


def mass_between(m: int | None, bell: Bell, low: Tensor, high: Tensor, nodes: Rule = (NODES, WEIGHTS)) -> Tensor:
    """Return the mass of the beta-Gaussian, in its own units, between ``low`` and ``high``; 0 if low >= high.

    ``m`` is 1 / (alpha - 1) if that is an integer with a closed form, 0 for the Gaussian, else None.
    """
    if m is None:
        return integrate(lambda x, still: bell.point(x, still)[1], bell.coordinate(low), bell.coordinate(high), nodes)
    value = _power(m, high) - _power(m, low) if m else _normal(low, high)
    return torch.where(high > low, value, 0.0)


@register_expectation(BetaLaplace, Rectangles)
def expect_laplace(density: BetaLaplace, basis: Rectangles) -> Tensor:
    """Return ``[*, J]``, closed for every alpha."""
    flank = Flank.of(density)
    low, high = (_beside(flank, end) for end in finite_ends(basis))
    return (high - low).to(density.loc.dtype)


@register_expectation(LocationScale, Rectangles)
def expect_location_scale(density: LocationScale, basis: Rectangles) -> Tensor:
    """Return ``[*, J]``, closed: the density is a derivative."""
    loc, scale, edge = to_double(density.loc), to_double(density.scale), to_double(density._edge)
    masses = []
    for end in finite_ends(basis):
        x = (end.reshape((-1,) + (1,) * loc.dim()) - loc) / scale  # what g holds broadcasts with [*, 1]
        side = torch.where(x < 0, -1.0, 1.0)
        beyond = side * x >= edge
        masses.append(side * torch.where(beyond, 0.5, density._mass(torch.where(beyond, 0.0, side * x))))
    return (masses[1] - masses[0]).squeeze(-1).movedim(0, -1).to(density.loc.dtype)


def finite_ends(basis: Rectangles, axis: int = 0) -> tuple[Tensor, Tensor]:
    """Return the ends of the boxes along an axis, ``[J]``."""
    low, high = (to_double(t[:, axis]).clamp(-_FARTHEST_END, _FARTHEST_END) for t in (basis.lower, basis.upper))
    return low, high


def _power(m: int, end: Tensor) -> Tensor:
    r"""Return the mass between 0 and ``end``, negative to the left: :math:`\int_0^v (1 - s^2)^m ds / B(1/2, m + 1)`."""
    v = (end / math.sqrt(2 * m)).clamp(-1, 1)
    square = v.square()
    total = torch.full_like(v, (-1) ** m / (2 * m + 1))
    for i in range(m - 1, -1, -1):
        total = total * square + (-1) ** i * math.comb(m, i) / (2 * i + 1)
    return v * total * (math.gamma(m + 1.5) / math.gamma(m + 1) / math.sqrt(math.pi))


def _normal(low: Tensor, high: Tensor) -> Tensor:
    """Return the mass from the tail in which the interval lies, so that far ones keep their digits."""
    right = low > 0
    left_end, right_end = torch.where(right, -high, low), torch.where(right, -low, high)
    return 0.5 * (torch.erfc(right_end / -math.sqrt(2)) - torch.erfc(left_end / -math.sqrt(2)))


def _beside(flank: Flank, end: Tensor) -> Tensor:
    """Return the mass between the location and ``end``, negative to the left."""
    offset = end - flank.loc
    side = torch.where(offset < 0, -1.0, 1.0)
    return side * 0.5 * (1 - flank.coordinate(side * offset / flank.unit).pow(POWER))


def integrate_boxes(density: BetaGaussian, basis: Rectangles) -> Tensor:
    """Return the mass in each box over the plane, ``[*, J]``; absolute error 1e-12, 1e-8 where alpha is below 1/2."""
    plane = Plane.of(density)
    across, shift, along = (plane.root[..., i, j].unsqueeze(-1) for i, j in ((0, 0), (1, 0), (1, 1)))
    size = torch.where(shift < 0, -shift, shift)
    norm = torch.hypot(size, along)
    slope = along / (size + norm)  # the tangent of half the angle between the strips

    loc = to_double(density.loc)
    ends = [[(t - loc[..., i : i + 1]) / (across, norm)[i] for t in finite_ends(basis, i)] for i in (0, 1)]
    (low1, high1), (low2, high2) = ([end.clamp(-_FARTHEST_SIDE, _FARTHEST_SIDE) for end in pair] for pair in ends)
    # Where the angle is obtuse, the first strip is seen from its other side.
    low1, high1 = torch.where(shift < 0, -high1, low1), torch.where(shift < 0, -low1, high1)
    low, high = torch.stack([low1, low2], -1), torch.stack([high1, high2], -1)
    return integrate_in_parts(partial(_integrate_lines, slope), plane, 352, low, high).to(density.loc.dtype)


def _integrate_lines(slope: Tensor, plane: Plane, low: Tensor, high: Tensor) -> Tensor:
    """Integrate along lines, for a ``slope [*, 1]`` and sides at ``low`` and ``high [*, J, 2]`` from the centre."""
    stretch = (1 + slope.square()).sqrt()
    ratio = stretch / (2 * slope)
    ends = (low[..., 0] - high[..., 1]) * ratio, (high[..., 0] - low[..., 1]) * ratio
    bends = torch.stack([(side[..., 0] - side[..., 1]) * ratio for side in (low, high)], -1)
    slopes = torch.stack([-slope, slope], -1)  # [*, 1, 2]
    cuts = torch.cat(
        [bends, *(_find_crossings(plane.e, side, slopes, stretch.unsqueeze(-1)) for side in (low, high))], -1
    )

    left, right = (plane.first.coordinate(end).unsqueeze(-1) for end in ends)
    cuts = torch.minimum(torch.maximum(plane.first.add_axis().coordinate(cuts), left), right).sort(-1).values
    x, weight = nodes_between(torch.cat([left, cuts, right], -1))

    z, density = plane.first.point(x)
    z = z * plane.first.unit.unsqueeze(-1)  # [*, J, Q]
    tilt = z * slope.unsqueeze(-1)
    sides = [(side * stretch.unsqueeze(-1)).unsqueeze(-1) for side in (low, high)]  # [*, J, 2, 1]
    bottom = torch.maximum(sides[0][..., 0, :] - tilt, sides[0][..., 1, :] + tilt)
    top = torch.minimum(sides[1][..., 0, :] - tilt, sides[1][..., 1, :] + tilt)
    chord = plane.chord(z)
    return (weight * density * mass_between(plane.order, plane.second, bottom / chord, top / chord, INNER)).sum(-1)


def _find_crossings(e: Tensor, side: Tensor, slopes: Tensor, stretch: Tensor) -> Tensor:
    """Return where lines at the distance ``side [*, J, 2]`` cross the edge of the density.

    The result is the first coordinate, ``[*, J, 4]``.
    """
    e = e.unsqueeze(-1)
    room = 2 / torch.where(e > 0, e, 1.0) - side.square()
    meets = (e > 0) & (room > 0)
    half = torch.where(meets, torch.where(meets, room, 1.0).sqrt(), 0.0)
    # A density without edge crosses nothing, but a heavy tail sees a side at all distances.
    half = torch.where(e > 0, half, side.detach().abs())
    middle = torch.where(e > 0, -side * slopes, 0.0)
    return torch.cat([middle - half, middle + half], -1) / stretch
