"""Isotonic regression of rows: the slopes of the least concave majorant of their running sums, by a taut string."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.taut_string import EPS, find_string, larger, sum_of_last_key


@triton.jit
def smaller(a, b):
    """Return the smaller of two numbers."""
    return tl.minimum(a, b)


@triton.jit
def find_cuts(slots, plane, column, x, there, BLOCK: tl.constexpr):
    """Tell behind which entries a row falls apart: nothing before is below anything after. Also before which.

    Maxima of what comes after are those of the row written backwards.
    """
    lowest = tl.associative_scan(tl.where(there, x, float("inf")), 1, smaller)
    tl.store(slots + column, lowest)
    tl.store(slots + plane + BLOCK - 1 - column, x)
    tl.debug_barrier()
    highest = tl.associative_scan(tl.load(slots + plane + column), 1, larger)
    tl.store(slots + 2 * plane + BLOCK - 1 - column, highest)
    tl.debug_barrier()
    before = tl.load(slots + column - 1, mask=column > 0, other=float("inf"))
    after = tl.load(slots + 2 * plane + column + 1, mask=column + 1 < BLOCK, other=-float("inf"))
    cut, cut_before = lowest >= after, before >= tl.load(slots + 2 * plane + column)
    tl.debug_barrier()
    return cut, cut_before


@triton.jit(do_not_specialize=["rows"])
def isotonic_kernel(x_ptr, out_ptr, slot_ptr, rows, K, x_stride, tiles, R: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the non-increasing rows closest to ``x [rows, K]``, in float64; ``-inf`` entries come last and stay.

    A program takes tiles of ``R`` rows, one after another, and has ``slots [6, programs, R, BLOCK]`` to itself.
    """
    column = tl.arange(0, BLOCK)[None, :]
    plane = tl.num_programs(0).to(tl.int64) * (R * BLOCK)
    slots = slot_ptr + (tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]) * BLOCK
    tile = tl.program_id(0).to(tl.int64)
    while tile < tiles:
        row = tile * R + tl.arange(0, R)[:, None]
        inside = (row < rows) & (column < K)
        x = tl.load(x_ptr + row * x_stride + column, mask=inside, other=-float("inf"))
        there = x > -float("inf")
        cut, cut_before = find_cuts(slots, plane, column, x, there, BLOCK)
        # Measured from the first entry of its part, sums lose no digits to parts that are far away.
        start = tl.associative_scan(tl.where(cut_before, column, 0), 1, larger)
        origin = tl.load(x_ptr + row * x_stride + start, mask=there, other=0.0)
        gap = tl.where(there, x - origin, 0.0)
        _, y = tl.associative_scan((start, gap), 1, sum_of_last_key)
        _, reach = tl.associative_scan((start, tl.abs(gap)), 1, sum_of_last_key)
        u = origin + find_string(slots, plane, column, y, cut, y, 8.0 * EPS * reach, True)
        tl.store(out_ptr + row * K + column, tl.where(there, u, -float("inf")), mask=inside)
        tile += tl.num_programs(0)
