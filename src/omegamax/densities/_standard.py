"""The beta-Gaussian in its own units: how its distance from the centre is drawn and, on a line, accumulated."""

from __future__ import annotations

import math
from typing import Any

import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor

from omegamax._numerics import log_ratio, phi

# Gauss-Legendre on [0, 1], and the double exponential rule v = exp(s - exp(-s)) for the weight exp(-v) on [0, inf).
_CENTRE = [(float(t + 1) / 2, float(w) / 2) for t, w in zip(*leggauss(20), strict=True)]
_STEP = 0.1
_LEVELS = [_STEP * k for k in range(-36, 39)]
_TAIL = [(v := math.exp(s - math.exp(-s)), _STEP * (1 + math.exp(-s)) * v * math.exp(-v)) for s in _LEVELS]
# The share of the support, or of the unit of r, in which the centre's rule is used.
_REACH = 0.6


def draw(shape: torch.Size, n: int, e: Any, like: Tensor) -> Tensor:
    r"""Return points ``[*, n]`` of the density proportional to ``(1 - e |x|^2 / 2)^(1/e)``.

    e is a float or a tensor ``[*]``.

    A normal vector ``z`` is pulled in (e > 0) or pushed out (e < 0) by a factor that is smooth in ``e`` and 1 at e = 0:
    no rejection, no gamma variates, and gradients in ``e`` of bounded variance. In an even dimension
    ``1 - e |x|^2 / 2`` has the distribution of a product of powers ``U_j^(e / (1 + je))`` of uniform variables, j = 1
    ... n/2; an odd dimension is a margin of the next, with j = 1/2 ... n/2.
    """
    pairs = (n + 1) // 2
    if not isinstance(e, Tensor) and e == 0:
        return torch.randn((*shape, n), dtype=like.dtype, device=like.device)
    z = torch.randn((*shape, 2 * pairs), dtype=like.dtype, device=like.device)
    energy = 0.5 * z.square().sum(-1)
    if pairs == 1:
        pace = 1 / (1 + e * (n / 2))
    else:  # -log U_j add up to the energy, which is independent of the direction of z and of how they share it
        shares = torch.empty((*shape, pairs), dtype=like.dtype, device=like.device).exponential_()
        steps = n / 2 - torch.arange(pairs, dtype=like.dtype, device=like.device)
        paces = 1 / (1 + (e.unsqueeze(-1) if isinstance(e, Tensor) else e) * steps)
        pace = (shares * paces).sum(-1) / shares.sum(-1)
    pull = (pace * phi(-e * pace * energy)).sqrt()
    return z[..., :n] * pull.unsqueeze(-1)


def cumulative(s: Tensor, e: Any, delta: Any) -> Tensor:
    r"""Return the distribution function at ``s`` of the density over the line proportional to ``(1 - e s^2)^(1/e)``.

    ``delta`` is ``log_volume(e, 1)``, so that ``exp(delta) / sqrt(pi)`` normalises. Around the centre a Gauss rule;
    beyond it, where ``T = 1 - e s^2``, the tail in a form without difference or singularity, for every sign of e,

    .. math:: Q = \frac{e^\delta}{2 \sqrt\pi} \, \frac{T^{1/e + 1}}{1 + e/2} \int_0^\infty
              \frac{e^{-v} \, dv}{\sqrt{s^2 + (e^{ey} - 1) / e}}, \qquad y = \frac{v}{1 + e/2}

    which at e = 0 is the complementary error function. The relative error of either is about 1e-14.
    """
    r = s.square()
    peak = (delta.exp() if isinstance(delta, Tensor) else math.exp(delta)) / math.sqrt(math.pi)
    reach = _REACH / (e.clamp(min=1.0) if isinstance(e, Tensor) else max(e, 1.0))
    near, outside = r <= reach, e * r >= 1

    nodes, weights = _rule(_CENTRE, s)
    inner = torch.where(near, s, 0.0)
    heights = _bend(inner.square().unsqueeze(-1) * nodes.square(), _last(e)).exp()
    centre = 0.5 + peak * inner * (heights * weights).sum(-1)

    nodes, weights = _rule(_TAIL, s)
    r = torch.where(near | outside, reach, r)
    y = nodes / _last(1 + e / 2)
    integral = (weights / (r.unsqueeze(-1) + y * phi(_last(e) * y)).sqrt()).sum(-1)
    tail = 0.5 * peak * _bend(r, e).exp() * (1 - e * r) / (1 + e / 2) * integral
    tail = torch.where(outside, 0.0, tail)
    return torch.where(near, centre, torch.where(s > 0, 1 - tail, tail))


def _bend(r: Tensor, e: Any) -> Tensor:
    """Return ``log1p(-e r) / e``; ``-r`` at e = 0."""
    if isinstance(e, Tensor):
        return -r * log_ratio(-e * r)
    return (-e * r).log1p() / e if e else -r


def _last(e: Any) -> Any:
    return e.unsqueeze(-1) if isinstance(e, Tensor) else e


def _rule(pairs: list[tuple[float, float]], like: Tensor) -> tuple[Tensor, Tensor]:
    nodes, weights = zip(*pairs, strict=True)
    return like.new_tensor(nodes), like.new_tensor(weights)
