"""Projection onto a box cut by a sum, with bounds for each entry: ``p = clip(x - t, lower, upper)``; and its vjp.

The sum is a piecewise linear function of ``t``, neither convex nor concave, so Newton's steps are kept in a shrinking
bracket. Where scores are large, neighbouring floats are too far apart to hold ``t``: all scores are measured from it,
and the rest of it is solved for again. The search begins at the solution of ``clip`` for the maxima along ``C`` with
bounds of mean width. In the vjp, bounds are scalars or tensors of any strides, and a probability at a bound is equal to
it, rounded as probabilities are.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.bounds.triton.clip import (
    MAX_CLIP_STEPS,
    keep_off_lower,
    keep_off_upper,
    next_threshold,
    round_like,
    solve_clip_threshold,
)
from omegamax.kernels.triton.device import (
    INF,
    any_row,
    folded_tile_indices,
    load_tile,
    row_max,
    row_sum,
    row_sum2,
    store_tile,
    tile_indices,
)


@triton.jit
def clip(x, lower, upper):
    """Return ``x`` clipped to its bounds."""
    return tl.minimum(tl.maximum(x, lower), upper)


@triton.jit
def tile_min(x):
    """Return the minimum of each row of a folded tile."""
    return tl.min(tl.min(x, 1, keep_dims=True), 2, keep_dims=True)


@triton.jit
def tile_max(x):
    """Return the maximum of each row of a folded tile, ignoring NaN."""
    return tl.max(tl.max(x, 1, keep_dims=True), 2, keep_dims=True)


@triton.jit
def solve_box_threshold(x, lower, upper, goal, t, low, high):
    """Solve for the threshold from ``t`` on in a bracket; return it, the last step, and the upper end if none is right.

    The goal is the sum of what is above the lower bounds, since adding many of these would round the sum.
    """
    step = tl.zeros_like(t)
    before = tl.zeros_like(t) + INF
    right = tl.zeros_like(t) > 0.0
    steps = 0
    go = True
    while go:
        y = x - t
        inside = (y > lower) & (y < upper)
        mass, free = row_sum2(clip(y, lower, upper) - lower, inside.to(tl.float32))
        off = mass - goal
        right = tl.abs(off) <= 2e-7 * tl.maximum(goal, 1.0)
        step = tl.where(free > 0.0, off / tl.maximum(free, 1.0), 0.0)
        low = tl.where(off >= 0.0, t, low)
        high = tl.where(off < 0.0, t, high)
        near = 0.5 * low + 0.5 * high
        t, before, moving = next_threshold(t, step, off, free, before, right, low, high, near, steps)
        steps += 1
        go = any_row(moving, x) & (steps < MAX_CLIP_STEPS)
    return t, step, tl.where(right, t, high)


@triton.jit
def first_box_threshold(x, there, least, room, need, low, high):
    """Return a first threshold in a bracket: that of the maxima along ``C``, as if all bounds were the mean ones."""
    count = tl.maximum(row_sum(there.to(tl.float32)), 1.0)
    width = room / count
    groups = tl.max(x, 1, keep_dims=True)
    present = tl.sum((groups > -INF).to(tl.float32), 2, keep_dims=True)
    top = tl.max(groups, 2, keep_dims=True)
    few = (need > 0.0) & (present * width > need) & (tl.abs(top) < INF)
    bottom = tl.min(tl.where(groups > -INF, groups, top), 2, keep_dims=True) - width
    left, right = tl.where(few, bottom - 4e-7 * tl.abs(bottom), 0.0), tl.where(few, top, 0.0)
    first = tl.where(few, tl.maximum(0.5 * left + 0.5 * right, right - width), 0.0)
    nothing = tl.zeros_like(need)
    t, step, _, _ = solve_clip_threshold(groups, width, need, nothing, 0.02 * need, first, left, right, nothing)
    first = tl.where(few, t + step - least / count, tl.maximum(0.5 * low + 0.5 * high, high - 1.0))
    return tl.where((first > low) & (first < high), first, 0.5 * low + 0.5 * high)


@triton.jit
def box_probabilities(x, lower, upper, goal):
    """Return the probabilities; bounds and sum are finite, and ``x`` is ``-inf`` where there is no entry."""
    there = x > -INF
    lower = tl.where(there, lower, 0.0)
    upper = tl.where(there, upper, 0.0)
    least, room = row_sum2(lower, upper - lower)
    reach = 1.0001 * (goal + least) + 1e-6
    goal = tl.minimum(tl.maximum(goal - least, 0.0), room)
    low, high = tile_min(tl.where(there, x - upper, INF)), tile_max(x - lower)
    some = high > -INF
    low, high = tl.where(some, low - 4e-7 * tl.abs(low), -1.0), tl.where(some, high + 4e-7 * tl.abs(high), 1.0)
    first = first_box_threshold(x, there, least, room, goal, low, high)
    x = tl.where(there, x, 0.0)  # with bounds of 0, whatever the threshold
    anchor = tl.zeros_like(first)
    t, step = anchor, anchor
    again = 2
    while again > 0:
        x -= anchor
        t, step, anchor = solve_box_threshold(x, lower, upper, goal, first, low, high)
        # Measured from it, entries between the bounds are at most as large as the sum.
        first, low, high = tl.zeros_like(first), -reach, reach
        again -= 1
    return clip(x - (t + step), lower, upper)


@triton.jit(do_not_specialize=["rows"])
def box_kernel(
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
    UNMASKED: tl.constexpr,
    R: tl.constexpr,
    C: tl.constexpr,
    L: tl.constexpr,
):
    """Compute ``p [rows, K]`` between bounds of any strides, summing to ``total [rows]``; rounded as in ``clip``.

    ``FLOORS``: the lower bounds are not all 0.
    """
    row, column, mask = folded_tile_indices(rows, K, R, C, L)
    lower = tl.zeros([R, C, L], tl.float32)
    x = load_tile(z_ptr + row * z_stride, column, mask, -INF, UNMASKED)
    upper = load_tile(upper_ptr + row * upper_row, column * upper_column, mask, 0.0, UNMASKED)
    if FLOORS:
        lower = load_tile(lower_ptr + row * lower_row, column * lower_column, mask, 0.0, UNMASKED)
    goal = tl.load(total_ptr + row, mask=row < rows, other=0.0)
    upper = tl.maximum(lower, tl.minimum(upper, goal))
    top = row_max(x)
    p = box_probabilities(x, lower, upper, goal)
    ceiling, floor = round_like(upper, p_ptr), round_like(lower, p_ptr)
    inner = keep_off_upper(keep_off_lower(p, floor, p_ptr), ceiling, p_ptr)
    p = tl.where(p >= upper, ceiling, tl.where(p > lower, inner, floor))
    p = tl.where(x > -INF, p, 0.0)
    p = tl.where(top < INF, p, float("nan"))
    store_tile(p_ptr + row * K, column, mask, p, UNMASKED)


@triton.jit
def load_bound(scalar, ptr, offset, mask, like, GIVEN: tl.constexpr):
    """Return a scalar bound, or where ``GIVEN`` one for each entry, rounded as the probabilities at ``like``."""
    if GIVEN:
        bound = tl.load(ptr + offset, mask=mask, other=0.0)
    else:
        bound = tl.zeros([1, 1], tl.float32) + scalar
    return round_like(bound, like)


@triton.jit(do_not_specialize=["rows"])
def clip_vjp_kernel(
    p_ptr,
    g_ptr,
    out_ptr,
    lower_ptr,
    upper_ptr,
    lower,
    upper,
    rows,
    K,
    p_stride,
    g_stride,
    lower_row,
    lower_column,
    upper_row,
    upper_column,
    GIVEN: tl.constexpr,
    UNMASKED: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``g`` minus its mean over the entries between the bounds, on those; 0 elsewhere."""
    row, column, mask = tile_indices(rows, K, R, BLOCK)
    p = load_tile(p_ptr + row * p_stride, column, mask, 0.0, UNMASKED)
    g = load_tile(g_ptr + row * g_stride, column, mask, 0.0, UNMASKED)
    low = load_bound(lower, lower_ptr, row * lower_row + column * lower_column, mask, p_ptr, GIVEN)
    high = load_bound(upper, upper_ptr, row * upper_row + column * upper_column, mask, p_ptr, GIVEN)
    free = (p > 0.0) & (p != low) & (p != high)
    moved, count = row_sum2(tl.where(free, g, 0.0), free.to(tl.float32))
    out = tl.where(free, g - moved / tl.maximum(count, 1.0), 0.0)
    store_tile(out_ptr + row * K, column, mask, out, UNMASKED)
