"""Total variation on chains: the proximal operator by taut strings, and means over the pieces of its result.

Everything is computed in float64, as on a CPU: what a string touches is decided by differences of long sums.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.taut_string import EPS, find_string, larger, sum_of_last_key


@triton.jit
def load_entries(ptr, row, rows, column, K, SCALE: tl.constexpr):
    """Load entries in float64, times a power of two; ``-inf`` outside the rows."""
    inside = (row < rows) & (column >= 0) & (column < K)
    return tl.load(ptr + column, mask=inside, other=-float("inf")).to(tl.float64) * SCALE


@triton.jit(do_not_specialize=["rows", "strength"])
def chain_kernel(
    x_ptr,
    w_ptr,
    slot_ptr,
    strength_ptr,
    strength,
    rows,
    K,
    x_stride,
    tiles,
    PER_ROW: tl.constexpr,
    SCALE: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``w [rows, K]`` of values ``x``; ``-inf`` entries stay and cut the chain, NaN and ``+inf`` give NaN.

    A program takes tiles of ``R`` rows, one after another, and has ``slots [6, programs, R, BLOCK]`` to itself.
    ``strength`` is the bits of a float64, for an argument would be rounded to float32; or ``strength_ptr [rows]`` is.
    ``SCALE``: a power of two that keeps the sums of the largest numbers finite.
    """
    column = tl.arange(0, BLOCK)[None, :]
    plane = tl.num_programs(0).to(tl.int64) * (R * BLOCK)
    slots = slot_ptr + (tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]) * BLOCK
    tile = tl.program_id(0).to(tl.int64)
    while tile < tiles:
        row = tile * R + tl.arange(0, R)[:, None]
        if PER_ROW:
            limit = tl.load(strength_ptr + row, mask=row < rows, other=0.0)
        else:
            limit = (tl.zeros([R, 1], tl.int64) + strength).to(tl.float64, bitcast=True)
        solve_chain(x_ptr + row * x_stride, w_ptr + row * K, slots, plane, row, rows, column, K, limit, SCALE)
        tile += tl.num_programs(0)


@triton.jit
def solve_chain(x_ptr, w_ptr, slots, plane, row, rows, column, K, strength, SCALE: tl.constexpr):
    """Solve the rows at ``x_ptr [R, 1]`` for strengths ``[R, 1]``."""
    x = load_entries(x_ptr, row, rows, column, K, SCALE)
    before = load_entries(x_ptr, row, rows, column - 1, K, SCALE)
    after = load_entries(x_ptr, row, rows, column + 1, K, SCALE)
    spoilt = tl.max(((x < float("inf")) == 0).to(tl.int32), 1, keep_dims=True) > 0
    sound = (strength >= 0.0) & (spoilt == 0)
    limit = tl.where(sound, strength, 0.0) * SCALE
    there = (x > -float("inf")) & sound
    tied = limit > 0.0
    joined_before, joined_after = there & (before > -float("inf")) & tied, there & (after > -float("inf")) & tied
    # An entry moves by no more than both its links pull. Two that are farther apart stay so: the chain is cut between
    # them, and what is left of the link is its pull.
    fall_before, fall_after = tl.where(joined_before, before - x, 0.0), tl.where(joined_after, x - after, 0.0)
    far = 4.0 * limit * (1.0 + 1e-12) + 64.0 * EPS * tl.abs(tl.where(there, x, 0.0))
    apart_before = tl.abs(fall_before) > far + 64.0 * EPS * tl.abs(tl.where(joined_before, before, 0.0))
    apart_after = tl.abs(fall_after) > far + 64.0 * EPS * tl.abs(tl.where(joined_after, after, 0.0))
    pull = tl.where(apart_before, tl.where(fall_before > 0.0, limit, -limit), 0.0)
    pull -= tl.where(apart_after, tl.where(fall_after > 0.0, limit, -limit), 0.0)
    cut_before, cut = (joined_before == 0) | apart_before, (joined_after == 0) | apart_after
    # Measured from the first entry after a cut, sums lose no digits to what its piece has in common.
    start = tl.associative_scan(tl.where(cut_before, column, 0), 1, larger)
    origin = tl.where(there, load_entries(x_ptr, row, rows, start, K, SCALE), 0.0)
    gap = tl.where(there, x - origin, 0.0) + pull
    _, y = tl.associative_scan((start, gap), 1, sum_of_last_key)
    slack = tl.zeros_like(y) + 8.0 * EPS * (tl.sum(tl.abs(gap), 1, keep_dims=True) + limit)
    w = origin + find_string(slots, plane, column, y, cut, limit, slack, False)
    w = tl.where(there, w, -float("inf")) * (1.0 / SCALE)
    tl.store(w_ptr + column, tl.where(sound, w, float("nan")), mask=(row < rows) & (column < K))


@triton.jit(do_not_specialize=["rows"])
def chain_vjp_kernel(
    w_ptr,
    g_ptr,
    out_ptr,
    strength_ptr,
    rows,
    K,
    w_stride,
    g_stride,
    PER_ROW: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Average ``g`` over neighbours of equal ``w``, 0 where that is ``-inf``; rows of strength 0 are left as they are.

    The mean of a piece goes through the first of its entries in ``out``, where it is rounded as all of them are.
    """
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    w_ptr += row * w_stride
    out_ptr += row * K
    inside = (row < rows) & (column < K)
    w = load_entries(w_ptr, row, rows, column, K, 1.0)
    before = load_entries(w_ptr, row, rows, column - 1, K, 1.0)
    after = load_entries(w_ptr, row, rows, column + 1, K, 1.0)
    g = tl.load(g_ptr + row * g_stride + column, mask=inside, other=0.0).to(tl.float64)
    g = tl.where(w == -float("inf"), 0.0, g)
    joined_before, joined_after = (w == before) & (column > 0), (w == after) & (column + 1 < K)
    if PER_ROW:
        tied = tl.load(strength_ptr + row, mask=row < rows, other=0.0) > 0.0
        joined_before, joined_after = joined_before & tied, joined_after & tied
    start = tl.associative_scan(tl.where(joined_before, 0, column), 1, larger)
    _, total = tl.associative_scan((start, g), 1, sum_of_last_key)
    mean = total / (column - start + 1).to(tl.float64)
    tl.store(out_ptr + start, mean, mask=inside & (joined_after == 0))
    tl.debug_barrier()
    mean_of_piece = tl.load(out_ptr + start, mask=inside, other=0.0)
    tl.debug_barrier()
    tl.store(out_ptr + column, mean_of_piece, mask=inside)
