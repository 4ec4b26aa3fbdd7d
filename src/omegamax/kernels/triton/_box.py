"""Projections of rows onto boxes cut by a sum: ``p = clip(x - t, lower, upper)``, bounds differing between entries.

The sum falls with ``t`` along a broken line that is neither convex nor concave, so Newton's steps are kept between two
ends that close in. Where scores are large, neighbouring numbers are too far apart to hold ``t``: which entries are at a
bound follows from the ends, and the rest is solved again, measured from the largest of them. Tiles are those of
``_clip``, whose solution for the largest along ``C`` between bounds of the mean width is where to begin.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton import _clip
from omegamax.kernels.triton._clip import HALVINGS, INF, ROUNDS, between, off_lower, off_upper, rounded
from omegamax.kernels.triton._sparse import any_row, largest, total, total2


@triton.jit
def clipped(x, lower, upper):
    return tl.minimum(tl.maximum(x, lower), upper)


@triton.jit
def smallest_of(x):
    return tl.min(tl.min(x, 1, keep_dims=True), 2, keep_dims=True)


@triton.jit
def largest_of(x):
    return tl.max(tl.max(x, 1, keep_dims=True), 2, keep_dims=True)


@triton.jit
def level(x, lower, upper, goal, t, low, high):
    """``t`` from a first guess and two ends on; the ends, equal where the sum is right, and the last step."""
    step = tl.zeros_like(t)
    before = tl.zeros_like(t) + INF
    rounds = 0
    go = True
    while go:
        inside = (x - t > lower) & (x - t < upper)
        mass, free = total2(clipped(x - t, lower, upper), inside.to(tl.float32))
        off = mass - goal
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
def guess(x, there, least, most, goal, low, high):
    """Where to begin between two ends: by the largest along ``C``, as if all bounds were the mean ones."""
    count = tl.maximum(total(there.to(tl.float32)), 1.0)
    width = (most - least) / count
    need = goal - least
    groups = tl.max(x, 1, keep_dims=True)
    present = tl.sum((groups > -INF).to(tl.float32), 2, keep_dims=True)
    top = tl.max(groups, 2, keep_dims=True)
    few = (need > 0.0) & (present * width > need) & (tl.abs(top) < INF)
    bottom = tl.min(tl.where(groups > -INF, groups, top), 2, keep_dims=True) - width
    left, right = tl.where(few, bottom - 4e-7 * tl.abs(bottom), 0.0), tl.where(few, top, 0.0)
    first = tl.where(few, tl.maximum(0.5 * left + 0.5 * right, right - width), 0.0)
    nothing = tl.zeros_like(goal)
    t, step, _ = _clip.level(groups, width, need, nothing, 0.02 * need, first, left, right, nothing)
    first = tl.where(few, t + step - least / count, tl.maximum(0.5 * low + 0.5 * high, high - 1.0))
    return tl.where((first > low) & (first < high), first, 0.5 * low + 0.5 * high)


@triton.jit
def project(x, lower, upper, goal):
    """The probabilities; bounds and the sum are finite, and ``x`` is ``-inf`` where there is no entry."""
    there = x > -INF
    lower = tl.where(there, lower, 0.0)
    upper = tl.where(there, upper, 0.0)
    least, most = total2(lower, upper)
    goal = tl.minimum(tl.maximum(goal, least), most)
    low, high = smallest_of(tl.where(there, x - upper, INF)), largest_of(x - lower)
    some = high > -INF
    low, high = tl.where(some, low - 4e-7 * tl.abs(low), -1.0), tl.where(some, high + 4e-7 * tl.abs(high), 1.0)
    first = guess(x, there, least, most, goal, low, high)
    x = tl.where(there, x, 0.0)  # with bounds of 0, whatever the level
    t, low, high, step = level(x, lower, upper, goal, first, low, high)
    full = x - high >= upper
    free = there & ~full & (x - low > lower)
    fixed = tl.where(full, upper, tl.where(free, 0.0, lower))
    goal -= total(fixed)
    anchor = largest_of(tl.where(free, x, -INF))
    anchor = tl.where(anchor > -INF, anchor, 0.0)
    x = tl.where(free, x - anchor, 0.0)
    lower, upper = tl.where(free, lower, 0.0), tl.where(free, upper, 0.0)
    low = smallest_of(tl.where(free, x - upper, 0.0)) - 1e-6
    high = largest_of(tl.where(free, x - lower, -INF)) + 1e-6
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
    FLOORS: tl.constexpr,
    R: tl.constexpr,
    C: tl.constexpr,
    L: tl.constexpr,
):
    """``p [rows, K]`` between bounds of any strides, summing to ``total [rows]``; rounded as between two numbers.

    ``FLOORS``: the lower bounds are not all 0.
    """
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None, None]
    column = tl.arange(0, C)[None, :, None] * L + tl.arange(0, L)[None, None, :]
    here = (row < rows) & (column < K)
    x = tl.load(z_ptr + row * z_stride + column, mask=here, other=-INF).to(tl.float32)
    if FLOORS:
        lower = tl.load(lower_ptr + row * lower_row + column * lower_column, mask=here, other=0.0)
    else:
        lower = tl.zeros([R, C, L], tl.float32)
    upper = tl.load(upper_ptr + row * upper_row + column * upper_column, mask=here, other=0.0)
    goal = tl.load(total_ptr + row, mask=row < rows, other=0.0)
    upper = tl.maximum(lower, tl.minimum(upper, goal))
    top = largest(x)
    p = project(x, lower, upper, goal)
    ceiling, floor = rounded(upper, p_ptr), rounded(lower, p_ptr)
    inner = off_upper(off_lower(p, floor, p_ptr), ceiling, p_ptr)
    p = tl.where(p >= upper, ceiling, tl.where(p > lower, inner, floor))
    p = tl.where(x > -INF, p, 0.0)
    p = tl.where(top < INF, p, float("nan"))
    tl.store(p_ptr + row * K + column, p, mask=here)
