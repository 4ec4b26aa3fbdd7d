r"""Scalar functions of alpha behind the beta-Gaussian, smooth through alpha = 1.

With ``e = alpha - 1`` and ``n`` dimensions the density is ``exp(B) (1 - e q / 2c)^(1/e)`` where

.. math:: B = \frac{\delta(e, n) - \tfrac12 \log\det 2\pi\Sigma}{1 + en/2}, \qquad c = e^{eB}

and all that depends on alpha alone is ``delta``, a ratio of gamma functions that is 0 at e = 0. The textbook's
log-gamma functions cancel there; here every even step in ``n`` is one ``log1p``, exactly, and the odd one is an
asymptotic series. Nothing but arithmetic and logarithms: a float gives a float, a tensor any number of derivatives.
"""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor

Scalar = TypeVar("Scalar", float, Tensor)

# Below this |e| the series is taken at once, above it after _SHIFT steps of the gamma function's recurrence.
_SMALL = 0.1
_SHIFT = 9
_EULER = [-1, 5, -61, 1385, -50521, 2702765, -199360981, 19391512145, -2404879675441, 370371188237525]
# log Gamma(w + 3/4) - log Gamma(w + 1/4) = log(w) / 2 + sum_k _STEP[k - 1] w^(-2k); 1e-18 is left at w = 8.75.
_STEP = [-euler / (k * 4 ** (2 * k + 1)) for k, euler in enumerate(_EULER, start=1)]
_STEP_SLOPE = [2 * k * a for k, a in enumerate(_STEP, start=1)]
# Of the series in gap and log_ratio, in powers of s^2 <= 1/49 (|y| <= 1/4).
_GAP = [1 / (2 * k + 3) for k in range(12)]


def log_volume(e: Scalar, n: int) -> Scalar:
    r"""``delta(e, n)`` for ``e > -2/n``: 0 at e = 0, otherwise with m = 1/e

    .. math:: \log \Gamma(m + 1 + n/2) - \log \Gamma(m + 1) - \tfrac n2 \log m \quad (e > 0), \qquad
              \log \Gamma(-m) - \log \Gamma(-m - n/2) - \tfrac n2 \log(-m) \quad (e < 0)

    It is minus the logarithm of the volume of ``(1 - e |x|^2 / 2)^(1/e)``, in units of the Gaussian's.

    >>> round(log_volume(1.0, 2), 6), log_volume(0.0, 3)  # log 2 for the paraboloid over a disk
    (0.693147, 0.0)
    """
    total = _half_step(e) if n % 2 else 0 * e
    for j in _steps(n):
        total = total + _log1p(j * e)
    return total


def log_volume_slope(e: Scalar, n: int) -> Scalar:
    r"""The derivative of :func:`log_volume` in ``e``: ``n (n + 2) / 8`` at e = 0.

    >>> log_volume_slope(1.0, 2), log_volume_slope(0.0, 4)
    (0.5, 3.0)
    """
    total = _half_step_slope(e) if n % 2 else 0 * e
    for j in _steps(n):
        total = total + j / (1 + j * e)
    return total


def gap(y: Tensor) -> Tensor:
    r"""``(y - log1p(y)) / y^2`` for ``y > -1``: 1/2 at zero, and accurate there, derivatives too."""
    small = y.abs() < 0.25
    outer = torch.where(small, 1.0, y)
    return torch.where(small, _gap_series(torch.where(small, y, 0.0)), (outer - outer.log1p()) / outer.square())


def log_ratio(y: Tensor) -> Tensor:
    r"""``log1p(y) / y`` for ``y > -1``: 1 at zero, and accurate there, derivatives too."""
    small = y.abs() < 0.25
    inner, outer = torch.where(small, y, 0.0), torch.where(small, 1.0, y)
    return torch.where(small, 1 - inner * _gap_series(inner), outer.log1p() / outer)


def _gap_series(y: Tensor) -> Tensor:
    s = y / (2 + y)  # log1p(y) = 2 artanh(s)
    return 1 / (2 + y) - 2 * s / (2 + y).square() * _polynomial(s.square(), _GAP)


def _steps(n: int) -> list[float]:
    """1, 2, ..., n/2 or 3/2, 5/2, ..., n/2: from 0 or 1/2 on, by one."""
    return [n / 2 - k for k in range(n // 2)][::-1]


def _log1p(y: Scalar) -> Scalar:
    return torch.log1p(y) if isinstance(y, Tensor) else math.log1p(y)


def _polynomial(x: Scalar, coefficients: list[float]) -> Scalar:
    total = 0 * x + coefficients[-1]
    for a in reversed(coefficients[:-1]):
        total = total * x + a
    return total


def _half_step(e: Scalar) -> Scalar:
    """``delta(e, 1)``."""
    if isinstance(e, Tensor):
        small = e.abs() < _SMALL
        return torch.where(small, _near(torch.where(small, e, 0.0)), _far(torch.where(small, 1.0, e)))
    return _near(e) if abs(e) < _SMALL else _far(e)


def _half_step_slope(e: Scalar) -> Scalar:
    if isinstance(e, Tensor):
        small = e.abs() < _SMALL
        return torch.where(small, _near_slope(torch.where(small, e, 0.0)), _far_slope(torch.where(small, 1.0, e)))
    return _near_slope(e) if abs(e) < _SMALL else _far_slope(e)


def _near(e: Scalar) -> Scalar:
    u = e / (1 + 0.75 * e)  # 1 / w: the series has no odd powers, and so does not know the sign of e
    return 0.5 * _log1p(0.75 * e) + u * u * _polynomial(u * u, _STEP)


def _near_slope(e: Scalar) -> Scalar:
    base = 1 + 0.75 * e
    u = e / base
    return 0.375 / base + u * _polynomial(u * u, _STEP_SLOPE) / (base * base)


def _far(e: Scalar) -> Scalar:
    size = abs(e)
    w = 1 / size + 0.75 * (e / size)
    shifted = w + _SHIFT
    steps: Scalar = 0 * e
    for i in range(_SHIFT):
        steps = steps + _log1p(-0.5 / (w + (i + 0.75)))
    series = _polynomial(1 / (shifted * shifted), _STEP) / (shifted * shifted)
    return 0.5 * _log1p(size * shifted - 1) + series + steps


def _far_slope(e: Scalar) -> Scalar:
    size = abs(e)
    sign = e / size
    w = 1 / size + 0.75 * sign
    shifted = w + _SHIFT
    steps: Scalar = 0 * e
    for i in range(_SHIFT):
        steps = steps + 0.5 / ((w + (i + 0.25)) * (w + (i + 0.75)))
    series = -_polynomial(1 / (shifted * shifted), _STEP_SLOPE) / (shifted * shifted * shifted)
    in_w = 0.5 / shifted + series + steps
    return sign * (0.5 / size - in_w / (size * size))
