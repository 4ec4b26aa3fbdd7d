r"""Integrate along the path of steepest descent: the contour integral behind every compact beta-Gaussian.

With ``a_i`` and ``b_i`` the variances and squared means of independent Gaussians ``U_i``, and ``M = 1/(alpha-1) + 1``,

.. math:: E\bigl[(1 - |U|^2)_+^{M-1}\bigr] = \frac{\Gamma(M)}{2 \pi i} \int
          \exp\Bigl(s - M \log s - \sum_i \tfrac12 \log(1 + 2 a_i s) + \frac{b_i s}{1 + 2 a_i s}\Bigr) ds

over any path that goes round the negative axis. On the positive axis the exponent is convex, with its minimum at
``s0``. Written as a function of ``zeta = s / s0 - 1`` and measured from there, it is

.. math:: K(\zeta) = M \ell(\zeta) + \sum_i \tfrac12 \ell(g_i \zeta) + \frac{\gamma_i \zeta^2}{1 + g_i \zeta},
          \qquad \ell(y) = y - \log(1 + y), \quad 0 < g_i < 1, \quad \gamma_i \ge 0.

The path on which ``K = -x^2 / 2`` turns the integrand into a bell in x, whatever the parameters: no narrow basis
function, no far one and no thin ellipsoid is a special case, and the trapezoidal rule needs the same few nodes for all.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from omegamax.kernels.contour.plane import integrate_in_plane

# Count and spacing of the nodes in x. Fine: 5e-13 of the value; coarse, for results in single precision: 3e-8.
NODES = {True: (32, 0.25), False: (14, 0.5)}
_SADDLE_STEPS = 30  # Newton steps to s0; five are enough for nearly all, and a test for each row would cost more
_FIRST_STEPS = 3  # Halley steps to each of the two nodes that have no predecessors; the others need one


def find_saddle(M: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Find ``s0``, where the exponent is least on the positive axis; ``M: [*]``, ``a, b: [*, n]``."""
    # The derivative is increasing and concave: Newton's method from the left stays on the left. Bounds from the left,
    # of which the largest is close: each term alone, and the roots of the parabolas that 1/(1 + x) >= 1 - x and
    # 1/(1 + x)^2 >= 1 - 2x make of one or of all terms.
    far = ((b.sqrt() - 1) / (2 * a)).amax(-1)
    linear, square = a + b, (2 * a + 4 * b) * a
    linear = torch.cat([linear, linear.sum(-1, keepdim=True)], -1) - 1
    square = torch.cat([square, square.sum(-1, keepdim=True)], -1) * (4 * M.unsqueeze(-1))
    root = torch.hypot(linear, square.sqrt())
    # 2 M / (root - linear), without its cancellation where linear > 0.
    near = torch.where(linear > 0, 2 * (root + linear) / square, 2 / (root - linear)).amax(-1) * M
    s = torch.maximum(torch.maximum(M, far), near)
    for _ in range(_SADDLE_STEPS):
        w = 1 + 2 * a * s.unsqueeze(-1)
        slope = 1 - M / s - ((a + b / w) / w).sum(-1)
        s = s - slope / (M / s.square() + ((2 * a + 4 * b / w) * (a / w.square())).sum(-1))
    return s


def saddle_lead(M: Tensor, a: Tensor, b: Tensor, s0: Tensor) -> Tensor:
    """Compute ``s0 / M - 1`` from what the saddle point says of it: accurate also where it is next to nothing."""
    w0 = 1 + 2 * a * s0.unsqueeze(-1)
    return ((a + b / w0) / w0).sum(-1) * s0 / M


def place_nodes(M: Tensor, a: Tensor, b: Tensor, fine: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``s0 [*]``, then the nodes ``zeta`` on the path of steepest descent and their weights ``[*, K]``, complex.

    The sum over the nodes of ``(f(s) * weight).real`` is the integral of ``f(s) ds / (2 pi i)`` with
    ``s = s0 (1 + zeta)``; the other half of the path is the mirror image.
    """
    count, step = NODES[fine]
    s0 = find_saddle(M, a, b)
    w0 = 1 + 2 * a * s0.unsqueeze(-1)
    g = 1 - 1 / w0
    gamma = b * s0.unsqueeze(-1) / w0.square() * g
    # The first derivatives of K at 0, and the beginning of zeta as a power series in x.
    curvature = M + (g.square() / 2 + 2 * gamma).sum(-1)
    third = -(2 * M + (g.square() + 6 * gamma).mul(g).sum(-1))
    fourth = 6 * M + (3 * g.square() + 24 * gamma).mul(g.square()).sum(-1)
    bend = third / (6 * curvature)
    twist = fourth / (24 * curvature) - 2.5 * bend.square()

    def exponent(zeta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``K`` and its first two derivatives."""
        z, r = zeta.unsqueeze(-1), 1 / (1 + zeta)
        gz = g * z
        q = 1 / (1 + gz)
        k = M * _ell(zeta) + (_ell(gz) / 2 + gamma * z.square() * q).sum(-1)
        slope = M * r + (g.square() / 2 * q + gamma * (q + q.square())).sum(-1)
        return k, slope * zeta, M * r.square() + ((g.square() / 2 + 2 * gamma * q) * q.square()).sum(-1)

    nodes: list[Tensor] = []
    rates: list[Tensor] = []
    for i in range(count):
        x = (i + 0.5) * step
        if i < 2:
            y = x * curvature.rsqrt()
            zeta = torch.complex(bend * y.square(), y + twist * y.pow(3))
        else:  # the cubic through the last two nodes with their slopes, carried on
            zeta = 5 * nodes[-2] - 4 * nodes[-1] + step * (4 * rates[-1] + 2 * rates[-2])
        for _ in range(_FIRST_STEPS if i < 2 else 1):
            k, slope, curve = exponent(zeta)
            k = k + x * x / 2
            zeta = zeta - 2 * k * slope / (2 * slope.square() - k * curve)
        nodes.append(zeta)
        rates.append(-x / exponent(zeta)[1])
    weight = torch.stack(rates, -1) * (s0 * (step / torch.pi)).unsqueeze(-1) / 1j
    return s0, torch.stack(nodes, -1), weight


def count_results(n: int) -> int:
    """Count the scalars that :func:`contour` gives for a pair of a density and a basis function."""
    return 3 + n * (n + 1) // 2 + 2 * n


def contour(M: Tensor, h: Tensor, B: Tensor, diagonal: Tensor, delta: Tensor, spread: Tensor, fine: bool) -> Tensor:
    r"""Integrate Gaussians under compact densities, with their derivatives: ``[*, J, count_results(n)]``.

    .. math:: e^B \, \frac{\Gamma(M)}{2 \pi i} \int e^s s^{-M} \prod_i w_i^{-1/2} e^{-b_i s / w_i} ds, \\
              w_i = 1 + 2 a_i s, \quad
              a_i = \frac{\text{spread}_i}{2 h \Sigma_{ii}}, \quad b_i = \frac{\delta_i^2}{2 h \Sigma_{ii}}

    Args:
        M, h, B: ``[*, 1]``; the exponent, the height of the score at its peak, the logarithm of a common factor.
        diagonal: of a diagonal Sigma, ``[*, J or 1, n]``.
        delta: ``[*, J, n]``.
        spread: ``[J, n]`` or ``[*, J, n]``.

    Returns:
        The value, then its derivatives in Sigma (lower triangle by rows, half of what an entry off the diagonal moves
        with its mirror image), delta, spread, M and h. That in B is the value.
    """
    n = delta.shape[-1]
    width = 2 * h.unsqueeze(-1) * diagonal
    a, b = (spread / width).expand_as(delta), delta.square() / width
    s0, zeta, weight = place_nodes(M.expand(delta.shape[:-1]), a, b, fine)
    count, step = NODES[fine]
    x = (torch.arange(count).to(M) + 0.5) * step
    # On the path the integrand is a bell in x: nothing to evaluate.
    weight = weight * (-x.square() / 2).exp()
    w0 = 1 + 2 * a * s0.unsqueeze(-1)
    lead = saddle_lead(M, a, b, s0)
    log_start = B + log_gamma_scale(M) + M * _ell(lead)
    weight = weight * (log_start - (w0.log() / 2 + b * s0.unsqueeze(-1) / w0).sum(-1)).exp().unsqueeze(-1)

    def total(factor: Tensor) -> Tensor:
        return (weight * factor).real.sum(-1)

    s = s0.unsqueeze(-1) * (1 + zeta)
    rates = [1 / (1 + 2 * a_i.unsqueeze(-1) * s) for a_i in a.unbind(-1)]
    value = weight.real.sum(-1)
    in_b = -torch.stack([total(s * r) for r in rates], -1)
    in_a = in_b + 2 * b * torch.stack([total((s * r).square()) for r in rates], -1)
    slant = delta / (h.unsqueeze(-1) * diagonal)
    turn = a * in_a + b * in_b
    in_sigma = []
    for i in range(n):
        in_sigma += [slant[..., i] * slant[..., j] * h * total(s * rates[i] * rates[j]) / 2 for j in range(i)]
        in_sigma.append((-turn / diagonal)[..., i])
    # digamma(M) - log s: nearly nothing where M is large, and so measured from log M.
    in_M = (digamma_gap(M) - lead.log1p()) * value - total(log_one_plus(zeta))
    single = [value, *in_sigma, *(in_b * slant).unbind(-1), *(in_a / width).unbind(-1)]
    return torch.stack([*single, in_M, -turn.sum(-1) / h], -1)


contour_in_plane = partial(integrate_in_plane, contour)


def log_gamma_scale(M: Tensor) -> Tensor:
    """Compute ``log(Gamma(M) exp(M) M^-M)``."""
    return stirling(M) + 0.5 * (2 * torch.pi / M).log()


def digamma_gap(x: Tensor) -> Tensor:
    """Compute ``digamma(x) - log(x)`` for x > 0, without cancellation."""
    large = x > 12
    safe, r = torch.where(large, 1.0, x), 1 / torch.where(large, x, 12.0)
    series = torch.full_like(r, -1 / 12)
    for coefficient in (691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12):
        series = series * r.square() + coefficient
    return torch.where(large, (series * r - 0.5) * r, torch.digamma(safe) - safe.log())


def stirling(x: Tensor) -> Tensor:
    r"""Compute what Stirling's formula leaves: ``lgamma(x) - (x - 1/2) log x + x - log(2 pi) / 2``, for x > 0."""
    large = x > 12
    safe = torch.where(large, 1.0, x)
    direct = torch.lgamma(safe) - (safe - 0.5) * safe.log() + safe - 0.5 * math.log(2 * math.pi)
    r = 1 / torch.where(large, x, 12.0)
    series = torch.full_like(r, -3617 / 122400)
    for coefficient in (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        series = series * r.square() + coefficient
    return torch.where(large, series * r, direct)


def _ell(y: Tensor) -> Tensor:
    return y - (log_one_plus(y) if y.is_complex() else y.log1p())


def log_one_plus(z: Tensor) -> Tensor:
    """Compute ``log(1 + z)``, complex; torch's own loses the digits of a small z."""
    x, y = z.real, z.imag
    return torch.complex((x * (2 + x) + y.square()).log1p() / 2, torch.atan2(y, 1 + x))
