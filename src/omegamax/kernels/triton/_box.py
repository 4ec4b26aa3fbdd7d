"""Projections of rows onto boxes cut by a sum: ``p = clip(x - t, lower, upper)`` with ``sum p = goal``.

The sum falls with ``t`` along a broken line that is neither convex nor concave, so Newton's steps are kept between two
ends that close in. Where scores are large, neighbouring numbers are too far apart to hold ``t``: which entries are at a
bound follows from the ends, and the rest is solved again, measured from the largest of them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton._numbers import any_row, largest, sum1, sum2
from omegamax.kernels.triton._simplex import tile_of

INF = tl.constexpr(float("inf"))
HALVINGS = tl.constexpr(24)  # of the way between the ends, before the numbers between them are halved
ROUNDS = tl.constexpr(64)


@triton.jit
def in_order(x):
    """Floats as integers in the same order, and back."""
    bits = x.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def between(low, high):
    """The number half-way from ``low`` to ``high`` among all that float32 has; ``low`` if there is none."""
    a, b = in_order(low), in_order(high)
    middle = (a >> 1) + (b >> 1) + (a & b & 1)
    return (middle ^ ((middle >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def clipped(x, lower, upper):
    return tl.minimum(tl.maximum(x, lower), upper)


@triton.jit
def level(x, lower, upper, goal, t, low, high):
    """``t`` from a first guess and two ends on; the ends, equal where the sum is right, and the last step."""
    step = tl.zeros_like(t)
    rounds = 0
    go = True
    while go:
        inside = (x - t > lower) & (x - t < upper)
        total, free = sum2(clipped(x - t, lower, upper), inside.to(tl.float32))
        off = total - goal
        right = tl.abs(off) <= 4e-7 * tl.maximum(goal, 1.0)
        step = off / tl.maximum(free, 1.0)
        low = tl.where(right | (off >= 0.0), t, low)
        high = tl.where(right | (off < 0.0), t, high)
        half = between(low, high)
        # Every third step halves; from some point on all do, by which each number is met if need be.
        near = 0.5 * low + 0.5 * high
        following = tl.where((near > low) & (near < high) & (rounds < HALVINGS), near, half)
        newton = t + step
        sound = (free > 0.0) & (newton > low) & (newton < high) & (rounds % 3 != 2) & (rounds < HALVINGS)
        following = tl.where(sound, newton, following)
        moving = (following > low) & (following < high)
        t = tl.where(moving, following, t)
        rounds += 1
        go = any_row(moving, x) & (rounds < ROUNDS)
    return t, low, high, step


@triton.jit
def project(x, there, lower, upper, goal, rest):
    """The probabilities of the entries that are ``there``; bounds and the sum ``goal + rest`` are finite.

    Whole numbers and what is beyond them come apart, since most of a large sum may be at bounds of 1.
    """
    lower = tl.where(there, lower, 0.0)
    upper = tl.where(there, upper, 0.0)
    least, most = sum2(lower, upper)
    both = tl.minimum(tl.maximum(goal + rest, least), most)
    goal, rest = tl.where(both == goal + rest, goal, both), tl.where(both == goal + rest, rest, 0.0)
    low = tl.min(tl.where(there, x - upper, INF), 1, keep_dims=True)
    high = tl.max(tl.where(there, x - lower, -INF), 1, keep_dims=True)
    some = high > -INF
    low, high = tl.where(some, low - 4e-7 * tl.abs(low), -1.0), tl.where(some, high + 4e-7 * tl.abs(high), 1.0)
    x = tl.where(there, x, 0.0)  # with bounds of 0, whatever the level
    first = tl.maximum(0.5 * low + 0.5 * high, high - 1.0)
    t, low, high, step = level(x, lower, upper, both, first, low, high)
    full = x - high >= upper
    free = there & ~full & (x - low > lower)
    fixed = tl.where(full, upper, tl.where(free, 0.0, lower))
    goal = (goal - sum1(fixed)) + rest
    anchor = tl.max(tl.where(free, x, -INF), 1, keep_dims=True)
    anchor = tl.where(anchor > -INF, anchor, 0.0)
    x = tl.where(free, x - anchor, 0.0)
    lower, upper = tl.where(free, lower, 0.0), tl.where(free, upper, 0.0)
    low = tl.min(tl.where(free, x - upper, 0.0), 1, keep_dims=True) - 1e-6
    high = tl.max(tl.where(free, x - lower, -INF), 1, keep_dims=True) + 1e-6
    high = tl.where(high > -INF, high, 1e-6)
    first = tl.minimum(tl.maximum(t + step - anchor, low), high)
    t, low, high, step = level(x, lower, upper, goal, first, low, high)
    return tl.where(free, clipped(x - t - step, lower, upper), fixed)


@triton.jit
def settled(p, top):
    """Nothing left gives zeros, NaN and ``+inf`` give NaN."""
    return tl.where(top < INF, tl.where(top > -INF, p, 0.0), float("nan"))


@triton.jit(do_not_specialize=["rows"])
def subsets(
    z_ptr,
    p_ptr,
    k_ptr,
    whole,
    rest,
    rows,
    K,
    z_stride,
    PER_ROW: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``p [rows, K]`` in [0, 1], summing to ``whole + rest`` or to one number for each row."""
    row, column, here = tile_of(rows, K, R, BLOCK)
    x = tl.load(z_ptr + row * z_stride + column, mask=here, other=-INF).to(tl.float32)
    goal = tl.zeros([R, 1], tl.float32) + whole
    over = tl.zeros([R, 1], tl.float32) + rest
    if PER_ROW:
        k = tl.load(k_ptr + row, mask=row < rows, other=0.0)
        goal = tl.floor(k)
        over = k - goal
    p = project(x, x > -INF, tl.zeros_like(x), tl.zeros_like(x) + 1.0, goal, over)
    tl.store(p_ptr + row * K + column, settled(p, largest(x)), mask=here)


@triton.jit(do_not_specialize=["rows"])
def bounded(
    z_ptr,
    p_ptr,
    lower_ptr,
    upper_ptr,
    total_ptr,
    rows,
    K,
    z_stride,
    lower_row,
    lower_column,
    upper_row,
    upper_column,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``p [rows, K]`` between bounds of any strides, summing to ``total [rows]``."""
    row, column, here = tile_of(rows, K, R, BLOCK)
    x = tl.load(z_ptr + row * z_stride + column, mask=here, other=-INF).to(tl.float32)
    lower = tl.load(lower_ptr + row * lower_row + column * lower_column, mask=here, other=0.0)
    upper = tl.load(upper_ptr + row * upper_row + column * upper_column, mask=here, other=0.0)
    total = tl.load(total_ptr + row, mask=row < rows, other=0.0)
    p = project(x, x > -INF, lower, tl.maximum(lower, tl.minimum(upper, total)), total, 0.0 * total)
    tl.store(p_ptr + row * K + column, settled(p, largest(x)), mask=here)


@triton.jit(do_not_specialize=["rows"])
def subsets_backward(p_ptr, g_ptr, out_ptr, rows, K, p_stride, g_stride, R: tl.constexpr, BLOCK: tl.constexpr):
    """``g`` measured from its mean over the entries strictly between 0 and 1, on those."""
    row, column, here = tile_of(rows, K, R, BLOCK)
    p = tl.load(p_ptr + row * p_stride + column, mask=here, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + row * g_stride + column, mask=here, other=0.0).to(tl.float32)
    free = (p > 0.0) & (p < 1.0)
    moved, count = sum2(tl.where(free, g, 0.0), free.to(tl.float32))
    out = tl.where(free, g - moved / tl.maximum(count, 1.0), 0.0)
    tl.store(out_ptr + row * K + column, out, mask=here)
