"""Two vertices: a Gaussian on the line, cut off at 0 and at 1. Everything in closed form."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def log_density(centre: Tensor, scale: Tensor, value: Tensor) -> Tensor:
    """Return the log-density of ``clip(N(centre, scale^2), 0, 1)`` at the first entry of ``value [*, 2]``."""
    first, second = value[..., 0], value[..., 1]
    # The nearer end is the reference: the smaller entry is the one without a rounding error.
    x = torch.where(first <= second, (first - centre) / scale, ((1 - centre) - second) / scale)
    inner = -0.5 * x.square() - scale.log() - _LOG_SQRT_2PI
    ends = torch.where(first > 0, torch.special.log_ndtr((centre - 1) / scale), torch.special.log_ndtr(-centre / scale))
    return torch.where((first > 0) & (second > 0), inner, ends)


def log_ends(centre: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log-probabilities of the first vertex (1, 0), of the second, and of the edge between them."""
    low, high = -centre / scale, (1 - centre) / scale
    return torch.special.log_ndtr(-high), torch.special.log_ndtr(low), _log_between(low, high)


def _log_between(low: Tensor, high: Tensor) -> Tensor:
    """Return ``log(Phi(high) - Phi(low))``, from the tail in which both lie."""
    flip = low + high > 0
    low, high = torch.where(flip, -high, low), torch.where(flip, -low, high)
    large, small = torch.special.log_ndtr(high), torch.special.log_ndtr(low)
    return large + (-(small - large).exp()).log1p()


def _moments(centre: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Integrate 1, x and x^2 under the standard normal density over the edge, x the standardised coordinate."""
    low, high = -centre / scale, (1 - centre) / scale
    at_low = (-0.5 * low.square() - _LOG_SQRT_2PI).exp()
    at_high = (-0.5 * high.square() - _LOG_SQRT_2PI).exp()
    mass = _log_between(low, high).exp()
    return mass, at_low - at_high, mass + low * at_low - high * at_high


def entropy(centre: Tensor, scale: Tensor) -> Tensor:
    """Return the entropy of the direct sum: two masses and a density."""
    one, zero, _ = log_ends(centre, scale)
    mass, _, second = _moments(centre, scale)
    ends = -_times(one.exp(), one) - _times(zero.exp(), zero)
    return ends + mass * (scale.log() + _LOG_SQRT_2PI) + 0.5 * second


def divergence(p: tuple[Tensor, Tensor], q: tuple[Tensor, Tensor]) -> Tensor:
    """Return the divergence of one rectified Gaussian from another, each given by its centre and scale."""
    one, zero, _ = log_ends(*p)
    other_one, other_zero, _ = log_ends(*q)
    ends = _times(one.exp(), one - other_one) + _times(zero.exp(), zero - other_zero)
    mass, first, second = _moments(*p)
    ratio, shift = p[1] / q[1], (p[0] - q[0]) / q[1]
    inner = -mass * ratio.log() + 0.5 * ((ratio.square() - 1) * second + 2 * ratio * shift * first + shift**2 * mass)
    return ends + inner


def mean(centre: Tensor, scale: Tensor) -> Tensor:
    """Return the mean of both entries, ``[*, 2]``."""
    one, zero, _ = log_ends(centre, scale)
    mass, first, _ = _moments(centre, scale)
    inside = scale * first
    return torch.stack([one.exp() + centre * mass + inside, zero.exp() + (1 - centre) * mass - inside], -1)


def _times(p: Tensor, log_ratio: Tensor) -> Tensor:
    """Return ``p * log_ratio``, 0 where p is 0 whatever the ratio."""
    kept = p > 0
    return p * torch.where(kept, log_ratio, 0.0)
