r"""Boxes over the plane: two strips, line by line.

In coordinates in which the density is round, :math:`t = \mu + \sqrt c L z`, a box is where two strips meet. Turned so
that the bisector of the strips is the first axis, each is :math:`a^- \le z_2 - k z_1 \le a^+` with slopes k and -k of
at most 1, however thin the density. Given :math:`z_1` the other coordinate is a beta-Gaussian of the same alpha, in
units of :math:`\sqrt{1 - e z_1^2 / 2}` with ``e = alpha - 1``; the law of :math:`z_1` itself is a beta-Gaussian, of
:math:`e' = e / (1 + e/2)`.

What is left to integrate over :math:`z_1` is smooth but at the corners and where sides cross the edge of the density.
Nodes are placed between those, and move with them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.basis import Rectangles
from omegamax.densities import BetaGaussian
from omegamax.densities._normaliser import log_volume
from omegamax.expectations._rectangles import finite, mass
from omegamax.expectations._windows import Bell, between, excess, wide

# In place of infinite ends, in units of the density: its fourth power is still a number.
_FAR = 1e70
_TINY = 1e-40


def boxes(m: int | None, density: BetaGaussian, basis: Rectangles) -> Tensor:
    """The mass in each box over the plane, ``[*, J]``; absolute error 1e-12. For m see :func:`mass`."""
    e = excess(density)
    root = wide(density.scale_tril)
    log_det = root.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
    level = (log_volume(e, 2) - math.log(2 * math.pi) - log_det) / (1 + e)
    root = root * (e * level / 2).exp().unsqueeze(-1)
    across, shift, along = (root[..., i, j].unsqueeze(-1) for i, j in ((0, 0), (1, 0), (1, 1)))
    size = torch.where(shift < 0, -shift, shift)
    norm = torch.hypot(size, along)
    slope = along / (size + norm)  # the tangent of half the angle between the strips

    loc = wide(density.loc)
    ends = [[(t - loc[..., i : i + 1]) / (across, norm)[i] for t in finite(basis, i)] for i in (0, 1)]
    (low1, high1), (low2, high2) = ([end.clamp(-_FAR, _FAR) for end in pair] for pair in ends)
    # Where the angle is obtuse, the first strip is seen from its other side.
    low1, high1 = torch.where(shift < 0, -high1, low1), torch.where(shift < 0, -low1, high1)
    return _lines(m, e, slope, torch.stack([low1, low2], -1), torch.stack([high1, high2], -1)).to(density.loc.dtype)


def _lines(m: int | None, e: Tensor, slope: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """``slope [*, 1]``; the distances of the sides from the centre, ``low`` and ``high: [*, J, 2]``."""
    stretch = (1 + slope.square()).sqrt()
    ratio = stretch / (2 * slope)
    left, right = (low[..., 0] - high[..., 1]) * ratio, (high[..., 0] - low[..., 1]) * ratio
    bends = torch.stack([(side[..., 0] - side[..., 1]) * ratio for side in (low, high)], -1)
    slopes = torch.stack([-slope, slope], -1)  # [*, 1, 2]
    cuts = torch.cat([bends, *(_crossings(e, side, slopes, stretch.unsqueeze(-1)) for side in (low, high))], -1)

    conditional = Bell.standard(e, low).lifted()
    bell = Bell.standard(e / (1 + e / 2), low)
    bell = bell._replace(unit=(1 + e / 2).rsqrt())
    left, right = bell.place(left).unsqueeze(-1), bell.place(right).unsqueeze(-1)
    cuts = torch.minimum(torch.maximum(bell.lifted().place(cuts), left), right).sort(-1).values
    x, weight = between(torch.cat([left, cuts, right], -1))

    z, density = bell.point(x)
    z = z * bell.unit.unsqueeze(-1)  # [*, J, Q]
    chord = (1 - e.unsqueeze(-1) * z.square() / 2).clamp(min=_TINY).sqrt()
    tilt = z * slope.unsqueeze(-1)
    sides = [(side * stretch.unsqueeze(-1)).unsqueeze(-1) for side in (low, high)]  # [*, J, 2, 1]
    bottom = torch.maximum(sides[0][..., 0, :] - tilt, sides[0][..., 1, :] + tilt)
    top = torch.minimum(sides[1][..., 0, :] - tilt, sides[1][..., 1, :] + tilt)
    return (weight * density * mass(m, conditional, bottom / chord, top / chord)).sum(-1)


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
