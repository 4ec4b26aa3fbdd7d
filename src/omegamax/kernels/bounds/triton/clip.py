"""Rows between two bounds that all entries share: ``p = clip(x - t, lower, upper)``, summing to a goal.

Measured from the lower bound this is ``x - t`` cut to ``[0, width]``, whose sum falls with ``t`` along a broken line. A
tile ``[R, C, L]`` holds ``R`` rows of ``C L`` entries, and a thread has entries with all numbers along ``C``. The
largest along ``C`` are solved first: they are few, hold most of what is above 0, and their threshold is never above
that of all. Then all are measured from it, so that however large scores are, what is left to find is a small number.
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

FLOAT32_MAX = tl.constexpr(3.4028234663852886e38)  # of the finite numbers of float32
MAX_VALUE_BISECTIONS = tl.constexpr(
    24
)  # rounds before the numbers between two ends are halved, rather than the way between them
MAX_CLIP_STEPS = tl.constexpr(96)


@triton.jit
def ordered_bits(x):
    """Floats as integers in the same order, and back."""
    bits = x.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def bisect_floats(low, high):
    """The number half-way from ``low`` to ``high`` among all that float32 has; ``low`` if there is none."""
    a, b = ordered_bits(low), ordered_bits(high)
    middle = (a >> 1) + (b >> 1) + (a & b & 1)
    return (middle ^ ((middle >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def subtract_finite(x, t):
    """Subtract ``t`` from the scores of a row; finite ones stay finite, as -inf means that there is no entry."""
    return tl.where(x > -INF, tl.maximum(x - t, -FLOAT32_MAX), x)


@triton.jit
def clip_sums(x, t, width):
    """Sum of the entries between 0 and ``width``, how many they are, and how many are at ``width``."""
    y = x - t
    some = (y > 0.0).to(tl.float32)
    full = (y >= width).to(tl.float32)
    inside, some, full = row_sum3(tl.where(y < width, tl.maximum(y, 0.0), 0.0), some, full)
    return inside, some - full, full


@triton.jit
def next_threshold(t, step, off, free, before, right, low, high, near, rounds):
    """The next ``t`` between two ends, by how much the sum will have been off ``before`` it, and who moves.

    Newton's steps are taken while they halve what is missing; else the number ``near``, and after many rounds the one
    half-way among all numbers, by which each of them is met if need be.
    """
    other = tl.where((near > low) & (near < high) & (rounds < MAX_VALUE_BISECTIONS), near, bisect_floats(low, high))
    newton = t + step
    sound = (free > 0.0) & (newton > low) & (newton < high) & (tl.abs(off) < 0.5 * before)
    other = tl.where(sound, newton, other)
    before = tl.where(sound, tl.abs(off), INF)
    moving = (other > low) & (other < high) & ~right
    return tl.where(moving, other, t), before, moving


@triton.jit
def solve_clip_threshold(x, width, goal, rest, slack, t, low, high, above):
    """Find the threshold from ``t`` on between two ends; return it, the last step, the upper end, and if it is right.

    ``above`` is by how much the sum at ``low`` is too large, 0 if that is not known: beside Newton's steps there is the
    chord between the ends.
    """
    below = -(goal + rest)
    step = tl.zeros_like(t)
    before = tl.zeros_like(t) + INF
    right = tl.zeros_like(t) > 0.0
    rounds = 0
    go = True
    while go:
        inside, free, full = clip_sums(x, t, width)
        off = inside + ((full * width - goal) - rest)
        step = tl.where(free > 0.0, off / tl.maximum(free, 1.0), 0.0)
        right = tl.abs(off) <= 4e-7 * tl.maximum(inside, width) + slack
        heavy = off >= 0.0
        low, above = tl.where(heavy, t, low), tl.where(heavy, off, above)
        high, below = tl.where(heavy, high, t), tl.where(heavy, below, off)
        part = tl.where(above > 0.0, above / tl.maximum(above - below, 1e-37), 0.5)
        part = tl.minimum(tl.maximum(part, 0.1), 0.9)
        near = (1.0 - part) * low + part * high
        t, before, moving = next_threshold(t, step, off, free, before, right, low, high, near, rounds)
        rounds += 1
        go = any_row(moving, x) & (rounds < MAX_CLIP_STEPS)
    return t, step, tl.where(right, t, high), right


@triton.jit
def slightly_below(least):
    """Return a number a little below ``least``, which is -inf below the least of the finite ones."""
    return least - 4e-7 * tl.abs(least)


@triton.jit
def subtract_threshold(x, top, width, goal, rest, slack):
    """Measure ``x`` from its threshold, for rows of finite maxima ``top``; far from it if all are at a bound.

    The goal is ``goal + rest``, whole numbers and what is beyond them, as most of a large sum may be at a bound of 1.
    """
    nothing = tl.zeros_like(top)
    groups = tl.max(x, 1, keep_dims=True)
    present = tl.sum((groups > -INF).to(tl.float32), 2, keep_dims=True)
    able = (tl.abs(top) < INF) & (goal + rest > 0.0)
    few = able & (present * width > goal + rest)  # groups whose largest alone reach the goal
    least = tl.min(tl.where(groups > -INF, groups, top), 2, keep_dims=True) - width
    low, high = tl.where(few, slightly_below(least), 0.0), tl.where(few, top, 0.0)
    first = tl.where(few, tl.maximum(0.5 * low + 0.5 * high, high - width), 0.0)
    _, _, anchor, _ = solve_clip_threshold(groups, width, goal, rest, slack, first, low, high, nothing)
    # The sum is not too small a width below, also where numbers around the anchor are further apart than that: what is
    # at no bound then is at the anchor.
    low, high = tl.where(few, -1.0001 * width, 0.0), tl.where(few, top - anchor + width, 0.0)
    first, heavy = nothing, nothing
    every = nothing > 0.0
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
        heavy = tl.where(many, room - goal - rest, 0.0)
        part = heavy / tl.maximum(room, 1e-37)
        first = tl.where(many, tl.maximum((1.0 - part) * low + part * high, -FLOAT32_MAX), 0.0)
    t, step = nothing, nothing
    again = able
    go = True
    while go:
        x = subtract_finite(x, anchor)
        top -= anchor
        t, step, anchor, right = solve_clip_threshold(x, width, goal, rest, slack, first, low, high, heavy)
        # Where there was no anchor yet, that was to find one. And where no number between the ends is right, because
        # numbers there are further apart than the bounds, what is at no bound is at the upper end: once more from it.
        again = again & (many | ~right)
        go = any_row(again, x)
        anchor = tl.where(again, anchor, 0.0)
        low, high = tl.where(again, -1.0001 * width, low), tl.where(again, top - anchor + width, high)
        first, heavy = tl.where(again, 0.0, t), tl.where(again, 0.0, heavy)
        again = again & many
        many = nothing > 0.0
    far = tl.where(every, FLOAT32_MAX, -FLOAT32_MAX)
    return tl.where(able, subtract_finite(x, t + step), tl.where(x > -INF, far, x))


@triton.jit
def adjacent_float(x, like, UP: tl.constexpr):
    """The next number above or below ``x >= 0`` that a tensor ``like`` this holds, as it does ``x``."""
    one: tl.constexpr = 1 << (23 - like.dtype.element_ty.fp_mantissa_width)
    bits = x.to(tl.int32, bitcast=True)
    if UP:
        return (bits + one).to(tl.float32, bitcast=True)
    return (tl.maximum(bits, one) - one).to(tl.float32, bitcast=True)


@triton.jit
def round_like(x, like):
    """``x`` as a tensor ``like`` this holds it."""
    return x.to(like.dtype.element_ty).to(tl.float32)


@triton.jit
def keep_off_upper(p, bound, like):
    """``p`` such that a tensor ``like`` this does not hold it as a ``bound``, itself rounded, that it is below."""
    return tl.where(p > bound, adjacent_float(bound, like, True), tl.minimum(p, adjacent_float(bound, like, False)))


@triton.jit
def keep_off_lower(p, bound, like):
    """The same of a bound that it is above."""
    return tl.where(p < bound, adjacent_float(bound, like, False), tl.maximum(p, adjacent_float(bound, like, True)))


@triton.jit(do_not_specialize=["rows"])
def clip_kernel(
    z_ptr,
    p_ptr,
    goal_ptr,
    lower,
    upper,
    whole,
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
    """``p [rows, K]`` between two numbers, summing to ``whole + rest`` or to one number for each row.

    ``FLOOR``: the lower bound is not 0. Entries between the bounds are not rounded to one of them, so that a gradient
    can tell which are at a bound.
    """
    row, column, here = folded_tile_indices(rows, K, R, C, L)
    x = load_tile(z_ptr + row * z_stride, column, here, -INF, UNMASKED)
    nothing = tl.zeros([R, 1, 1], tl.float32)
    lower, upper = nothing + lower, nothing + upper
    goal, over = nothing + whole, nothing + rest
    if PER_ROW:
        k = tl.load(goal_ptr + row, mask=row < rows, other=0.0)
        goal = tl.floor(k)
        over = k - goal
    top = row_max(x)
    if FLOOR:
        goal -= lower * row_sum((x > -INF).to(tl.float32))
    width = upper - lower
    # Sums of ones are exact, of other numbers rounded.
    slack = tl.where(width == 1.0, 0.0, 1e-7 * (whole + rest))
    y = subtract_threshold(x, top, width, goal, over, slack)
    if p_ptr.dtype.element_ty == tl.float32 and not FLOOR:
        p = tl.minimum(tl.maximum(y, 0.0), upper)  # nothing is rounded
    else:
        ceiling = round_like(upper, p_ptr)
        p = keep_off_upper(tl.maximum(lower + y, 0.0), ceiling, p_ptr)
        if FLOOR:
            floor = round_like(lower, p_ptr)
            p = tl.where(y > 0.0, keep_off_lower(p, floor, p_ptr), tl.where(y > -INF, floor, 0.0))
        p = tl.where(y >= width, ceiling, p)
    p = tl.where(top < INF, p, float("nan"))
    store_tile(p_ptr + row * K, column, here, p, UNMASKED)
