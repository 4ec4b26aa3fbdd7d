"""The area of a cap of a sphere, by the incomplete beta function."""

from __future__ import annotations

import math

_TERMS = 10_000
_TINY = 1e-300


def log_cap(dimension: int, height: float) -> float:
    r"""Return the log of the share of the unit sphere in ``dimension`` >= 2 where :math:`1 - \cos` < ``height``.

    .. math:: A(\theta) = \tfrac12 I_{\sin^2\theta}\bigl(\tfrac{D-1}2, \tfrac12\bigr) \quad (\theta \le \pi/2)

    ``height`` lies in [0, 2]; the answer is ``-inf`` at 0, and 0 at 2.

        >>> round(math.exp(log_cap(3, 0.5)), 12)  # on the sphere in space, a zone has the area of its height
        0.25
    """
    if height <= 0:
        return -math.inf
    if height > 1:
        rest = log_cap(dimension, 2 - height)
        return math.log1p(-math.exp(rest))
    square = height * (2 - height)  # sin^2, without the cancellation of 1 - cos^2
    return math.log(0.5) + _log_beta((dimension - 1) / 2, 0.5, square, (1 - height) ** 2)


def _log_beta(a: float, b: float, x: float, rest: float) -> float:
    """Return ``log I_x(a, b)`` for ``rest = 1 - x``, by the continued fraction (DLMF 8.17.22).

    It is evaluated from the front.
    """
    if rest == 0:
        return 0.0
    if x > (a + 1) / (a + b + 2):  # it converges fast on the other side only
        return math.log1p(-math.exp(_log_beta(b, a, rest, x)))
    front = a * math.log(x) + b * math.log(rest) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) - math.log(a)
    f = c = 1.0
    d = 0.0
    for k in range(_TERMS):
        m = k // 2
        if k == 0:
            term = 1.0
        elif k % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _away(1 + term * d)
        c = _away(1 + term / c)
        f *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return front + math.log(f - 1)


def _away(x: float) -> float:
    return x if abs(x) > _TINY else _TINY
