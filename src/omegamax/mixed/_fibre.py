"""Gaussian integrals along a line: what sparsemax sends to one point."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.mixed._quadrature import legendre

_DROP = 42.0  # the integrand is cut where it has fallen by exp(-42) = 6e-19
_BISECTIONS = 48


def log_line_integral(
    centre: Tensor, variance: Tensor, offset: Tensor, slope: Tensor, order: int, positive: bool = False
) -> Tensor:
    r"""Return the log of the integral of a Gaussian times Gaussian distribution functions, over the line or t > 0.

    .. math:: \log \int \exp\Bigl(-\frac{(t - m)^2}{2v}\Bigr) \prod_j \Phi(c_j + d_j t) \, dt

    The integrand is log-concave. It is cut where it is negligible, and each side of its maximum gets ``order``
    Gauss-Legendre nodes: they lie densest at the maximum and at the two ends, which is where steep factors (of large
    :math:`|d_j|`) bend it. A Gauss-Hermite rule has no nodes there. The nodes are constants to autograd, so that
    derivatives of any order are those of the integrand.

    Args:
        centre, variance: m and v, ``[*]``.
        offset, slope: c and d, ``[*, J]``. A factor that is not there has offset +inf and slope 0.
    """
    with torch.no_grad():
        nodes, log_weights = _nodes(centre, variance, offset, slope, order, positive)
    t = nodes  # [*, Q]
    factors = torch.special.log_ndtr(offset.unsqueeze(-2) + slope.unsqueeze(-2) * t.unsqueeze(-1)).sum(-1)
    quadratic = -0.5 * (t - centre.unsqueeze(-1)).square() / variance.unsqueeze(-1)
    return (log_weights + quadratic + factors).logsumexp(-1)


def _nodes(m: Tensor, v: Tensor, c: Tensor, d: Tensor, order: int, positive: bool) -> tuple[Tensor, Tensor]:
    there = c < math.inf

    def value(t: Tensor) -> Tensor:
        return torch.special.log_ndtr(c + d * t.unsqueeze(-1)).sum(-1) - 0.5 * (t - m).square() / v

    def hazard(t: Tensor) -> Tensor:
        x = c + d * t.unsqueeze(-1)
        h = (-0.5 * x.square() - 0.5 * math.log(2 * math.pi) - torch.special.log_ndtr(x)).exp()
        return d * torch.where(there, torch.where(x < -30, -x, h), 0.0)

    # Factors of positive slope push the maximum to the right of m, at most by their pull at m; nor does any factor
    # push beyond the point at which it is 1.
    pull = hazard(m)
    full = torch.where(d != 0, (10 - c) / torch.where(d != 0, d, 1.0), m.unsqueeze(-1)) - m.unsqueeze(-1)
    full = torch.where(there, full, 0.0)
    right = torch.where(d > 0, full, 0.0).amax(-1).clamp(min=0).minimum(v * pull.clamp(min=0).sum(-1))
    left = torch.where(d < 0, full, 0.0).amin(-1).clamp(max=0).maximum(v * pull.clamp(max=0).sum(-1))
    low, high = m + left, m + right
    if positive:
        low, high = low.clamp(min=0), high.clamp(min=0)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        rising = hazard(middle).sum(-1) > (middle - m) / v
        low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
    mode = 0.5 * (low + high)
    floor = value(mode) - _DROP
    # The integrand is at least as concave as its Gaussian factor, which bounds both distances.
    reach = (2 * _DROP * v).sqrt()
    ends = []
    for sign in (-1, 1):
        near, far = torch.zeros_like(reach), reach
        if positive and sign < 0:
            far = far.minimum(mode)
        for _ in range(_BISECTIONS // 2):
            middle = 0.5 * (near + far)
            above = value(mode + sign * middle) > floor
            near, far = torch.where(above, middle, near), torch.where(above, far, middle)
        ends.append(far)
    x, w = legendre(order, m)
    before, after = ends[0].unsqueeze(-1), ends[1].unsqueeze(-1)
    nodes = torch.cat([mode.unsqueeze(-1) - before * x, mode.unsqueeze(-1) + after * x], -1)
    weights = torch.cat([before * w, after * w], -1)
    return nodes, weights.log()


def log_density_diagonal(loc: Tensor, scale: Tensor, value: Tensor, face: Tensor, order: int) -> Tensor:
    r"""Return log density of a projected Gaussian of independent entries at ``value`` on ``face``, both ``[*, K]``.

    On the face I of k vertices, :math:`x_I = y_I + t` and :math:`x_J \le t` for the others, and
    :math:`|\partial x_I / \partial (y, t)| = k`:

    .. math:: p(y) = k \int \prod_{i \in I} N(y_i + t; \mu_i, \sigma_i^2)
              \prod_{j \notin I} \Phi\Bigl(\frac{t - \mu_j}{\sigma_j}\Bigr) dt
    """
    loc, scale, value, face = torch.broadcast_tensors(loc, scale, value, face)
    precision = torch.where(face, scale.square().reciprocal(), 0.0)
    total = precision.sum(-1)
    gap = torch.where(face, loc - value, 0.0)
    centre = (precision * gap).sum(-1) / total
    # The squares are taken about the centre: nothing cancels where the locations are large.
    rest = torch.where(face, (gap - centre.unsqueeze(-1)) / scale, 0.0).square().sum(-1)
    logs = torch.where(face, scale.log() + 0.5 * math.log(2 * math.pi), 0.0).sum(-1)
    size = face.sum(-1).to(loc.dtype)
    outside = log_line_integral(
        centre,
        total.reciprocal(),
        torch.where(face, math.inf, -loc / scale),
        torch.where(face, 0.0, 1 / scale),
        order,
    )
    return size.log() - logs - 0.5 * rest + outside
