"""Entmax of any alpha from 1 to 2, of rows too long for one program's registers: read once for each of a few rounds.

While a row is read first, the largest entries of ``BLOCK`` groups are kept. The threshold is solved for those, so that
two or three rounds over all remain, as in ``_spectrum``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.any_alpha import (
    LEAST,
    begin,
    drop_of,
    enough_of,
    last_step,
    step_of,
    terms,
    tied_at,
)
from omegamax.kernels.rows.triton.power import FAR, ROUNDS, largest, total2
from omegamax.kernels.rows.triton.power_long import scores_of, write
from omegamax.kernels.triton.numerics import larger

NEAR = tl.constexpr(0.05)  # how far from 1 the mass is where steps no longer overshoot


@triton.jit
def measured(z_ptr, start, K, shift, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    """A block of a row, measured from its maximum, and the numbers of its entries."""
    x, column = scores_of(z_ptr, start, K, EVEN, 1, BLOCK)
    return x - shift, column


@triton.jit
def solve(z_ptr, p_ptr, e, K, EVEN: tl.constexpr, DEPTH: tl.constexpr, BLOCK: tl.constexpr):
    """The row at ``z``, with ``e = alpha - 1`` up to 1."""
    highest = tl.full([1, 1, BLOCK], float("-inf"), tl.float32)
    for start in range(0, K, DEPTH * BLOCK):
        x, _ = scores_of(z_ptr, start, K, EVEN, DEPTH, BLOCK)
        highest = larger(highest, tl.reduce(x, 1, larger, keep_dims=True))
    top = largest(highest)
    shift = tl.where(top == float("-inf"), 0.0, top)
    tied = tied_at(e, K)
    t, bend = begin(highest - shift, e, tied)
    enough = enough_of(e)
    drop = tl.zeros_like(e)
    c = 1.0 - e * t
    before = tl.full([1, 1, 1], float("inf"), tl.float32)
    rounds = 0
    go = True
    while go:
        s = tl.zeros([1, 1, BLOCK], tl.float32)
        r = tl.zeros([1, 1, BLOCK], tl.float32)
        for start in range(0, K, BLOCK):
            x, _ = measured(z_ptr, start, K, shift, EVEN, BLOCK)
            ds, dr = terms(x, t, c, e)
            s += ds
            r += dr
        mass, slope = total2(s, r)
        bend = tl.where(mass < FAR, 0.0, bend)
        step = step_of(mass, slope, bend, e)
        drop = drop_of(mass, slope, bend, e)
        # Near alpha = 2 the threshold is moved by c, which is near 0 where t is near 1 and has no digits left for it.
        steep = e > 0.5
        moved = tl.minimum(tl.maximum(t + step, 0.0), tied)
        next_c = tl.where(steep, c - e * step, 1.0 - e * moved)
        lost = tl.where(steep, next_c == c, tl.abs(step) <= 2.4e-7 * (1.0 + t))
        # Near the solution every step is far smaller than the one before, until all that is left is rounding.
        off = tl.abs(mass - 1.0)
        moving = (off > enough) & (mass > 0.0) & ~lost & ((off > NEAR) | (off < 0.5 * before))
        before = off
        t = tl.where(moving, tl.where(steep, (1.0 - next_c) / e, moved), t)
        c = tl.where(moving, next_c, c)
        rounds += 1
        go = (tl.max(moving.to(tl.int32)) > 0) & (rounds < ROUNDS)
    for start in range(0, K, BLOCK):
        x, column = measured(z_ptr, start, K, shift, EVEN, BLOCK)
        _, r = terms(x, t, c, e)
        write(p_ptr, column, last_step(x, top, r, c, drop, e), K, EVEN)


@triton.jit(do_not_specialize=["rows"])
def forward(
    z_ptr,
    p_ptr,
    alpha_ptr,
    alpha,
    rows,
    K,
    z_stride,
    PER_ROW: tl.constexpr,
    EVEN: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Probabilities ``p [rows, K]`` of the rows whose alpha is from 1 to 2, a row for each program; others are left.

    ``DEPTH`` blocks are read at a time; ``EVEN``: ``K`` is a multiple of them.
    """
    row = tl.program_id(0).to(tl.int64)
    if PER_ROW:
        a = tl.load(alpha_ptr + row + tl.zeros([1, 1, 1], tl.int64))
    else:
        a = tl.zeros([1, 1, 1], tl.float32) + alpha
    if tl.max(((a >= 1.0) & (a <= 2.0)).to(tl.int32)) > 0:
        solve(z_ptr + row * z_stride, p_ptr + row * K, tl.maximum(a - 1.0, LEAST), K, EVEN, DEPTH, BLOCK)
