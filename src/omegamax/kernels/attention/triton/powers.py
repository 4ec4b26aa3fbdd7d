"""Weights ``p = [w - t]_+^(1/e)`` of scores ``w = e z``, ``e = alpha - 1``, and the steps of their threshold ``t``.

Of the kind ENTMAX_POWER ``1 / e`` is the integer ``N``. Of ENTMAX the weights are ``[1 + w - t]_+^(1/e)``, with a
threshold higher by one, so that no digits are lost for alpha near 1.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.device import (
    ENTMAX,
    ENTMAX15,
    ENTMAX_POWER,
    SPARSEMAX,
    exp2_flush,
    log2_flush,
    log_accurate,
    one_minus_exp,
)

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
HUGE = tl.constexpr(1e30)  # [x > 0] is min(x HUGE, 1), one operation fewer than a comparison and a select
TINY_EXPONENT = tl.constexpr(1e-6)  # an exponent that gives 1 on the support and 0 outside


@triton.jit
def power_terms(w, t, e, KIND: tl.constexpr, N: tl.constexpr, EXACT: tl.constexpr):
    """Return ``p``, ``p^(2 - alpha)`` and ``p^(3 - 2 alpha)``; the last is 0 for sparsemax, whose steps need none.

    ``EXACT``: with logarithms to the last digits, rather than as exact as half precision needs.
    """
    root = tl.maximum(w - t, 0.0)
    if KIND == SPARSEMAX:
        return root, tl.minimum(root * HUGE, 1.0), tl.zeros_like(w)
    if KIND == ENTMAX15:
        return root * root, root, tl.minimum(root * HUGE, 1.0)
    if KIND == ENTMAX_POWER:
        u = integer_power(root, N - 2)
        return root * root * u, root * u, u
    if EXACT:
        logarithm, base, on = accurate_log_base(w, t)
        p = tl.where(on, tl.exp2(logarithm / e), 0.0)
        over = tl.where(on, 1.0 / base, 0.0)
        return p, p * over, p * over * over
    p, s, logarithm = fast_power_terms(w, t, e)
    return p, s, exp2_flush(logarithm * tl.maximum(1.0 / e - 2.0, TINY_EXPONENT))


@triton.jit
def probability(w, t, e, KIND: tl.constexpr, N: tl.constexpr, EXACT: tl.constexpr):
    """Return ``p`` alone."""
    root = tl.maximum(w - t, 0.0)
    if KIND == SPARSEMAX:
        return root
    if KIND == ENTMAX15:
        return root * root
    if KIND == ENTMAX_POWER:
        return integer_power(root, N)
    if EXACT:
        logarithm, _base, on = accurate_log_base(w, t)
        return tl.where(on, tl.exp2(logarithm / e), 0.0)
    return exp2_flush(log2_flush(tl.maximum(w + (1.0 - t), 0.0)) * (1.0 / e))


@triton.jit
def fast_power_terms(w, t, e):
    """Return ``p``, ``p^(2 - alpha)`` and ``log2 p^e`` by one logarithm and one power of two."""
    base = tl.maximum(w + (1.0 - t), 0.0)
    logarithm = log2_flush(base)  # -inf outside the support, where positive exponents then give 0
    s = exp2_flush(logarithm * tl.maximum(1.0 / e - 1.0, TINY_EXPONENT))
    return s * base, s, logarithm


@triton.jit
def integer_power(x, N: tl.constexpr):
    """Return ``x^N`` for N from 1 to 8, with the fewest products."""
    y = x
    if N >= 2:
        y = x * x
        square = y
        if N >= 4:
            y = y * y
        if N == 8:
            y = y * y
        if N >= 6 and N < 8:
            y = y * square
        if N % 2 == 1:
            y = y * x
    return y


@triton.jit
def probability_and_slope(w, t, e, KIND: tl.constexpr, N: tl.constexpr, EXACT: tl.constexpr):
    """Return ``p`` and ``p^(2 - alpha)``."""
    if KIND == ENTMAX and not EXACT:
        p, s, _logarithm = fast_power_terms(w, t, e)
    else:
        p, s, _u = power_terms(w, t, e, KIND, N, EXACT)
    return p, s


@triton.jit
def accurate_log_base(w, t):
    """Return ``log2 p^e``, ``p^e``, and where it is positive, to the last digits."""
    above = w - t
    base = above + 1.0
    on = base > 0.0
    base = tl.where(on, base, 1.0)
    return log_accurate(base, tl.where(on, above, 0.0)) * LOG2E, base, on


@triton.jit
def first_threshold(top, KIND: tl.constexpr):
    """Return the threshold if the maximum had all the mass: a lower bound of the solution."""
    if KIND == ENTMAX:
        return top
    return top - 1.0


@triton.jit
def last_threshold(top, e, size, KIND: tl.constexpr):
    """Return the threshold of ``size`` scores equal to the maximum: an upper bound of the solution."""
    t = first_threshold(top, KIND)
    return t + (1.0 - tl.exp2(-e * tl.log2(0.0 * e + size)))


@triton.jit
def halley_step(s, r, u, e, KIND: tl.constexpr, EXACT: tl.constexpr):
    """Return Halley's step on ``s^e - 1``, convex in ``t``, from sums of power terms; Newton's for sparsemax."""
    positive = r > 0.0
    r = tl.where(positive, r, 1.0)
    if KIND == SPARSEMAX:
        return tl.where(positive, (s - 1.0) / r, 0.0)
    s = tl.where(positive, s, 1.0)
    if KIND == ENTMAX15:
        decrease = 1.0 - 1.0 / tl.sqrt(s)
        curvature = decrease * (s * u - r * r) / (2.0 * r * r)
    else:
        if EXACT:
            decrease = one_minus_exp(-e * log_accurate(s, s - 1.0))
        else:
            decrease = 1.0 - tl.exp2(-e * tl.log2(s))
        # Beyond alpha = 1.5 the smallest entries dominate the second derivative: Newton's step, then.
        curvature = tl.where(e > 0.5, 0.0, (1.0 / e - 1.0) * decrease * (s * u - r * r) / (2.0 * r * r))
    return tl.where(positive, s * decrease / r / tl.maximum(1.0 - curvature, 0.5), 0.0)


@triton.jit
def is_unsettled(s, step, t, e, KIND: tl.constexpr, EXACT: tl.constexpr):
    """Return which rows need another step after this one.

    Halley's step leaves an error of about the cube of ``s - 1``, Newton's of its square, and either that of the entries
    which it drops: the more, the nearer alpha is to 2.
    """
    if KIND == ENTMAX15:
        tolerance = 1e-4 if EXACT else 1e-2
    elif KIND == SPARSEMAX:
        tolerance = 4e-7 if EXACT else 1e-3
    elif EXACT:
        tolerance = tl.where(e > 0.5, 1e-6, 1e-4)
    else:
        tolerance = tl.where(e > 0.5, 1e-3, 1e-2)
    return (tl.abs(s - 1.0) > tolerance) & exceeds_rounding(step, t)


@triton.jit
def is_distant(s, step, t, e):
    """Return which rows need another step in half precision, where the mass is computed once more afterwards.

    The step may leave an error of a few thousandths. From a mass below 1 it widens the support, so that blocks which
    were skipped may have to be read.
    """
    tolerance = tl.where(e > 0.5, 1e-2, tl.where(e > 0.45, 0.6, 1.0))
    return ((s > 1.0 + tolerance) | (s < 0.99)) & exceeds_rounding(step, t)


@triton.jit
def exceeds_rounding(step, t):
    """Return whether a step is larger than the rounding of a threshold."""
    return tl.abs(step) > 2e-7 * (1.0 + tl.abs(t))


@triton.jit
def alpha_slope_from_log(logarithm, base, e):
    """Return ``-d/de (p^e - 1) / e``, which is ``-(b log b - b + 1) / e^2``, given ``log2 b`` and ``b = p^e``."""
    x = logarithm / LOG2E
    near = 0.0333333333 + x * (0.0069444444 + x * (0.0011904762 + x * 0.0001736111))
    near = x * x * (0.5 + x * (0.3333333333 + x * (0.125 + x * near)))
    return -tl.where(tl.abs(x) < 0.5, near, base * (x - 1.0) + 1.0) / (e * e)


@triton.jit
def alpha_slope(w, t, e, EXACT: tl.constexpr):
    """Return the same from scores and threshold; undefined off the support."""
    if EXACT:
        logarithm, base, _on = accurate_log_base(w, t)
        return alpha_slope_from_log(logarithm, base, e)
    # b - 1 is known without rounding: b log b - (b - 1), by its series where the two nearly cancel.
    above = tl.maximum(w - t, -1.0)
    base = tl.maximum(w + (1.0 - t), 0.0)
    far = base * (tl.maximum(log2_flush(base), -126.0) * LN2) - above
    near = 0.5 + above * (-0.1666666667 + above * (0.0833333333 + above * (-0.05 + above * 0.0333333333)))
    return tl.where(tl.abs(above) < 0.25, above * above * near, far) * (-1.0 / (e * e))
