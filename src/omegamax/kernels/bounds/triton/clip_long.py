"""Projection onto a box cut by a sum, with bounds that all entries share, for long rows; and its vjp.

As in :mod:`omegamax.kernels.rows.triton.power_long`, a row is read once while the maxima of groups are kept. The
threshold of these maxima is a lower bound of that of the row, and only groups whose maximum is above it have entries
above the lower bound: these are listed, loaded again and solved for. Where they are too many, or their threshold is not
to be had in float32, the row is read once for each step.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.bounds.triton.clip import (
    FLOAT32_MAX,
    MAX_CLIP_STEPS,
    clip_probabilities,
    clip_step,
    round_like,
    slightly_below,
    solve_clip_threshold,
    subtract_finite,
    subtract_threshold,
)
from omegamax.kernels.triton.device import (
    INF,
    block_indices,
    load_blocks,
    max_or_nan,
    row_max,
    row_sum,
    row_sum2,
    row_sum3,
    store_tile,
)


@triton.jit(do_not_specialize=["rows"])
def clip_long_kernel(
    z_ptr,
    p_ptr,
    list_ptr,
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
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
    LIST: tl.constexpr,
):
    """Compute what ``clip_kernel`` does, one row for each program; constants are those of ``power_long`` as well."""
    row = tl.program_id(0).to(tl.int64)
    z_ptr += row * z_stride
    p_ptr += row * K
    list_ptr += row * LIST
    zero = tl.zeros([1, 1, 1], tl.float32)
    lower, upper = zero + lower, zero + upper
    goal, over = zero + integer, zero + rest
    if PER_ROW:
        k = tl.load(goal_ptr + row) + zero
        goal = tl.floor(k)
        over = k - goal
    maxima = tl.full([1, 1, BLOCK], -INF, tl.float32)
    there = tl.zeros([1, 1, BLOCK], tl.float32)
    for start in range(0, K, DEPTH * BLOCK):
        x, column = load_blocks(z_ptr, start, K, UNMASKED, DEPTH, BLOCK)
        least = tl.zeros([1, DEPTH, BLOCK], tl.float32)
        if FLOOR:
            least = tl.where(x > -INF, round_like(lower, p_ptr), 0.0)
            there += tl.sum((x > -INF).to(tl.float32), 1, keep_dims=True)
        store_tile(p_ptr, column, column < K, least, UNMASKED)
        maxima = max_or_nan(maxima, tl.reduce(x, 1, max_or_nan, keep_dims=True))
    top = row_max(maxima)
    if FLOOR:
        goal -= lower * row_sum(there)
    width = upper - lower
    slack = tl.where(width == 1.0, 0.0, 1e-7 * (integer + rest))
    present = row_sum((maxima > -INF).to(tl.float32))
    few = (tl.abs(top) < INF) & (goal + over > 0.0) & (present * width > goal + over)
    low = tl.where(few, slightly_below(tl.min(tl.where(maxima > -INF, maxima, top), 2, keep_dims=True) - width), 0.0)
    high = tl.where(few, top, 0.0)
    first = tl.where(few, tl.maximum(0.5 * low + 0.5 * high, high - width), 0.0)
    t, _, _, right = solve_clip_threshold(maxima, width, goal, over, slack, first, low, high, zero)
    candidate = maxima > t - 1e-3 * width - 1e-6 * tl.abs(t)
    found = tl.sum(candidate.to(tl.int32))
    if (found <= LIST) & (tl.max((few & right).to(tl.int32)) > 0):
        at = tl.cumsum(candidate.to(tl.int32), 2) - 1
        tl.store(list_ptr + at, tl.arange(0, BLOCK)[None, None, :], mask=candidate)
        tl.debug_barrier()  # makes the lists, and what was stored of the result, visible to other threads
        at = tl.arange(0, LIST)[None, None, :]
        column = tl.load(list_ptr + at, mask=at < found, other=K) + tl.arange(0, GROUP)[None, :, None] * BLOCK
        x = tl.load(z_ptr + column, mask=column < K, other=-INF).to(tl.float32)
        y = subtract_threshold(x, top, width, goal, over, slack)
        p = clip_probabilities(y, lower, upper, width, top, p_ptr, FLOOR)
        tl.store(p_ptr + column, p, mask=column < K)
    else:
        solve_clip_long(z_ptr, p_ptr, top, lower, upper, goal, over, slack, K, FLOOR, UNMASKED, BLOCK)


@triton.jit
def measure_from(z_ptr, start, K, first, second, UNMASKED: tl.constexpr, BLOCK: tl.constexpr):
    """Load a block of a row, measured from an anchor and then from another one, and return it with its columns."""
    x, column = load_blocks(z_ptr, start, K, UNMASKED, 1, BLOCK)
    return subtract_finite(subtract_finite(x, first), second), column


@triton.jit
def solve_clip_by_passes(
    z_ptr, K, first, second, width, goal, rest, slack, t, low, high, above, UNMASKED: tl.constexpr, BLOCK: tl.constexpr
):
    """Solve for the threshold like ``solve_clip_threshold``, with one pass over the row for each step."""
    below = -(goal + rest)
    step = tl.zeros_like(t)
    before = tl.zeros_like(t) + INF
    right = tl.zeros_like(t) > 0.0
    steps = 0
    go = True
    while go:
        inside = tl.zeros([1, 1, BLOCK], tl.float32)
        some = tl.zeros([1, 1, BLOCK], tl.float32)
        full = tl.zeros([1, 1, BLOCK], tl.float32)
        for start in range(0, K, BLOCK):
            x, _ = measure_from(z_ptr, start, K, first, second, UNMASKED, BLOCK)
            y = x - t
            inside += tl.where(y < width, tl.maximum(y, 0.0), 0.0)
            some += (y > 0.0).to(tl.float32)
            full += (y >= width).to(tl.float32)
        inside, some, full = row_sum3(inside, some, full)
        t, step, low, high, above, below, before, right, moving = clip_step(
            inside, some - full, full, t, low, high, above, below, before, steps, width, goal, rest, slack
        )
        steps += 1
        go = (tl.max(moving.to(tl.int32)) > 0) & (steps < MAX_CLIP_STEPS)
    return t, step, tl.where(right, t, high), right


@triton.jit
def solve_clip_long(
    z_ptr,
    p_ptr,
    top,
    lower,
    upper,
    goal,
    rest,
    slack,
    K,
    FLOOR: tl.constexpr,
    UNMASKED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Solve the row at ``z_ptr`` by passes over it: for a threshold, and for the rest of it measured from there."""
    width = upper - lower
    zero = tl.zeros_like(top)
    count = tl.zeros([1, 1, BLOCK], tl.float32)
    least = tl.full([1, 1, BLOCK], INF, tl.float32)
    for start in range(0, K, BLOCK):
        x, _ = load_blocks(z_ptr, start, K, UNMASKED, 1, BLOCK)
        count += (x > -INF).to(tl.float32)
        least = tl.minimum(least, tl.where(x > -INF, x, INF))
    room = width * row_sum(count)
    able = (tl.abs(top) < INF) & (goal + rest > 0.0)
    every = able & (room <= goal + rest)
    able = able & ~every
    low = tl.where(able, slightly_below(tl.min(least, 2, keep_dims=True) - width), 0.0)
    high = tl.where(able, top, 0.0)
    excess = tl.where(able, room - goal - rest, 0.0)
    part = excess / tl.maximum(room, 1e-37)
    begin = tl.where(able, tl.maximum((1.0 - part) * low + part * high, -FLOAT32_MAX), 0.0)
    _, _, first, _ = solve_clip_by_passes(
        z_ptr, K, zero, zero, width, goal, rest, slack, begin, low, high, excess, UNMASKED, BLOCK
    )
    first = tl.where(able, first, 0.0)
    below, above = tl.where(able, -1.0001 * width, 0.0), tl.where(able, top - first + width, 0.0)
    t, step, second, right = solve_clip_by_passes(
        z_ptr, K, first, zero, width, goal, rest, slack, zero, below, above, zero, UNMASKED, BLOCK
    )
    # Floats around the first anchor may be further apart than the bounds: the entries between these are at the second.
    again = able & ~right
    second = tl.where(again, second, 0.0)
    if tl.max(again.to(tl.int32)) > 0:
        above = top - first - second + width
        t, step, _, _ = solve_clip_by_passes(
            z_ptr, K, first, second, width, goal, rest, slack, zero, below, above, zero, UNMASKED, BLOCK
        )
    far = tl.where(every, FLOAT32_MAX, -FLOAT32_MAX)
    for start in range(0, K, BLOCK):
        x, column = measure_from(z_ptr, start, K, first, second, UNMASKED, BLOCK)
        y = tl.where(able, subtract_finite(x, t + step), tl.where(x > -INF, far, x))
        p = clip_probabilities(y, lower, upper, width, top, p_ptr, FLOOR)
        store_tile(p_ptr, column, column < K, p, UNMASKED)


@triton.jit(do_not_specialize=["rows"])
def clip_vjp_long_kernel(p_ptr, g_ptr, out_ptr, lower, upper, rows, K, p_stride, g_stride, BLOCK: tl.constexpr):
    """Compute what ``clip_vjp_kernel`` does for scalar bounds, one long row for each program."""
    row = tl.program_id(0).to(tl.int64)
    p_ptr += row * p_stride
    g_ptr += row * g_stride
    out_ptr += row * K
    zero = tl.zeros([1, 1], tl.float32)
    low, high = round_like(zero + lower, p_ptr), round_like(zero + upper, p_ptr)
    moved = tl.zeros([1, BLOCK], tl.float32)
    count = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        column, mask = block_indices(start, K, BLOCK)
        p = tl.load(p_ptr + column, mask=mask, other=0.0).to(tl.float32)
        free = (p > 0.0) & (p != low) & (p != high)
        moved += tl.load(g_ptr + column, mask=free, other=0.0).to(tl.float32)
        count += free.to(tl.float32)
    moved, count = row_sum2(moved, count)
    mean = moved / tl.maximum(count, 1.0)
    for start in range(0, K, BLOCK):
        column, mask = block_indices(start, K, BLOCK)
        p = tl.load(p_ptr + column, mask=mask, other=0.0).to(tl.float32)
        free = (p > 0.0) & (p != low) & (p != high)
        g = tl.load(g_ptr + column, mask=free, other=0.0).to(tl.float32)
        tl.store(out_ptr + column, tl.where(free, g - mean, 0.0), mask=mask)
