"""Projection onto a box cut by a sum, with bounds that all entries share: ``p = clip(x - t, lower, upper)``.

Measured from the lower bound this is ``x - t`` clipped to ``[0, width]``, whose sum is a piecewise linear, decreasing
function of the threshold ``t``. Rows are folded tiles, solved for the maxima along ``C`` first: they are few, hold most
of what is above 0, and their threshold is never above that of all entries. Then all scores are measured from it, the
anchor, so that however large they are, what is left to find is a small number.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.device import (
    INF,
    any_row,
    folded_tile_indices,
    load_tile,
    row_max,
    row_sum,
    row_sum3,
    store_tile,
)

FLOAT32_MAX = tl.constexpr(3.4028234663852886e38)
MAX_VALUE_BISECTIONS = tl.constexpr(24)  # steps after which the interval is bisected in ulps rather than in value
MAX_CLIP_STEPS = tl.constexpr(96)  # enough to bisect all floats after the steps by value


@triton.jit
def ordered_bits(x):
    """Return the integers whose order is that of the floats ``x``; their own inverse on the bits."""
    bits = x.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def bisect_floats(low, high):
    """Return the float in the middle of those between ``low`` and ``high`` (bisection in ulps), or ``low``."""
    a, b = ordered_bits(low), ordered_bits(high)
    middle = (a >> 1) + (b >> 1) + (a & b & 1)
    return (middle ^ ((middle >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def subtract_finite(x, t):
    """Subtract ``t`` from the scores of a row such that finite ones stay finite: -inf means that there is no entry."""
    return tl.where(x > -INF, tl.maximum(x - t, -FLOAT32_MAX), x)


@triton.jit
def clip_sums(x, t, width):
    """Return sum and count of the entries of ``x - t`` between 0 and ``width``, and how many are at ``width``."""
    y = x - t
    some = (y > 0.0).to(tl.float32)
    full = (y >= width).to(tl.float32)
    inside, some, full = row_sum3(tl.where(y < width, tl.maximum(y, 0.0), 0.0), some, full)
    return inside, some - full, full


@triton.jit
def next_threshold(t, step, off, free, before, right, low, high, near, steps):
    """Return the next threshold inside the bracket ``(low, high)``, the error ``before`` it, and which rows move.

    Newton's step is taken while the error of the sum halves; else the point ``near``, and after many steps bisection in
    ulps, which reaches every float if need be.
    """
    other = tl.where((near > low) & (near < high) & (steps < MAX_VALUE_BISECTIONS), near, bisect_floats(low, high))
    newton = t + step
    trusted = (free > 0.0) & (newton > low) & (newton < high) & (tl.abs(off) < 0.5 * before)
    other = tl.where(trusted, newton, other)
    before = tl.where(trusted, tl.abs(off), INF)
    moving = (other > low) & (other < high) & ~right
    return tl.where(moving, other, t), before, moving


@triton.jit
def clip_step(inside, free, full, t, low, high, above, below, before, steps, width, goal, rest, slack):
    """Move a threshold by what the sums at it say; return it and all that the next step needs.

    That is the threshold, the last step, the bracket, the excess of the sum at both its ends, the error ``before`` it,
    whether it is right, and which rows move.
    """
    off = inside + ((full * width - goal) - rest)
    step = tl.where(free > 0.0, off / tl.maximum(free, 1.0), 0.0)
    right = tl.abs(off) <= 4e-7 * tl.maximum(inside, width) + slack
    too_large = off >= 0.0
    low, above = tl.where(too_large, t, low), tl.where(too_large, off, above)
    high, below = tl.where(too_large, high, t), tl.where(too_large, below, off)
    part = tl.where(above > 0.0, above / tl.maximum(above - below, 1e-37), 0.5)
    part = tl.minimum(tl.maximum(part, 0.1), 0.9)
    near = (1.0 - part) * low + part * high
    t, before, moving = next_threshold(t, step, off, free, before, right, low, high, near, steps)
    return t, step, low, high, above, below, before, right, moving


@triton.jit
def solve_clip_threshold(x, width, goal, rest, slack, t, low, high, above):
    """Solve for the threshold from ``t`` on in a bracket; return it, the last step, the upper end, and if it is right.

    ``above`` is the excess of the sum at ``low``, 0 if that is not known: where Newton's step is not taken, the secant
    between the ends is.
    """
    below = -(goal + rest)
    step = tl.zeros_like(t)
    before = tl.zeros_like(t) + INF
    right = tl.zeros_like(t) > 0.0
    steps = 0
    go = True
    while go:
        inside, free, full = clip_sums(x, t, width)
        t, step, low, high, above, below, before, right, moving = clip_step(
            inside, free, full, t, low, high, above, below, before, steps, width, goal, rest, slack
        )
        steps += 1
        go = any_row(moving, x) & (steps < MAX_CLIP_STEPS)
    return t, step, tl.where(right, t, high), right


@triton.jit
def slightly_below(least):
    """Return a number slightly below ``least``; -inf below the least finite one."""
    return least - 4e-7 * tl.abs(least)


@triton.jit
def subtract_threshold(x, top, width, goal, rest, slack):
    """Return ``x - t`` at the solution, for rows of finite maxima ``top``; +-FLOAT32_MAX where all are at a bound.

    The sum to reach is ``goal + rest``, an integer and a fraction: most of a large sum may be entries at a bound of 1,
    whose count is exact.
    """
    zero = tl.zeros_like(top)
    groups = tl.max(x, 1, keep_dims=True)
    present = tl.sum((groups > -INF).to(tl.float32), 2, keep_dims=True)
    able = (tl.abs(top) < INF) & (goal + rest > 0.0)
    few = able & (present * width > goal + rest)  # rows whose maxima along C alone reach the goal
    least = tl.min(tl.where(groups > -INF, groups, top), 2, keep_dims=True) - width
    low, high = tl.where(few, slightly_below(least), 0.0), tl.where(few, top, 0.0)
    first = tl.where(few, tl.maximum(0.5 * low + 0.5 * high, high - width), 0.0)
    _, _, anchor, _ = solve_clip_threshold(groups, width, goal, rest, slack, first, low, high, zero)
    # A width below the anchor the sum is large enough, also where floats around the anchor are further apart than the
    # width: the entries between the bounds are then at the anchor.
    low, high = tl.where(few, -1.0001 * width, 0.0), tl.where(few, top - anchor + width, 0.0)
    first, excess = zero, zero
    every = zero > 0.0
    many = able & ~few
    if any_row(many, x):
        there = x > -INF
        room = width * row_sum(there.to(tl.float32))
        every = many & (room <= goal + rest)
        many = many & ~every
        able = able & ~every
        least = tl.min(tl.min(tl.where(there, x, top), 1, keep_dims=True), 2, keep_dims=True) - width
        low = tl.where(many, slightly_below(least), low)
        high = tl.where(many, top, high)
        excess = tl.where(many, room - goal - rest, 0.0)
        part = excess / tl.maximum(room, 1e-37)
        first = tl.where(many, tl.maximum((1.0 - part) * low + part * high, -FLOAT32_MAX), 0.0)
    t, step = zero, zero
    again = able
    go = True
    while go:
        x = subtract_finite(x, anchor)
        top -= anchor
        t, step, anchor, right = solve_clip_threshold(x, width, goal, rest, slack, first, low, high, excess)
        # Where there was no anchor yet, that was to find one. And where no float in the bracket is right, because
        # floats are further apart than the bounds, the entries between these are at its upper end: solve again from it.
        again = again & (many | ~right)
        go = any_row(again, x)
        anchor = tl.where(again, anchor, 0.0)
        low, high = tl.where(again, -1.0001 * width, low), tl.where(again, top - anchor + width, high)
        first, excess = tl.where(again, 0.0, t), tl.where(again, 0.0, excess)
        again = again & many
        many = zero > 0.0
    far = tl.where(every, FLOAT32_MAX, -FLOAT32_MAX)
    return tl.where(able, subtract_finite(x, t + step), tl.where(x > -INF, far, x))


@triton.jit
def adjacent_float(x, like, UP: tl.constexpr):
    """Return the float next above or below ``x >= 0`` in the precision of the tensor at ``like``, which holds ``x``."""
    one: tl.constexpr = 1 << (23 - like.dtype.element_ty.fp_mantissa_width)
    bits = x.to(tl.int32, bitcast=True)
    if UP:
        return (bits + one).to(tl.float32, bitcast=True)
    return (tl.maximum(bits, one) - one).to(tl.float32, bitcast=True)


@triton.jit
def round_like(x, like):
    """Return ``x`` rounded to the precision of the tensor at ``like``."""
    return x.to(like.dtype.element_ty).to(tl.float32)


@triton.jit
def keep_off_upper(p, bound, like):
    """Return ``p`` below a bound, moved so that rounding it for ``like`` does not make it equal to the bound."""
    return tl.where(p > bound, adjacent_float(bound, like, True), tl.minimum(p, adjacent_float(bound, like, False)))


@triton.jit
def keep_off_lower(p, bound, like):
    """Return ``p`` above a bound, moved so that rounding it for ``like`` does not make it equal to the bound."""
    return tl.where(p < bound, adjacent_float(bound, like, False), tl.maximum(p, adjacent_float(bound, like, True)))


@triton.jit
def clip_probabilities(y, lower, upper, width, top, p_ptr, FLOOR: tl.constexpr):
    """Return probabilities, as they are stored at ``p_ptr``, of scores ``y`` measured from the threshold."""
    if p_ptr.dtype.element_ty == tl.float32 and not FLOOR:
        p = tl.minimum(tl.maximum(y, 0.0), upper)  # at full precision nothing is rounded to a bound
    else:
        ceiling = round_like(upper, p_ptr)
        p = keep_off_upper(tl.maximum(lower + y, 0.0), ceiling, p_ptr)
        if FLOOR:
            floor = round_like(lower, p_ptr)
            p = tl.where(y > 0.0, keep_off_lower(p, floor, p_ptr), tl.where(y > -INF, floor, 0.0))
        p = tl.where(y >= width, ceiling, p)
    return tl.where(top < INF, p, float("nan"))


@triton.jit(do_not_specialize=["rows"])
def clip_kernel(
    z_ptr,
    p_ptr,
    goal_ptr,
    lower,
    upper,
    integer,
    rest,
    rows,
    K,
    z_stride,
    PER_ROW: tl.constexpr,
    FLOOR: tl.constexpr,
    UNMASKED: tl.constexpr,
    R: tl.constexpr,
    C: tl.constexpr,
    L: tl.constexpr,
):
    """Compute ``p [rows, K]`` between two scalars, summing to ``integer + rest``, or to ``goal [rows]``.

    ``FLOOR``: the lower bound is not 0. Entries between the bounds are not rounded to one of them, so that a gradient
    can tell which are at a bound.
    """
    row, column, mask = folded_tile_indices(rows, K, R, C, L)
    x = load_tile(z_ptr + row * z_stride, column, mask, -INF, UNMASKED)
    zero = tl.zeros([R, 1, 1], tl.float32)
    lower, upper = zero + lower, zero + upper
    goal, over = zero + integer, zero + rest
    if PER_ROW:
        k = tl.load(goal_ptr + row, mask=row < rows, other=0.0)
        goal = tl.floor(k)
        over = k - goal
    top = row_max(x)
    if FLOOR:
        goal -= lower * row_sum((x > -INF).to(tl.float32))
    width = upper - lower
    # Sums of ones are exact, others are rounded.
    slack = tl.where(width == 1.0, 0.0, 1e-7 * (integer + rest))
    y = subtract_threshold(x, top, width, goal, over, slack)
    p = clip_probabilities(y, lower, upper, width, top, p_ptr, FLOOR)
    store_tile(p_ptr + row * K, column, mask, p, UNMASKED)
