r"""Truncated paraboloids over the plane: two ellipses, line by line.

In the coordinates of :mod:`._plane`, turned so that the basis function's longer axis is the first, it is a parabola on
every line :math:`z_1 = \text{const}`.

What is left to integrate over :math:`z_1` is smooth but where the ellipses cross: four points at most, the roots of a
quartic, between which the nodes are placed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.basis import TruncatedParaboloidRBF
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities.expectations._paraboloid import parabola
from omegamax.densities.expectations._plane import INNER, Plane, by_parts
from omegamax.densities.expectations._windows import between, wide


def ellipses(density: BetaGaussian, basis: TruncatedParaboloidRBF) -> Tensor:
    """``E_p[psi_j]`` in two dimensions, ``[*, J]``; absolute error 1e-12, 1e-8 where alpha is below 1/2, for peak 1."""
    plane = Plane.of(density)
    root = plane.root.unsqueeze(-3)
    height = wide(basis.height)
    shape = torch.linalg.cholesky_ex(wide(basis.covariance))[0] * (2 * height).sqrt()[:, None, None]
    apart = (wide(basis.centers) - wide(density.loc).unsqueeze(-2)).unsqueeze(-1)
    # The basis function's ellipse is center + axes y over |y| <= 1.
    axes = torch.linalg.solve_triangular(root, shape.expand(*apart.shape[:-2], 2, 2), upper=False)
    center = torch.linalg.solve_triangular(root, apart, upper=False).squeeze(-1)
    value = by_parts(_lines, plane, 160, center, axes[..., 0], axes[..., 1])
    return (value * (height if basis.normalised else 1.0)).to(density.loc.dtype)


def _lines(plane: Plane, center: Tensor, column: Tensor, other: Tensor) -> Tensor:
    """Centres and the columns of the axes, ``[*, J, 2]``; the axes are lower triangular."""
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
    low, high = bell.place(x0 - reach), bell.place(x0 + reach)
    narrow = bell.smooth_over(x0 / bell.unit, reach / bell.unit)
    low, high = torch.where(narrow, -1.0, low), torch.where(narrow, 1.0, high)
    with torch.no_grad():
        cuts = _crossings(plane.e, x0, y0, reach, girth)  # [*, J, 4]
        cuts = torch.where(narrow.unsqueeze(-1), -1.0, bell.lifted().place(cuts))
        cuts = torch.minimum(torch.maximum(cuts, low.unsqueeze(-1)), high.unsqueeze(-1)).sort(-1).values
    x, weight = between(torch.cat([low.unsqueeze(-1), cuts, high.unsqueeze(-1)], -1))

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
    return (weight * mass * rest * parabola(plane.order, plane.second, center, radius, INNER)).sum(-1)


def _crossings(e: Tensor, x0: Tensor, y0: Tensor, reach: Tensor, girth: Tensor) -> Tensor:
    """Where an ellipse with these half-axes crosses the edge of the density: first coordinates, ``[*, J, 4]``.

    On the smaller of both, at ``center + size (cos, sin)``, the other's equation is a trigonometric polynomial of
    degree 2 in the angle. Complex pairs give the place where the curves are nearest.
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
