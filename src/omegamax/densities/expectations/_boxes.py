r"""Boxes over the plane: two strips, line by line.

In the coordinates of :mod:`._plane` a box is where two strips meet. Turned so that the bisector of the strips is the
first axis, each is :math:`a^- \le z_2 - k z_1 \le a^+` with slopes k and -k of at most 1, however thin the density.

What is left to integrate over :math:`z_1` is smooth but at the corners and where sides cross the edge of the density.
Nodes are placed between those, and move with them.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from omegamax.basis import Rectangles
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities.expectations._plane import INNER, Plane, by_parts
from omegamax.densities.expectations._rectangles import finite, mass
from omegamax.densities.expectations._windows import between, wide

# In place of infinite ends, in units of the density: its fourth power is still a number.
_FAR = 1e70


def boxes(density: BetaGaussian, basis: Rectangles) -> Tensor:
    """The mass in each box over the plane, ``[*, J]``; absolute error 1e-12, 1e-8 where alpha is below 1/2."""
    plane = Plane.of(density)
    across, shift, along = (plane.root[..., i, j].unsqueeze(-1) for i, j in ((0, 0), (1, 0), (1, 1)))
    size = torch.where(shift < 0, -shift, shift)
    norm = torch.hypot(size, along)
    slope = along / (size + norm)  # the tangent of half the angle between the strips

    loc = wide(density.loc)
    ends = [[(t - loc[..., i : i + 1]) / (across, norm)[i] for t in finite(basis, i)] for i in (0, 1)]
    (low1, high1), (low2, high2) = ([end.clamp(-_FAR, _FAR) for end in pair] for pair in ends)
    # Where the angle is obtuse, the first strip is seen from its other side.
    low1, high1 = torch.where(shift < 0, -high1, low1), torch.where(shift < 0, -low1, high1)
    low, high = torch.stack([low1, low2], -1), torch.stack([high1, high2], -1)
    return by_parts(partial(_lines, slope), plane, 352, low, high).to(density.loc.dtype)


def _lines(slope: Tensor, plane: Plane, low: Tensor, high: Tensor) -> Tensor:
    """``slope [*, 1]``; the distances of the sides from the centre, ``low`` and ``high: [*, J, 2]``."""
    stretch = (1 + slope.square()).sqrt()
    ratio = stretch / (2 * slope)
    ends = (low[..., 0] - high[..., 1]) * ratio, (high[..., 0] - low[..., 1]) * ratio
    bends = torch.stack([(side[..., 0] - side[..., 1]) * ratio for side in (low, high)], -1)
    slopes = torch.stack([-slope, slope], -1)  # [*, 1, 2]
    cuts = torch.cat([bends, *(_crossings(plane.e, side, slopes, stretch.unsqueeze(-1)) for side in (low, high))], -1)

    left, right = (plane.first.place(end).unsqueeze(-1) for end in ends)
    cuts = torch.minimum(torch.maximum(plane.first.lifted().place(cuts), left), right).sort(-1).values
    x, weight = between(torch.cat([left, cuts, right], -1))

    z, density = plane.first.point(x)
    z = z * plane.first.unit.unsqueeze(-1)  # [*, J, Q]
    tilt = z * slope.unsqueeze(-1)
    sides = [(side * stretch.unsqueeze(-1)).unsqueeze(-1) for side in (low, high)]  # [*, J, 2, 1]
    bottom = torch.maximum(sides[0][..., 0, :] - tilt, sides[0][..., 1, :] + tilt)
    top = torch.minimum(sides[1][..., 0, :] - tilt, sides[1][..., 1, :] + tilt)
    chord = plane.chord(z)
    return (weight * density * mass(plane.order, plane.second, bottom / chord, top / chord, INNER)).sum(-1)


def _crossings(e: Tensor, side: Tensor, slopes: Tensor, stretch: Tensor) -> Tensor:
    """Where lines at the distance ``side [*, J, 2]`` cross the edge of the density: first coordinate, ``[*, J, 4]``."""
    e = e.unsqueeze(-1)
    room = 2 / torch.where(e > 0, e, 1.0) - side.square()
    meets = (e > 0) & (room > 0)
    half = torch.where(meets, torch.where(meets, room, 1.0).sqrt(), 0.0)
    # A density without edge crosses nothing, but a heavy tail sees a side at all distances.
    half = torch.where(e > 0, half, side.detach().abs())
    middle = torch.where(e > 0, -side * slopes, 0.0)
    return torch.cat([middle - half, middle + half], -1) / stretch
