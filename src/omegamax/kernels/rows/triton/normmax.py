"""Normmax of rows that fit into one program, and its vector-Jacobian product for alpha up to 2.

With ``q = alpha / (alpha - 1)`` and ``b = [z - t]_+`` the threshold makes the powers ``b^q`` sum to one, as that of an
entmax; the probabilities are ``b^(q - 1)``, normalised. Folded tiles and the order of the search are as in ``power``.
Beyond alpha = 2 the smallest probabilities are roots of their distances to the threshold, which then have to be known
to more digits than float32 has.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.power import curvature_term, exponent, power_step, power_terms, power_unsettled
from omegamax.kernels.triton.deformed import log_exp_e, solve_level
from omegamax.kernels.triton.device import (
    ENTMAX15,
    MAX_STEPS,
    OVERSHOT,
    any_row,
    exp,
    folded_tile_indices,
    load_tile,
    log2_approx,
    log_accurate,
    row_max,
    row_sum,
    row_sum2,
    row_sum3,
    store_tile,
    tile_indices,
)


@triton.jit
def solve_normmax_threshold(
    x,
    shift,
    t,
    curvature,
    fraction,
    KIND: tl.constexpr,
    N: tl.constexpr,
    FRACTIONAL: tl.constexpr,
    TOLERANCE: tl.constexpr,
    FIRST: tl.constexpr,
):
    """Move the threshold of scores ``x - shift`` from ``t`` on; return it, a last step, and the curvature there.

    Only the ``FIRST`` search computes the curvature, where it is not negative: below 0 it means that a Halley step has
    overshot, and steps are Newton's.
    """
    q = exponent(fraction, KIND, N)
    highest = -tl.exp2(-tl.log2(1.0 * x.shape[1] * x.shape[2] + 0.0 * t) / q)  # of equal scores, which no row exceeds
    step = tl.zeros_like(t)
    steps = 0
    go = True
    while go:
        b = tl.maximum(x - shift - t, 0.0)
        s, r = power_terms(b, fraction, KIND, N, FRACTIONAL)
        if FIRST:
            s, r, u = row_sum3(s, r, curvature_term(b, r, KIND))
            known = (r > 0.0) & (curvature >= 0.0)
            curvature = tl.where(known, s * u / tl.where(r > 0.0, r * r, 1.0) - 1.0, -1.0)
        else:
            s, r = row_sum2(s, r)
        curvature = tl.where(s < OVERSHOT, -1.0, curvature)
        step = power_step(s, r, tl.maximum(curvature, 0.0), q, KIND)
        moving = power_unsettled(s, step, t, KIND, TOLERANCE)
        t = tl.where(moving, tl.minimum(t + step, highest), t)
        steps += 1
        go = any_row(moving, x) & (steps < MAX_STEPS)
    return t, step, curvature


@triton.jit
def refine_differences(z, top, t, q):
    """Return ``[z - top - t]_+`` to the last digits of float32, solving in float64 from a threshold ``t`` near it on.

    Float64 powers are slow: they are taken of one entry along ``C`` at a time, the largest that is left, as few entries
    are above the threshold.
    """
    t = t.to(tl.float64)
    steps = 0
    go = True
    while go:
        mass = tl.zeros([z.shape[0], 1, z.shape[2]], tl.float64)
        slope = tl.zeros([z.shape[0], 1, z.shape[2]], tl.float32)
        before = tl.zeros([z.shape[0], 1, z.shape[2]], tl.float32) + float("inf")
        more = True
        while more:
            head = tl.max(tl.where(z < before, z, float("-inf")), 1, keep_dims=True)
            ties = tl.sum((z == head).to(tl.float32), 1, keep_dims=True)
            b = head.to(tl.float64) - top.to(tl.float64) - t
            some = b > 0.0
            b = tl.where(some, b, 1.0)
            power = tl.where(some, tl.exp2(q * tl.log2(b)), 0.0) * ties.to(tl.float64)
            mass += power
            slope += power.to(tl.float32) / b.to(tl.float32)
            before = head
            more = tl.max(tl.max(tl.max(some.to(tl.int32), 2), 1), 0) > 0
        mass = tl.sum(mass, 2, keep_dims=True)
        slope = tl.sum(slope, 2, keep_dims=True).to(tl.float64)
        step = (mass - 1.0) / (q * tl.where(slope > 0.0, slope, 1.0))
        t = tl.where(tl.abs(step) < 1.0, t + step, t)  # not for empty rows, or those with NaN
        steps += 1
        go = any_row((tl.abs(step) > 2e-7) & (tl.abs(step) < 1.0), z) & (steps < MAX_STEPS)
    x = z - top
    back = x - z
    lost = tl.where(x > float("-inf"), (z - (x - back)) - (top + back), 0.0)  # by rounding x
    high = t.to(tl.float32)
    return tl.maximum((x - high) + (lost - (t - high.to(tl.float64)).to(tl.float32)), 0.0)


@triton.jit(do_not_specialize=["rows"])
def normmax_power_kernel(
    z_ptr,
    p_ptr,
    alpha,
    fraction,
    rows,
    K,
    z_stride,
    KIND: tl.constexpr,
    N: tl.constexpr,
    FRACTIONAL: tl.constexpr,
    ABOVE_2: tl.constexpr,
    UNMASKED: tl.constexpr,
    R: tl.constexpr,
    C: tl.constexpr,
    L: tl.constexpr,
):
    """Compute probabilities ``p [rows, K]`` of scores ``z``. ``ABOVE_2``: alpha is above 2.

    ``KIND``, ``N``, ``FRACTIONAL`` and ``fraction`` are those of the entmax with exponent ``q``.
    """
    row, column, mask = folded_tile_indices(rows, K, R, C, L)
    x = load_tile(z_ptr + row * z_stride, column, mask, float("-inf"), UNMASKED)
    top = row_max(x)
    shift = tl.where(top == float("-inf"), 0.0, top)
    if not ABOVE_2:
        x -= shift
        shift = tl.zeros([R, 1, 1], tl.float32)
    t = tl.zeros([R, 1, 1], tl.float32) - 1.0
    curvature = tl.zeros([R, 1, 1], tl.float32)
    # Entries that the last step drops are smaller than it, and count by their power q.
    tolerance: tl.constexpr = 1e-4 if KIND == ENTMAX15 else 4e-7 if ABOVE_2 else 2e-5
    if C > 1:
        maxima = tl.max(x, 1, keep_dims=True)
        t, step, curvature = solve_normmax_threshold(
            maxima, shift, t, curvature, fraction, KIND, N, FRACTIONAL, 1e-3, True
        )
        t, step, curvature = solve_normmax_threshold(
            x, shift, t + step, curvature, fraction, KIND, N, FRACTIONAL, tolerance, False
        )
    else:
        t, step, curvature = solve_normmax_threshold(
            x, shift, t, curvature, fraction, KIND, N, FRACTIONAL, tolerance, True
        )
    if ABOVE_2:
        a = tl.zeros([R, 1, 1], tl.float64) + alpha
        b = refine_differences(x, shift, t + step, a / (a - 1.0))
    else:
        b = tl.maximum(x - t - step, 0.0)
    _, p = power_terms(b, fraction, KIND, N, FRACTIONAL)
    mass = row_sum(p)
    p *= 1.0 / tl.where(mass > 0.0, mass, 1.0)
    p = tl.where(top < float("inf"), p, float("nan"))
    store_tile(p_ptr + row * K, column, mask, p, UNMASKED)


@triton.jit
def normmax_probabilities(z, x, top, a):
    """Return normmax of a plain tile ``z``, or ``x`` measured from its maxima ``top``, for any alpha ``a [R, 1]``."""
    e = 1.0 - 1.0 / a
    level, step = solve_level(x, x, e)
    log_p, _, inside = log_exp_e(x, x, e, level, step)
    p = tl.where(inside, exp(log_p / a), 0.0)
    if tl.max(a) > 2.0:
        wide = 1.0 - 1.0 / a.to(tl.float64)
        t = wide * (level.to(tl.float64) + step.to(tl.float64)) - 1.0
        b = refine_in_float64(z.to(tl.float64) - top.to(tl.float64), t, wide)
        root = exp(log_accurate(tl.where(b > 0.0, b, 1.0), b - 1.0) / (a - 1.0))
        p = tl.where(a > 2.0, tl.where(b > 0.0, root, 0.0), p)
    s = row_sum(p)
    return p / tl.where(s > 0.0, s, 1.0)


@triton.jit
def refine_in_float64(x, t, e):
    """Return ``[x - t]_+`` such that its powers ``1 / e`` sum to one, in float64 from a ``t`` near the solution on."""
    steps = 0
    go = True
    while go:
        b = tl.maximum(x - t, 0.0)
        some = b > 0.0
        power = tl.where(some, tl.exp2(tl.log2(tl.where(some, b, 1.0)) / e), 0.0)
        share = tl.where(some, power.to(tl.float32) / tl.where(some, b, 1.0).to(tl.float32), 0.0)
        slope = row_sum(share).to(tl.float64)
        step = e * (row_sum(power) - 1.0) / tl.where(slope > 0.0, slope, 1.0)
        t = tl.where(tl.abs(step) < 1.0, t + step, t)  # not for empty rows, or those with NaN
        moving = (tl.abs(step) > 2e-7) & (tl.abs(step) < 1.0)
        steps += 1
        go = any_row(moving, x) & (steps < MAX_STEPS)
    return tl.maximum(x - t, 0.0).to(tl.float32)


@triton.jit
def add4(a0, a1, a2, a3, b0, b1, b2, b3):
    """Add two quadruples."""
    return a0 + b0, a1 + b1, a2 + b2, a3 + b3


@triton.jit(do_not_specialize=["rows"])
def normmax_vjp_kernel(
    p_ptr,
    g_ptr,
    out_ptr,
    alpha,
    rows,
    K,
    p_stride,
    g_stride,
    SQUARE: tl.constexpr,
    UNMASKED: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``||p||^(alpha - 1) / (alpha - 1)`` times ``diag(w) - w p^T - p w^T + sum(w) p p^T`` times ``g``.

    ``w = p^(2 - alpha)`` on the support, which is 1 where alpha is 2 (``SQUARE``).
    """
    row, column, mask = tile_indices(rows, K, R, BLOCK)
    p = load_tile(p_ptr + row * p_stride, column, mask, 0.0, UNMASKED)
    on = p > 0.0
    g = tl.load(g_ptr + row * g_stride + column, mask=on, other=0.0).to(tl.float32)
    if SQUARE:
        w = on.to(tl.float32)
        power = p * p
    else:
        log_p = log2_approx(p)
        w = tl.exp2((2.0 - alpha) * log_p)
        power = tl.exp2(alpha * log_p)
    power, mean, weight, moved = tl.reduce((power, p * g, w, w * g), 1, add4, keep_dims=True)
    size = tl.exp2((1.0 - 1.0 / alpha) * tl.log2(tl.where(power > 0.0, power, 1.0))) / (alpha - 1.0)
    out = tl.where(on, size * (w * (g - mean) - p * (moved - weight * mean)), 0.0)
    store_tile(out_ptr + row * K, column, mask, out, UNMASKED)
