"""Gaussian basis functions under any compact beta-Gaussian, in any dimension, by one contour integral."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.expectations._frame import Frame, log_kernel
from omegamax.expectations._steepest import steepest


def contour(pair: Frame, e: Tensor, dilation: Tensor, log_peak: Tensor) -> Tensor:
    r"""``E_p[psi_j]`` for ``alpha > 1``, ``[*, J]``; ``e = alpha - 1``, ``dilation`` and ``log_peak`` are ``[*]``.

    .. math:: E = e^B \, \frac{\Gamma(M)}{2 \pi i} \int e^s s^{-M} k(s / h) \, ds, \qquad
              M = \tfrac{1}{\alpha - 1} + 1, \quad h = \tfrac{c}{\alpha - 1}

    from :math:`y_+^{M-1} = \frac{\Gamma(M)}{2 \pi i} \int e^{sy} s^{-M} ds`, with k of :mod:`._frame`. The nodes are
    constants for differentiation: the integral is the same over every path, so its derivatives are those of the
    integrand.
    """
    size = (1 + 1 / e).unsqueeze(-1)  # M, [*, 1]
    height = (dilation / e).unsqueeze(-1)  # h
    with torch.no_grad():
        width = 2 * height.unsqueeze(-1) * pair.diagonal
        a = (pair.spread / width).expand_as(pair.delta)
        s0, zeta, weight = steepest(size.expand(pair.delta.shape[:-1]), a, pair.delta.square() / width)
        s = s0.unsqueeze(-1) * (1 + zeta)
    # exp(s - M log s) Gamma(M) is a product of huge and tiny numbers: measured from s0, and s0 from M.
    path = s0.unsqueeze(-1) * zeta - size.unsqueeze(-1) * torch.log1p(zeta)
    start = log_peak.unsqueeze(-1) + stirling(size) + 0.5 * (2 * math.pi / size).log() + size * _excess(s0 / size)
    log_f = start.unsqueeze(-1) + path + log_kernel(pair, s / height.unsqueeze(-1))
    return (log_f.exp() * weight).real.sum(-1)


def stirling(x: Tensor) -> Tensor:
    r"""What Stirling's formula leaves: ``lgamma(x) - (x - 1/2) log x + x - log(2 pi) / 2``, for x > 0."""
    large = x > 12
    safe = torch.where(large, 1.0, x)
    direct = torch.lgamma(safe) - (safe - 0.5) * safe.log() + safe - 0.5 * math.log(2 * math.pi)
    r = 1 / torch.where(large, x, 12.0)
    series = torch.full_like(r, -3617 / 122400)
    for coefficient in (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        series = series * r.square() + coefficient
    return torch.where(large, series * r, direct)


def _excess(ratio: Tensor) -> Tensor:
    """``ratio - 1 - log(ratio)``"""
    return ratio - 1 - (ratio - 1).log1p()
