r"""Gaussian basis functions under the truncated parabola and its powers over the line: alpha = 2, 3/2, 4/3, 5/4."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax.basis import GaussianRBF
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities.expectations._windows import Bell, gauss_legendre, wide

# The closed form is a sum of moments that cancel the more, the wider the basis function and the higher the power: at
# this width (in half-widths of the support) it has lost 1e-14 for m = 4, 2e-12 for m = 6, 4e-6 for m = 12.
_NARROW = 0.3
# From there on, that many nodes leave 1e-15.
_NODES, _WEIGHTS = gauss_legendre(24)
_ORDERS = (1, 2, 3, 4)


def order(alpha: float | Tensor) -> int | None:
    """``m = 1 / (alpha - 1)`` if it is one of the integers that :func:`interval` covers, else None.

    >>> order(1.5), order(4 / 3), order(1.7)
    (2, 3, None)
    """
    if isinstance(alpha, Tensor):
        return None
    return next((m for m in _ORDERS if abs((alpha - 1) * m - 1) < 1e-14), None)


def closed_order(alpha: float | Tensor) -> int | None:
    """:func:`order`, and 0 for the Gaussian."""
    return 0 if not isinstance(alpha, Tensor) and alpha == 1 else order(alpha)


def interval(density: BetaGaussian, basis: GaussianRBF) -> Tensor:
    r"""``E_p[psi_j]`` in one dimension where :func:`order` of alpha is m, ``[*, J]``.

    .. math:: E = \frac{1}{a \, B(\frac12, m + 1)} \int_{-1}^1 (1 - s^2)^m N(s; s_0, w^2) \, ds, \qquad
              s_0 = \frac{c_j - \mu}{a}, \quad w = \frac{\sigma_j}{a}

    for the half-width a of the support. Narrow functions by the moments

    .. math:: M_r = \int_{-1}^1 s^r N(s; s_0, w^2) \, ds
              = s_0 M_{r-1} + (r - 1) w^2 M_{r-2} - w^2 \bigl[s^{r-1} N(s; s_0, w^2)\bigr]_{-1}^1,

    wide ones by Gauss-Legendre nodes. Absolute error below 1e-14 / a.

    Reference: Martins et al. (NeurIPS 2020), Eq. 50 for alpha = 2.
    """
    m = order(density.alpha)
    if m is None:
        raise NotImplementedError(f"interval: 1 / (alpha - 1) must be one of {_ORDERS}, got alpha = {density.alpha}")
    bell = Bell.of(density)
    half = bell.unit * math.sqrt(2 * m)
    s0 = (wide(basis.centers[:, 0]) - bell.loc) / half
    w = wide(basis.covariance[:, 0, 0]).sqrt() / half
    narrow = w < _NARROW
    every, some = (bool(narrow.all()), bool(narrow.any())) if readable(w) else (False, True)
    if every:
        value = _closed(m, s0, w)
    elif not some:
        value = _by_nodes(m, s0, w)
    else:  # each with arguments that it can digest, so that neither sends a NaN back through the other
        value = torch.where(
            narrow, _closed(m, s0, torch.where(narrow, w, 0.1)), _by_nodes(m, s0, torch.where(narrow, 1.0, w))
        )
    scale = math.gamma(m + 1.5) / math.gamma(m + 1) / math.sqrt(math.pi)  # 1 / B(1/2, m + 1)
    return (value * (scale / half) * wide(basis.log_weight).exp()).to(density.loc.dtype)


def _closed(m: int, s0: Tensor, w: Tensor) -> Tensor:
    # Even in s0, and from the positive side both ends of the normal law are in its lower tail, where it is accurate.
    # From 10 on it is zero.
    s0 = torch.where(s0 < 0, -s0, s0).clamp(max=10)
    right, left = (1 - s0) / w, (-1 - s0) / w
    at_right, at_left = (w * (-z.square() / 2).exp() / math.sqrt(2 * math.pi) for z in (right, left))
    moments = [0.5 * (torch.erfc(right / -math.sqrt(2)) - torch.erfc(left / -math.sqrt(2)))]
    moments.append(s0 * moments[0] - (at_right - at_left))
    for r in range(2, 2 * m + 1):
        ends = at_right + at_left if r % 2 == 0 else at_right - at_left
        moments.append(s0 * moments[-1] + (r - 1) * w.square() * moments[-2] - ends)
    total = moments[0]
    for i in range(1, m + 1):
        total = total + (-1) ** i * math.comb(m, i) * moments[2 * i]
    return total


def _by_nodes(m: int, s0: Tensor, w: Tensor) -> Tensor:
    s, weight = 2 * _NODES.to(s0.device) - 1, 2 * _WEIGHTS.to(s0.device)
    weight = weight * (1 - s.square()).pow(m) / math.sqrt(2 * math.pi)
    return ((((s - s0.unsqueeze(-1)) / w.unsqueeze(-1)).square() / -2).exp() @ weight) / w
