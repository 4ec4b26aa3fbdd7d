"""Weights of the rows made to sum to one, and which points have any: what the rows of a batch share."""

from __future__ import annotations

import triton
import triton.language as tl

TINY = tl.constexpr(2.2250738585072014e-308)  # the least normal number


@triton.jit
def load_weights(w_ptr, present_ptr, place, there, MASKED: tl.constexpr):
    """Return a block of weights in double precision, 0 where there is no point, and where there is one."""
    if MASKED:
        there = there & (tl.load(present_ptr + place, mask=there, other=0) != 0)
    w = tl.load(w_ptr + place, mask=there, other=0.0)
    if w.dtype != tl.float64:
        w = w.to(tl.float32).to(tl.float64)
    return w, there


@triton.jit(do_not_specialize=["present_stride", "inner", "sets"])
def weigh_kernel(
    w_ptr,
    present_ptr,
    p_ptr,
    sums_ptr,
    used_ptr,
    present_stride,
    inner,
    sets,
    L,
    MASKED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write weights that sum to one; the sum that they had, and the effective number of points.

    A row whose sum is too small or not finite has equal weights, and 0 or NaN in place of the sum. A point that has
    weight in any of the rows that share their points is marked as used.
    """
    example = tl.program_id(0).to(tl.int64)
    w_ptr += example * L
    p_ptr += example * L
    present_ptr += example * present_stride
    used_ptr += example // inner % sets * L
    total, count = tl.zeros((BLOCK,), tl.float64), tl.zeros((BLOCK,), tl.float64)
    for start in range(0, L, BLOCK):
        place = start + tl.arange(0, BLOCK)
        w, there = load_weights(w_ptr, present_ptr, place, place < L, MASKED)
        total += w
        count += there.to(tl.float64)
    total, count = tl.sum(total, 0), tl.sum(count, 0)
    finite = total - total == 0.0
    usable = finite & (total > TINY)
    empty = count == 0.0
    divisor = tl.where(usable, total, 1.0)
    equal = 1.0 / tl.where(empty, tl.full((), 1.0, tl.float64) * L, count)
    absent = tl.where(empty, equal, 0.0)
    squares = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, L, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < L
        w, there = load_weights(w_ptr, present_ptr, place, inside, MASKED)
        p = tl.where(inside, tl.where(usable, w / divisor, tl.where(there, equal, absent)), 0.0)
        squares += p * p
        tl.store(p_ptr + place, p, mask=inside)
        tl.store(used_ptr + place, tl.full((BLOCK,), 1, tl.int8), mask=inside & (p > 0.0))
    tl.store(sums_ptr + 2 * example, tl.where(usable, total, tl.where(finite, 0.0 * count, float("nan"))))
    tl.store(sums_ptr + 2 * example + 1, 1.0 / tl.sum(squares, 0))
