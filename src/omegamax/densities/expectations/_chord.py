r"""Gaussian basis functions under compact beta-Gaussians in the plane, by chords of the support: large tensors only.

The map :math:`t = \mu + \sqrt{2h} L R v` makes the support the unit disk and, with the right rotation R, a basis
function one with axes along v. Where ``m = 1 / (alpha - 1)`` is an integer,

.. math:: E_p[N(t; c_j, S_j)] = p(\mu) \int N(v_1; a_1, s_1^2) \int_{-c}^{c} (c^2 - v_2^2)^m \,
          N(v_2; a_2 + k (v_1 - a_1), s_2^2) \, dv_2 \, dv_1, \qquad c^2 = 1 - v_1^2.

The integral over the chord is closed. The other is a Gauss-Legendre rule in :math:`\arcsin v_1`, in which the ends of
the disk are smooth, over that part of the disk which the basis function reaches.

R and the nodes are constants for differentiation. Eigenvectors have no derivative where eigenvalues meet; but with the
slope k, which is zero up to rounding and yet has derivatives, the formula holds for every rotation.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax._checks import is_plain
from omegamax.basis import GaussianRBF
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities.expectations._windows import find_order

# Beyond so many standard deviations a Gaussian counts as nothing: 6e-14 of it are there.
REACH = 7.5

# With 48 nodes the largest error, over functions of all shapes and positions, is 3e-11 of the peak; with 56, 2e-13.
NODES = 56


def _gegenbauer(count: int, m: int) -> tuple[Tensor, Tensor]:
    """Return nodes and weights on [-1, 1] for ``(1 - y^2)^m / sqrt(2 pi)``.

    Reference: Golub and Welsch (Math. Comp. 1969).
    """
    k = np.arange(1, count)
    side = np.sqrt(k * (k + 2 * m) / (4.0 * (k + m) ** 2 - 1))
    y, vectors = np.linalg.eigh(np.diag(side, 1) + np.diag(side, -1))
    return torch.from_numpy(y), torch.from_numpy(vectors[0] ** 2) * (math.gamma(m + 1) / math.gamma(m + 1.5) / 2**0.5)


_OUTER = tuple(torch.from_numpy(t) / 2 for t in np.polynomial.legendre.leggauss(NODES))

# The closed form over a chord loses digits where the chord is short in standard deviations, the more the larger m.
# For each m: the half-chord up to which a few nodes do better, and these. Both err by at most 2e-13 there.
_SHORT = {
    m: (1 / deviation, _gegenbauer(count, m))
    for m, deviation, count in [(1, 5.0, 5), (2, 1.5, 7), (3, 0.9, 9), (4, 0.6, 11)]
}


def _nodes_at(m: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nodes and weights over a chord for ``m``, those across the chords for 0, where ``like`` is.

    Copied to a device once: each copy would wait for a GPU, and no CUDA graph can hold it.
    """
    return _copy_nodes(m, like.dtype, like.device) if is_plain(like) else _move_nodes(m, like.dtype, like.device)


def _move_nodes(m: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    x, w = _SHORT[m][1] if m else _OUTER
    return x.to(device, dtype), w.to(device, dtype)


@lru_cache(maxsize=64)
def _copy_nodes(m: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    # A cache that is filled in inference mode must be of use when it is off.
    with torch.inference_mode(False), torch.no_grad():
        return _move_nodes(m, dtype, device)


def integrate_chords(density: BetaGaussian, basis: GaussianRBF) -> Tensor:
    """Return ``E_p[N(t; c_j, S_j)]``, ``[*, J]``, over the plane, for a float alpha that has an :func:`find_order`.

    All is computed in float64.

    Differentiable any number of times in the location and the scale. Exactly 0 where the function does not reach the
    support.

    >>> p = BetaGaussian(torch.zeros(2, dtype=torch.float64), 1.0, alpha=2.0)
    >>> integrate_chords(p, GaussianRBF(torch.tensor([[0.0, 0.0], [9.0, 0.0]]), 0.01))
    tensor([0.5542, 0.0000], dtype=torch.float64)
    """
    m = find_order(density.alpha)
    if m is None or density.dimension != 2:
        raise ValueError(
            f"integrate_chords: needs 2 dimensions and a float alpha of 1 + 1/m, m = 1 ... {max(_SHORT)}, "
            f"got {density.dimension} and {density.alpha}"
        )
    bump = _align(density, basis)
    # Detached, rather than under no_grad: that would not stop forward-mode differentiation.
    a1, a2, s1, s2, _ = (t.detach() for t in bump)
    # Nor is a chord reached that ends before the function begins: c < |a2| - REACH s2.
    edge = (1 - (a2.abs() - REACH * s2).clamp(min=0).square()).clamp(min=0).sqrt()
    start, end = torch.maximum(-REACH * s1, -edge - a1), torch.minimum(REACH * s1, edge - a1)
    missed = end <= start
    # Whatever is missed gets harmless values, and no weight: neither it nor its gradient can be NaN.
    bump = Bump(*(torch.where(missed, safe, t).unsqueeze(-1) for t, safe in zip(bump, (0, 0, 1, 1, 0), strict=True)))
    a1, start, end = (torch.where(missed, 0.0, t).unsqueeze(-1) for t in (a1, start, end))
    low, high = ((a1 + t).clamp(-1, 1).asin() for t in (start, end))
    x, w = _nodes_at(0, low)
    half = (high - low) * (x + 0.5) / 2
    c = (low + 2 * half).cos()
    weight = (high - low) * w * c ** (2 * m + 1) / math.sqrt(2 * math.pi)
    # v1 - a1, with the difference of two sines as a product: of v1 itself, rounding hides the narrowest functions.
    offset = start + 2 * (low + half).cos() * half.sin()
    z = (offset + (a1 - bump.a1)) / bump.s1
    inner = _over_chord(c / bump.s2, bump.a2 / bump.s2 + bump.turn * z, m)
    value = ((-0.5 * z.square()).exp() * inner * weight).sum(-1, keepdim=True) / bump.s1
    return density.log_peak.exp().unsqueeze(-1) * value.squeeze(-1)


class Bump(NamedTuple):
    """Basis functions on the unit disk, in coordinates along their axes; each ``[*, J]``."""

    a1: Tensor
    a2: Tensor
    s1: Tensor
    s2: Tensor
    turn: Tensor  # k s1 / s2


def _align(density: BetaGaussian, basis: GaussianRBF) -> Bump:
    root = density.support_tril.unsqueeze(-3)
    t11, t21, t22 = root[..., 0, 0], root[..., 1, 0], root[..., 1, 1]
    d1, d2 = (basis.centers.to(root) - density.loc.unsqueeze(-2)).unbind(-1)
    x1 = d1 / t11
    x2 = (d2 - t21 * x1) / t22
    # Factors of the covariances rather than these: squared, the short axis of a long function would be rounding.
    covariance = basis.covariance.to(root)
    g11 = covariance[:, 0, 0].sqrt()
    g21 = covariance[:, 1, 0] / g11
    g22 = (covariance[:, 1, 1] - g21.square()).sqrt()
    f11, f22 = g11 / t11, g22 / t22
    f21 = (g21 - t21 * f11) / t22
    cos, sin = _rotation(*(t.detach() for t in (x1, x2, f11, f21, f22)))
    b11, b12 = cos * f11 + sin * f21, sin * f22
    b21, b22 = cos * f21 - sin * f11, cos * f22
    s1 = torch.hypot(b11, b12)
    s2 = f11 * f22 / s1
    return Bump(cos * x1 + sin * x2, cos * x2 - sin * x1, s1, s2, (b11 * b21 + b12 * b22) / (s1 * s2))


def _rotation(x1: Tensor, x2: Tensor, f11: Tensor, f21: Tensor, f22: Tensor) -> tuple[Tensor, Tensor]:
    """Return the direction of v1: along one of the axes of the function with centre x and covariance F F'."""
    angle = 0.5 * torch.atan2(2 * f11 * f21, f11.square() - f21.square() - f22.square())
    cos, sin = angle.cos(), angle.sin()
    long = torch.hypot(cos * f11 + sin * f21, sin * f22)
    short = f11 * f22 / long
    # Along which one? Chords end at the edge of the disk: along v1 the integral over them changes within s2 |v2 / v1|
    # there, which should be no less than s1. Hence the axis with the smaller s |v|.
    far_long = ((cos * x1 + sin * x2).abs() + 3 * long).clamp(max=1)
    far_short = ((cos * x2 - sin * x1).abs() + 3 * short).clamp(max=1)
    across = short * far_short < long * far_long
    return torch.where(across, -sin, cos), torch.where(across, cos, sin)


def _over_chord(r: Tensor, q: Tensor, m: int) -> Tensor:
    r"""Return :math:`r^{-2m} \int_{-r}^{r} (r^2 - y^2)^m \phi(y - q) \, dy`, elementwise."""
    least, (y, w) = _SHORT[m][0], _nodes_at(m, r)
    smooth = r * ((-0.5 * (r.unsqueeze(-1) * y - q.unsqueeze(-1)).square()).exp() @ w)
    closed = r > least
    r, q = torch.where(closed, r, 1.0), torch.where(q < 0, -q, q)
    left, right = r + q, r - q
    phi_left, phi_right = ((-0.5 * t.square()).exp() / math.sqrt(2 * math.pi) for t in (left, right))
    product = left * right
    # The integrals of (r^2 - y^2)^k phi, and of (y - q) times that, for k = 0 and 1; then by parts from k to k + 1.
    f0 = (torch.erfc(right / -math.sqrt(2)) - torch.erfc(left / math.sqrt(2))) / 2
    g0 = phi_left - phi_right
    f1, g1 = (product - 1) * f0 + left * phi_right + right * phi_left, -2 * (q * f0 + g0)
    for k in range(1, m):
        f2 = (product - 1 - 2 * k) * f1 + 2 * k * product * f0 - 2 * q * (g1 + k * g0)
        f0, g0, f1, g1 = f1, g1, f2, -2 * (k + 1) * (q * f1 + g1)
    return torch.where(closed, f1 / r ** (2 * m), smooth)
