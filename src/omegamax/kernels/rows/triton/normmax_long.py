"""Normmax of long rows, read once and written once where few entries can be in the support; and its vjp.

Its threshold is that of an entmax, and is found as in ``power_long``: a lower bound by the maxima of groups, then the
entries of the groups above it. Where there are too many of these, the row is read once for each step.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.general import solve_general_long
from omegamax.kernels.rows.triton.normmax import add4, refine_differences, solve_normmax_threshold
from omegamax.kernels.rows.triton.power import power_terms
from omegamax.kernels.triton.device import (
    ENTMAX15,
    NORMMAX,
    block_indices,
    load_blocks,
    log2_approx,
    max_or_nan,
    row_max,
    row_sum,
    store_tile,
)


@triton.jit(do_not_specialize=["rows"])
def normmax_power_long_kernel(
    z_ptr,
    p_ptr,
    list_ptr,
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
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
    LIST: tl.constexpr,
):
    """Compute probabilities ``p [rows, K]`` of scores ``z``, one row for each program.

    Constants are those of ``normmax_power_kernel`` and of ``entmax_power_long_kernel``.
    """
    row = tl.program_id(0).to(tl.int64)
    z_ptr += row * z_stride
    p_ptr += row * K
    list_ptr += row * LIST
    maxima = tl.full([1, 1, BLOCK], float("-inf"), tl.float32)
    for start in range(0, K, DEPTH * BLOCK):
        x, column = load_blocks(z_ptr, start, K, UNMASKED, DEPTH, BLOCK)
        store_tile(p_ptr, column, column < K, tl.zeros([1, DEPTH, BLOCK], tl.float32), UNMASKED)
        maxima = max_or_nan(maxima, tl.reduce(x, 1, max_or_nan, keep_dims=True))
    top = row_max(maxima)
    finite = tl.max((tl.abs(top) < float("inf")).to(tl.int32)) > 0
    shift = tl.where(top == float("-inf"), 0.0, top)
    curvature = tl.zeros([1, 1, 1], tl.float32)
    t, step, curvature = solve_normmax_threshold(
        maxima, shift, curvature - 1.0, curvature, fraction, KIND, N, FRACTIONAL, 1e-3, True
    )
    t += step
    candidate = maxima - shift > t - 1e-3 * tl.abs(t)  # lower, as a step may have gone too far
    found = tl.sum(candidate.to(tl.int32))
    if (found <= LIST) & finite:
        at = tl.cumsum(candidate.to(tl.int32), 2) - 1
        tl.store(list_ptr + at, tl.arange(0, BLOCK)[None, None, :], mask=candidate)
        tl.debug_barrier()  # makes the lists and the zeros of other threads visible
        at = tl.arange(0, LIST)[None, None, :]
        column = tl.load(list_ptr + at, mask=at < found, other=K) + tl.arange(0, GROUP)[None, :, None] * BLOCK
        x = tl.load(z_ptr + column, mask=column < K, other=float("-inf")).to(tl.float32)
        tolerance: tl.constexpr = 1e-4 if KIND == ENTMAX15 else 4e-7 if ABOVE_2 else 2e-5
        t, step, curvature = solve_normmax_threshold(
            x, shift, t, curvature, fraction, KIND, N, FRACTIONAL, tolerance, False
        )
        if ABOVE_2:
            a = tl.zeros([1, 1, 1], tl.float64) + alpha
            b = refine_differences(x, shift, t + step, a / (a - 1.0))
        else:
            b = tl.maximum(x - shift - t - step, 0.0)
        _, p = power_terms(b, fraction, KIND, N, FRACTIONAL)
        mass = row_sum(p)
        p *= 1.0 / tl.where(mass > 0.0, mass, 1.0)
        tl.store(p_ptr + column, p, mask=(column < K) & (p > 0.0))
    elif tl.max((top != float("-inf")).to(tl.int32)) > 0:
        solve_general_long(z_ptr, p_ptr, tl.zeros([1, 1], tl.float32) + alpha, K, NORMMAX, BLOCK)


@triton.jit(do_not_specialize=["rows"])
def normmax_vjp_long_kernel(
    p_ptr,
    g_ptr,
    out_ptr,
    alpha,
    rows,
    K,
    p_stride,
    g_stride,
    SQUARE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute what ``normmax_vjp_kernel`` does, one long row for each program: the sums first, then the result."""
    row = tl.program_id(0).to(tl.int64)
    p_ptr += row * p_stride
    g_ptr += row * g_stride
    out_ptr += row * K
    power = tl.zeros([1, BLOCK], tl.float32)
    mean = tl.zeros([1, BLOCK], tl.float32)
    weight = tl.zeros([1, BLOCK], tl.float32)
    moved = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        p, g, w, raised = load_weights(p_ptr, g_ptr, start, K, alpha, SQUARE, BLOCK)
        power += raised
        mean += p * g
        weight += w
        moved += w * g
    power, mean, weight, moved = tl.reduce((power, mean, weight, moved), 1, add4, keep_dims=True)
    size = tl.exp2((1.0 - 1.0 / alpha) * tl.log2(tl.where(power > 0.0, power, 1.0))) / (alpha - 1.0)
    for start in range(0, K, BLOCK):
        column, mask = block_indices(start, K, BLOCK)
        p, g, w, _ = load_weights(p_ptr, g_ptr, start, K, alpha, SQUARE, BLOCK)
        out = tl.where(p > 0.0, size * (w * (g - mean) - p * (moved - weight * mean)), 0.0)
        tl.store(out_ptr + column, out, mask=mask)


@triton.jit
def load_weights(p_ptr, g_ptr, start, K, alpha, SQUARE: tl.constexpr, BLOCK: tl.constexpr):
    """Return a block of probabilities and of gradients on their support, ``p^(2 - alpha)`` and ``p^alpha``."""
    column, mask = block_indices(start, K, BLOCK)
    p = tl.load(p_ptr + column, mask=mask, other=0.0).to(tl.float32)
    on = p > 0.0
    g = tl.load(g_ptr + column, mask=on, other=0.0).to(tl.float32)
    if SQUARE:
        return p, g, on.to(tl.float32), p * p
    else:
        log_p = log2_approx(p)
        return p, g, tl.exp2((2.0 - alpha) * log_p), tl.exp2(alpha * log_p)
