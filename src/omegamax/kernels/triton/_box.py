"""Projections of rows onto boxes cut by a sum: ``p = clip(x - t, lower, upper)`` with ``sum p = goal``.

The sum falls with ``t`` along a broken line that is neither convex nor concave, so Newton's steps are kept between two
ends that close in. Where scores are large, neighbouring numbers are too far apart to hold ``t``: which entries are at a
bound follows from the ends, and the rest is solved again, measured from the largest of them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton._clip import HALVINGS, INF, ROUNDS, between, off_lower, off_upper, rounded
from omegamax.kernels.triton._numbers import any_row, largest, sum1, sum2
from omegamax.kernels.triton._simplex import tile_of


@triton.jit
def clipped(x, lower, upper):
    return tl.minimum(tl.maximum(x, lower), upper)


@triton.jit
def level(x, lower, upper, goal, t, low, high):
    """``t`` from a first guess and two ends on; the ends, equal where the sum is right, and the last step."""
    step = tl.zeros_like(t)
    before = tl.zeros_like(t) + INF
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
        # Newton's steps while they halve what is missing; else half the way, later half of the numbers on it, by which
        # each of them is met if need be.
        near = 0.5 * low + 0.5 * high
        following = tl.where((near > low) & (near < high) & (rounds < HALVINGS), near, between(low, high))
        newton = t + step
        sound = (free > 0.0) & (newton > low) & (newton < high) & (tl.abs(off) < 0.5 * before)
        following = tl.where(sound, newton, following)
        before = tl.where(sound, tl.abs(off), INF)
        moving = (following > low) & (following < high)
        t = tl.where(moving, following, t)
        rounds += 1
        go = any_row(moving, x) & (rounds < ROUNDS)
    return t, low, high, step


@triton.jit
def project(x, there, lower, upper, goal):
    """The probabilities of the entries that are ``there``; bounds and the sum are finite."""
    lower = tl.where(there, lower, 0.0)
    upper = tl.where(there, upper, 0.0)
    least, most = sum2(lower, upper)
    goal = tl.minimum(tl.maximum(goal, least), most)
    low = tl.min(tl.where(there, x - upper, INF), 1, keep_dims=True)
    high = tl.max(tl.where(there, x - lower, -INF), 1, keep_dims=True)
    some = high > -INF
    low, high = tl.where(some, low - 4e-7 * tl.abs(low), -1.0), tl.where(some, high + 4e-7 * tl.abs(high), 1.0)
    x = tl.where(there, x, 0.0)  # with bounds of 0, whatever the level
    first = tl.maximum(0.5 * low + 0.5 * high, high - 1.0)
    t, low, high, step = level(x, lower, upper, goal, first, low, high)
    full = x - high >= upper
    free = there & ~full & (x - low > lower)
    fixed = tl.where(full, upper, tl.where(free, 0.0, lower))
    goal -= sum1(fixed)
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
    """``p [rows, K]`` between bounds of any strides, summing to ``total [rows]``; rounded as between two numbers."""
    row, column, here = tile_of(rows, K, R, BLOCK)
    x = tl.load(z_ptr + row * z_stride + column, mask=here, other=-INF).to(tl.float32)
    lower = tl.load(lower_ptr + row * lower_row + column * lower_column, mask=here, other=0.0)
    upper = tl.load(upper_ptr + row * upper_row + column * upper_column, mask=here, other=0.0)
    total = tl.load(total_ptr + row, mask=row < rows, other=0.0)
    upper = tl.maximum(lower, tl.minimum(upper, total))
    p = project(x, x > -INF, lower, upper, total)
    ceiling, floor = rounded(upper, p_ptr), rounded(lower, p_ptr)
    inner = off_upper(off_lower(p, floor, p_ptr), ceiling, p_ptr)
    p = tl.where(p >= upper, ceiling, tl.where(p > lower, inner, floor))
    p = tl.where(x > -INF, p, 0.0)
    top = largest(x)
    p = tl.where(top < INF, tl.where(top > -INF, p, 0.0), float("nan"))
    tl.store(p_ptr + row * K + column, p, mask=here)
