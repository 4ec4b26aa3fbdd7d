"""Entmax losses of rows too long for one program's registers, still read once in most cases.

A program reads a row a block at a time, and keeps the four largest of all entries at one position of the blocks. The
level of the kept entries is at most that of the row. If it is above all entries that were dropped, these have
probability 0, and it is the level of the row. Otherwise the row is read again for each step from there. For alpha > 2
the same holds of the threshold, from which the support and its smallest probability follow instead of a level.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.losses.triton.tile import (
    alpha_slope_terms,
    conjugate_at,
    level_bounds,
    level_step,
    level_terms,
    loss_value,
    probabilities_at,
    shift_scores,
    solve_loss_level,
    store_loss,
)
from omegamax.kernels.rows.triton.above_two import finite_exponents, smallest_step
from omegamax.kernels.rows.triton.above_two_long import find_support_by_passes, mass_of_row
from omegamax.kernels.triton.deformed import newton_curvature
from omegamax.kernels.triton.device import (
    ENTMAX15,
    ENTMAX_ABOVE_2,
    INF,
    MAX_STEPS,
    OVERSHOT,
    SOFTMAX,
    SPARSEMAX,
    any_row,
    exp,
    load_alpha,
    log_accurate,
    positive_power,
    row_max,
    row_sum,
    row_sum3,
)


@triton.jit
def load_loss_block(row_ptr, begin, K: tl.constexpr, BLOCK: tl.constexpr):
    """Load a block of a row, ``-inf`` after its end."""
    column = begin + tl.arange(0, BLOCK)[None, :]
    return tl.load(row_ptr + column, mask=column < K, other=-INF).to(tl.float32)


@triton.jit
def sort_pair(x, kept):
    """Return the larger and the smaller of two."""
    return tl.maximum(x, kept), tl.minimum(x, kept)


@triton.jit
def keep_four_largest(row_ptr, K: tl.constexpr, BLOCK: tl.constexpr):
    """Return the four largest entries at each position, ``[1, 4 BLOCK]``, the maximum of the others and that of all."""
    none = tl.full([1, BLOCK], -INF, tl.float32)
    k0, k1, k2, k3, dropped = none, none, none, none, none
    for begin in range(0, K, BLOCK):
        x = load_loss_block(row_ptr, begin, K, BLOCK)
        x0 = k0
        k0 = tl.maximum(x, k0, propagate_nan=tl.PropagateNan.ALL)
        x = tl.minimum(x, x0)
        k1, x = sort_pair(x, k1)
        k2, x = sort_pair(x, k2)
        k3, x = sort_pair(x, k3)
        dropped = tl.maximum(x, dropped)
    kept = tl.reshape(tl.join(tl.join(k0, k1), tl.join(k2, k3)), [1, 4 * BLOCK])
    return kept, tl.max(dropped, 1, keep_dims=True), row_max(k0)


@triton.jit
def online_logsumexp(row_ptr, K: tl.constexpr, BLOCK: tl.constexpr):
    """Return the maximum of a row, and log-sum-exp of the row minus it, in one pass."""
    peak = tl.full([1, BLOCK], -INF, tl.float32)
    total = tl.zeros([1, BLOCK], tl.float32)
    for begin in range(0, K, BLOCK):
        x = load_loss_block(row_ptr, begin, K, BLOCK)
        higher = tl.maximum(peak, x, propagate_nan=tl.PropagateNan.ALL)
        shift = tl.where(higher == -INF, 0.0, higher)
        total = total * exp(peak - shift) + exp(x - shift)
        peak = higher
    top = row_max(peak)
    total = row_sum(total * exp(peak - tl.where(top == -INF, 0.0, top)))
    total = tl.where(total > 0.0, total, 1.0)
    return top, log_accurate(total, total - 1.0)


@triton.jit
def support_edge(a, t, step, KIND: tl.constexpr):
    """Return the score above which probabilities are positive, slightly lowered for rounding."""
    if KIND == SPARSEMAX:
        low = t + step
    elif KIND == ENTMAX15:
        low = 2.0 * (t + step)
    else:
        e = a - 1.0
        low = tl.where(e > 0.0, t + step - 1.0 / tl.where(e > 0.0, e, 1.0), -INF)
        if KIND == ENTMAX_ABOVE_2:
            # The least probability of the support is a root of what its score is above the threshold.
            finite = (a > 2.0) & (a < INF)
            e = tl.where(finite, e, 2.0)
            low = tl.where(a > 2.0, t - tl.where(finite, positive_power(step, e) / e, 0.0), low)
    return low - 1e-6 * (1.0 + tl.abs(low))


@triton.jit
def entmax_loss_long_kernel(
    z_ptr,
    index_ptr,
    value_ptr,
    state_ptr,
    slope_ptr,
    alpha_ptr,
    alpha,
    smoothing,
    rows,
    K: tl.constexpr,
    z_stride,
    KIND: tl.constexpr,
    PER_ROW: tl.constexpr,
    SMOOTH: tl.constexpr,
    SLOPE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute what ``entmax_loss_kernel`` does, of long rows, one row for each program."""
    row = tl.program_id(0).to(tl.int64) + tl.zeros([1, 1], tl.int64)
    row_ptr = z_ptr + tl.program_id(0).to(tl.int64) * z_stride
    a = load_alpha(alpha, alpha_ptr, row, rows, PER_ROW, 1)
    if KIND == SOFTMAX:
        top, step = online_logsumexp(row_ptr, K, BLOCK)
        shift = tl.where(top == -INF, 0.0, top)
        t, power, slope = 0.0 * a, 0.0 * a, 0.0 * a
    else:
        kept, dropped, top = keep_four_largest(row_ptr, K, BLOCK)
        shift = tl.where(top == -INF, 0.0, top)
        kept = shift_scores(kept, top)
        t, step = solve_loss_level(kept, a, K, KIND)
        p, power = probabilities_at(kept, a, t, step, KIND)
        power = row_sum(power)
        slope = power
        if SLOPE:
            slope = row_sum(alpha_slope_terms(p, a))
        if any_row(dropped - shift > support_edge(a, t, step, KIND), kept):
            t, step, power, slope = solve_by_rereading(row_ptr, top, a, t, K, KIND, SLOPE, BLOCK)

    index = tl.load(index_ptr + row)
    target_score = tl.load(row_ptr + index).to(tl.float32) - shift
    if SMOOTH:
        total = tl.zeros([1, BLOCK], tl.float32)
        for begin in range(0, K, BLOCK):
            column = begin + tl.arange(0, BLOCK)[None, :]
            total += tl.where(column < K, load_loss_block(row_ptr, begin, K, BLOCK) - shift, 0.0)
        target_score = (1.0 - smoothing) * target_score + smoothing / K * row_sum(total)
    if SLOPE:
        tl.store(slope_ptr + row, slope)
    store_loss(
        value_ptr,
        state_ptr,
        row,
        rows,
        loss_value(conjugate_at(power, a, t, step, KIND), target_score, top),
        top,
        t,
        step,
    )


@triton.jit
def solve_by_rereading(
    row_ptr, top, a, t, K: tl.constexpr, KIND: tl.constexpr, SLOPE: tl.constexpr, BLOCK: tl.constexpr
):
    """Return what ``solve_loss_level`` does of all entries of a row, and the sums there, one pass for each step."""
    if KIND == ENTMAX_ABOVE_2:
        if tl.max(a) > 2.0:
            t, step = find_smallest_by_rereading(row_ptr, top, a, K, BLOCK)
        else:
            t, step = find_level_by_rereading(row_ptr, top, a, t, K, KIND, BLOCK)
    else:
        t, step = find_level_by_rereading(row_ptr, top, a, t, K, KIND, BLOCK)
    powers = tl.zeros([1, BLOCK], tl.float32)
    changes = tl.zeros([1, BLOCK], tl.float32)
    for begin in range(0, K, BLOCK):
        p, power = probabilities_at(shift_scores(load_loss_block(row_ptr, begin, K, BLOCK), top), a, t, step, KIND)
        powers += power
        if SLOPE:
            changes += alpha_slope_terms(p, a)
    return t, step, row_sum(powers), row_sum(changes)


@triton.jit
def find_level_by_rereading(row_ptr, top, a, t, K: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Return level and last step of a row, from a lower bound of the level on."""
    _, last = level_bounds(a, K, KIND)
    step = 0.0 * a
    overshot = 0.0 * a
    steps = 0
    go = True
    while go:
        s = tl.zeros([1, BLOCK], tl.float32)
        r = tl.zeros([1, BLOCK], tl.float32)
        u = tl.zeros([1, BLOCK], tl.float32)
        for begin in range(0, K, BLOCK):
            ds, dr, du = level_terms(shift_scores(load_loss_block(row_ptr, begin, K, BLOCK), top), a, t, KIND)
            s += ds
            r += dr
            u += du
        mass, slope, bend = row_sum3(s, r, u)
        overshot = tl.where(mass < OVERSHOT, 1.0, overshot)
        bend = newton_curvature(mass, slope, bend, overshot)
        step, moving = level_step(mass, slope, bend, a, t, KIND)
        t = tl.where(moving, tl.minimum(t + step, last), t)
        steps += 1
        go = any_row(moving, s) & (steps < MAX_STEPS)
    return t, step


@triton.jit
def find_smallest_by_rereading(row_ptr, top, a, K: tl.constexpr, BLOCK: tl.constexpr):
    """Return the least score and the least probability of the support of a row whose alpha is above 2."""
    # The passes are those of the maps, over blocks of three axes.
    top = tl.reshape(top, [1, 1, 1])
    e, q, out = finite_exponents(tl.reshape(a, [1, 1, 1]))
    last, t = find_support_by_passes(row_ptr, top, e, q, out, K, False, BLOCK)
    y = tl.minimum(positive_power(e * (last - t), q), 1.0)
    steps = 0
    go = True
    while go:
        mass, rise = mass_of_row(row_ptr, top, last, y, e, q, K, False, BLOCK, False)
        step, moving = smallest_step(mass, rise, y, steps)
        y = tl.where(moving, y - step, y)
        steps += 1
        go = (tl.max(moving.to(tl.int32)) > 0) & (steps < MAX_STEPS)
    mass, rise = mass_of_row(row_ptr, top, last, y, e, q, K, False, BLOCK, True)
    step, _ = smallest_step(mass, rise, y, steps)
    return tl.reshape(last, [1, 1]), tl.reshape(y - step, [1, 1])
