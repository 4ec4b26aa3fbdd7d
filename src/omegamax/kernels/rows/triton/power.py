"""Entmax whose exponent the compiler knows: sparsemax, entmax15 and other alphas from 10/9 to 2.

With ``q = 1 / (alpha - 1)`` from 1 to 9 the map is ``p = [z / q - t]_+^q``, where the threshold ``t`` makes a row sum
to one. It is read once and written once, as a folded tile (see :mod:`omegamax.kernels.triton.device`). The threshold is
first solved for the maxima along ``C`` alone: they are few, hold most of the support, and the threshold of a subset is
never above that of all entries, so that one or two steps over all of them remain.

Constants of the kernels: ``KIND`` is SPARSEMAX, ENTMAX15 or ENTMAX_POWER. Of the last, ``N`` is the integer part of
``q``, and ``FRACTIONAL`` says that there is a fraction, which is known at run time only.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.device import (
    ENTMAX15,
    ENTMAX_POWER,
    MAX_STEPS,
    OVERSHOT,
    SPARSEMAX,
    any_row,
    exp2_accurate,
    folded_tile_indices,
    load_tile,
    log2_approx,
    row_max,
    row_sum,
    row_sum2,
    row_sum3,
    store_tile,
)


@triton.jit
def exponent(fraction, KIND: tl.constexpr, N: tl.constexpr):
    """Return ``q = 1 / (alpha - 1)``."""
    if KIND == SPARSEMAX:
        return fraction + 1.0
    if KIND == ENTMAX15:
        return fraction + 2.0
    return fraction + N


@triton.jit
def distance_above(x, t, q, KIND: tl.constexpr):
    """Return ``b = [x / q - t]_+``, of which ``p = b^q``."""
    if KIND == SPARSEMAX:
        return tl.maximum(x - t, 0.0)
    if KIND == ENTMAX15:
        return tl.maximum(0.5 * x - t, 0.0)
    return tl.maximum(x * (1.0 / q) - t, 0.0)


@triton.jit
def integer_power(b, M: tl.constexpr):
    """Return ``b^M`` for ``M >= 1`` by products."""
    p = b
    for _ in tl.static_range(M - 1):
        p = p * b
    return p


@triton.jit
def power_terms(b, fraction, KIND: tl.constexpr, N: tl.constexpr, FRACTIONAL: tl.constexpr):
    """Return ``b^q`` and ``b^(q - 1)``, both 0 at 0.

    The hardware's logarithm is off by 1e-7, an error that the exponent multiplies: so only the fraction is taken by
    it, the integer part by products. In tiles of several rows, whose probabilities may well be large, the hardware's
    2^x is not exact enough either.
    """
    if KIND == SPARSEMAX:
        return b, (b > 0.0).to(tl.float32)
    if KIND == ENTMAX15:
        return b * b, b
    if FRACTIONAL:
        if b.shape[0] > 1:
            r = tl.where(b > 0.0, exp2_accurate(fraction * log2_approx(b)), 0.0)
        else:
            r = tl.exp2(fraction * log2_approx(b))
        if N > 1:
            r = r * integer_power(b, N - 1)
    else:
        r = integer_power(b, N - 1)
    return r * b, r


@triton.jit
def curvature_term(b, r, KIND: tl.constexpr):
    """Return ``b^(q - 2)``, 0 at 0, given ``r = b^(q - 1)``."""
    if KIND == ENTMAX15:
        return (b > 0.0).to(tl.float32)
    return tl.where(b > 0.0, r / tl.where(b > 0.0, b, 1.0), 0.0)


@triton.jit
def power_step(s, r, curvature, q, KIND: tl.constexpr):
    """Return Newton's step on the norm ``s^(1/q)`` from the sums ``s`` and ``r`` of :func:`power_terms`.

    The norm is convex in ``t``, so that from below Newton never passes the solution. With ``curvature`` the ratio
    ``s u / r^2 - 1``, ``u`` the sum of the curvature terms, it is Halley's step; not below ``q = 2``, where ``u`` is
    dominated by the smallest entries, and Halley's steps may oscillate for ever.
    """
    r = tl.where(r > 0.0, r, 1.0)
    if KIND == SPARSEMAX:
        return (s - 1.0) / r
    safe = tl.where(s > 0.0, s, 1.0)
    if KIND == ENTMAX15:
        inverse_norm = 1.0 / tl.sqrt(safe)
    else:
        inverse_norm = tl.exp2(-tl.log2(safe) / q)
        curvature = tl.where(q < 2.0, 0.0, curvature)
    newton = (s - s * inverse_norm) / r
    return newton / tl.maximum(1.0 - 0.5 * (1.0 - inverse_norm) * (q - 1.0) * curvature, 0.5)


@triton.jit
def power_unsettled(s, step, t, KIND: tl.constexpr, tolerance):
    """Return which rows need another step: not those whose step is lost in the rounding of ``t``, nor empty ones."""
    if KIND == SPARSEMAX:  # finite, because t only rises
        return (s - 1.0 > tolerance) & (t + step > t)
    return (tl.abs(s - 1.0) > tolerance) & (tl.abs(step) > 1.2e-7 * tl.abs(t)) & (s > 0.0)


@triton.jit
def solve_power_threshold(
    x, t, fraction, KIND: tl.constexpr, N: tl.constexpr, FRACTIONAL: tl.constexpr, TOLERANCE: tl.constexpr
):
    """Move the threshold up from a lower bound ``t`` until the mass is within ``TOLERANCE`` of 1.

    Returns it, the last step, which is not added yet, and the curvature there; for sparsemax the size of the support.
    """
    q = exponent(fraction, KIND, N)
    size = 1.0 * x.shape[1] * x.shape[2]
    highest = -1.0 / size  # the threshold of equal scores, which no row exceeds
    if KIND == ENTMAX15:
        highest = -1.0 / tl.sqrt(size)
    elif KIND == ENTMAX_POWER:
        highest = -tl.exp2(-tl.log2(size) / q)
    step = tl.zeros_like(t)
    curvature = tl.zeros_like(t)
    overshot = tl.zeros_like(t)
    steps = 0
    go = True
    while go:
        b = distance_above(x, t, q, KIND)
        s, r = power_terms(b, fraction, KIND, N, FRACTIONAL)
        if KIND == SPARSEMAX:
            s, r = row_sum2(s, r)
            curvature = r
        elif KIND == ENTMAX_POWER and N == 1:
            s, r = row_sum2(s, r)
        else:
            s, r, u = row_sum3(s, r, curvature_term(b, r, KIND))
            overshot = tl.where(s < OVERSHOT, 1.0, overshot)
            curvature = tl.where((r > 0.0) & (overshot == 0.0), s * u / (r * r) - 1.0, 0.0)
        step = power_step(s, r, curvature, q, KIND)
        moving = power_unsettled(s, step, t, KIND, TOLERANCE)
        t = tl.where(moving, tl.minimum(t + step, highest), t)
        steps += 1
        go = any_row(moving, x) & (steps < MAX_STEPS)
    return t, step, curvature


@triton.jit
def power_probabilities(x, top, fraction, KIND: tl.constexpr, N: tl.constexpr, FRACTIONAL: tl.constexpr):
    """Return ``p`` of scores ``x`` measured from their maxima ``top``; NaN where those are not finite, 0 if empty."""
    t = tl.zeros([x.shape[0], 1, 1], tl.float32) - 1.0
    if x.shape[1] > 1 or KIND == ENTMAX_POWER:
        tolerance: tl.constexpr = 4e-7 if KIND == SPARSEMAX else 1e-3
        maxima = tl.max(x, 1, keep_dims=True)
        t, step, curvature = solve_power_threshold(maxima, t, fraction, KIND, N, FRACTIONAL, tolerance)
        if KIND != SPARSEMAX:
            t += step
        return finish_power(x, top, t, curvature, fraction, KIND, N, FRACTIONAL)
    exact: tl.constexpr = 4e-7 if KIND == SPARSEMAX else 1e-4
    t, step, _ = solve_power_threshold(x, t, fraction, KIND, N, FRACTIONAL, exact)
    return power_at_threshold(x, top, t, step, fraction, KIND, N, FRACTIONAL)


@triton.jit
def finish_power(x, top, t, curvature, fraction, KIND: tl.constexpr, N: tl.constexpr, FRACTIONAL: tl.constexpr):
    """Return ``p`` as :func:`power_probabilities`, given a threshold and a curvature near the solution."""
    q = exponent(fraction, KIND, N)
    if KIND == SPARSEMAX:
        mass = row_sum(tl.maximum(x - t, 0.0))
        step = (mass - 1.0) / tl.maximum(curvature, 1.0)
        # Mostly the support is known by now, and so is its size.
        if any_row(mass - 1.0 > 4e-7, x):
            t, step, _ = solve_power_threshold(x, t, fraction, KIND, N, FRACTIONAL, 4e-7)
        return power_at_threshold(x, top, t, step, fraction, KIND, N, FRACTIONAL)
    r = tl.zeros_like(x)
    excess = tl.zeros_like(t)
    step = tl.zeros_like(t)
    steps = 0
    go = True
    if KIND == ENTMAX15:
        while go:
            b = tl.maximum(0.5 * x - t, 0.0)
            s, slope = row_sum2(b * b, b)
            curvature = tl.where(s < OVERSHOT, 0.0, curvature)
            step = power_step(s, slope, curvature, q, KIND)
            # Entries that the last step drops are smaller than it, and count by their square.
            moving = power_unsettled(s, step, t, KIND, 1e-4)
            t = tl.where(moving, t + step, t)
            steps += 1
            go = any_row(moving, x) & (steps < MAX_STEPS)
        return power_at_threshold(x, top, t, step, fraction, KIND, N, FRACTIONAL)
    while go:
        p, r = power_terms(distance_above(x, t, q, KIND), fraction, KIND, N, FRACTIONAL)
        s, slope = row_sum2(p, r)
        curvature = tl.where(s < OVERSHOT, 0.0, curvature)
        step = power_step(s, slope, curvature, q, KIND)
        moving = power_unsettled(s, step, t, KIND, 2e-5)
        excess = (s - 1.0) / tl.where(slope > 0.0, slope, 1.0)
        t = tl.where(moving, t + step, t)
        steps += 1
        go = any_row(moving, x) & (steps < MAX_STEPS)
    # The last step to first order, b^q - excess b^(q - 1): higher orders are below the rounding of a probability.
    p = r * tl.maximum(distance_above(x, t, q, KIND) - excess, 0.0)
    return tl.where(top < float("inf"), p, float("nan"))


@triton.jit
def power_at_threshold(x, top, t, step, fraction, KIND: tl.constexpr, N: tl.constexpr, FRACTIONAL: tl.constexpr):
    """Return ``p`` at ``t + step``; the step is subtracted apart, since adding it to the threshold would round it."""
    t = tl.where(top < float("inf"), t, float("nan"))
    if KIND == SPARSEMAX:
        b = x - t - step
    elif KIND == ENTMAX15:
        b = 0.5 * x - t - step
    else:
        b = x * (1.0 / exponent(fraction, KIND, N)) - t - step
    b = tl.maximum(b, 0.0, propagate_nan=tl.PropagateNan.ALL)
    p, _ = power_terms(b, fraction, KIND, N, FRACTIONAL)
    return p


@triton.jit(do_not_specialize=["rows"])
def entmax_power_kernel(
    z_ptr,
    p_ptr,
    fraction,
    rows,
    K,
    z_stride,
    KIND: tl.constexpr,
    N: tl.constexpr,
    FRACTIONAL: tl.constexpr,
    UNMASKED: tl.constexpr,
    R: tl.constexpr,
    C: tl.constexpr,
    L: tl.constexpr,
):
    """Compute probabilities ``p [rows, K]`` of scores ``z``, of rows that fit into a folded tile."""
    row, column, mask = folded_tile_indices(rows, K, R, C, L)
    x = load_tile(z_ptr + row * z_stride, column, mask, float("-inf"), UNMASKED)
    top = row_max(x)
    x -= tl.where(top == float("-inf"), 0.0, top)
    p = power_probabilities(x, top, fraction, KIND, N, FRACTIONAL)
    store_tile(p_ptr + row * K, column, mask, p, UNMASKED)
