"""Isotonic regression of rows: the slopes of the least concave majorant of their running sums, by a taut string."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.taut_string import EPS, find_string


@triton.jit(do_not_specialize=["rows"])
def isotonic_kernel(x_ptr, out_ptr, slot_ptr, rows, K, x_stride, tiles, R: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the non-increasing rows closest to ``x [rows, K]``, in float64; ``-inf`` entries come last and stay.

    A program takes tiles of ``R`` rows, one after another, and has ``slots [5, programs, R, BLOCK]`` to itself.
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
        after = tl.load(x_ptr + row * x_stride + column + 1, mask=inside & (column + 1 < K), other=-float("inf"))
        first = tl.load(x_ptr + row * x_stride, mask=row < rows, other=0.0)  # the largest, from which all are measured
        first = tl.where(first > -float("inf"), first, 0.0)
        gap = tl.where(there, x - first, 0.0)
        y = tl.cumsum(gap, 1)
        slack = 8.0 * EPS * tl.sum(tl.abs(gap), 1, keep_dims=True)
        u = first + find_string(slots, plane, column, y, (after > -float("inf")) == 0, first, slack, True)
        tl.store(out_ptr + row * K + column, tl.where(there, u, -float("inf")), mask=inside)
        tile += tl.num_programs(0)
