"""Entmax of long rows, read once and written once: zeros at once, then the few entries that are not zero.

While a row is read, the largest entries of ``BLOCK`` groups are kept, every ``BLOCK``-th entry being in one group.
Their threshold is a lower bound of that of the row, so that only groups with an entry above it are looked at again.
They are listed, their entries fetched, the threshold found on those, and their probabilities written over the zeros.
Where too many groups are left, as in nearly flat rows, the row is read once for each of Newton's steps.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.exponent import SPARSEMAX, exponent, lifted, step_of, terms, unsettled
from omegamax.kernels.rows.triton.power import FAR, ROUNDS, begin, finish, largest, total2
from omegamax.kernels.triton.numerics import larger


@triton.jit
def scores_of(row_ptr, start, K, EVEN: tl.constexpr, DEPTH: tl.constexpr, BLOCK: tl.constexpr):
    """Blocks of a row ``[1, DEPTH, BLOCK]``, and the numbers of their entries."""
    column = start + tl.arange(0, DEPTH)[None, :, None] * BLOCK + tl.arange(0, BLOCK)[None, None, :]
    if EVEN:
        return tl.load(row_ptr + column).to(tl.float32), column
    return tl.load(row_ptr + column, mask=column < K, other=float("-inf")).to(tl.float32), column


@triton.jit
def write(row_ptr, column, p, K, EVEN: tl.constexpr):
    if EVEN:
        tl.store(row_ptr + column, p)
    else:
        tl.store(row_ptr + column, p, mask=column < K)


@triton.jit(do_not_specialize=["rows"])
def forward(
    z_ptr,
    p_ptr,
    list_ptr,
    fraction,
    rows,
    K,
    z_stride,
    KIND: tl.constexpr,
    N: tl.constexpr,
    EVEN: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
    MEMBERS: tl.constexpr,
    LIST: tl.constexpr,
):
    """Probabilities ``p [rows, K]`` of scores ``z``, a row for each program.

    ``list [rows, LIST]`` is memory for the numbers of groups, of at most ``MEMBERS`` entries. ``DEPTH``
    blocks are read at a time; ``EVEN``: ``K`` is a multiple of them. ``N`` and ``fraction`` as for short rows.
    """
    row = tl.program_id(0).to(tl.int64)
    z_ptr += row * z_stride
    p_ptr += row * K
    list_ptr += row * LIST
    q = exponent(fraction, KIND, N)
    highest = tl.full([1, 1, BLOCK], float("-inf"), tl.float32)
    for start in range(0, K, DEPTH * BLOCK):
        x, column = scores_of(z_ptr, start, K, EVEN, DEPTH, BLOCK)
        write(p_ptr, column, tl.zeros([1, DEPTH, BLOCK], tl.float32), K, EVEN)
        highest = larger(highest, tl.reduce(x, 1, larger, keep_dims=True))
    top = largest(highest)
    finite = tl.max((tl.abs(top) < float("inf")).to(tl.int32)) > 0
    highest -= tl.where(top == float("-inf"), 0.0, top)
    cut, step, bend = begin(highest, tl.zeros([1, 1, 1], tl.float32) - 1.0, fraction, KIND, N, 1e-3)
    if KIND != SPARSEMAX:
        cut += step
    keep = lifted(highest, cut - 1e-3 * tl.abs(cut), q, KIND) > 0.0  # lower, since a step may have gone too far
    found = tl.sum(keep.to(tl.int32))
    if (found <= LIST) & finite:
        at = tl.cumsum(keep.to(tl.int32), 2) - 1
        tl.store(list_ptr + at, tl.arange(0, BLOCK)[None, None, :], mask=keep)
        tl.debug_barrier()  # what other threads have listed, and their zeros, are there
        at = tl.arange(0, LIST * MEMBERS)[None, None, :]
        column = tl.load(list_ptr + at // MEMBERS, mask=at // MEMBERS < found, other=K) + at % MEMBERS * BLOCK
        x = tl.load(z_ptr + column, mask=column < K, other=float("-inf")).to(tl.float32) - top
        p = finish(x, top, cut, bend, fraction, KIND, N)
        tl.store(p_ptr + column, p, mask=(column < K) & (p > 0.0))
    elif tl.max((top != float("-inf")).to(tl.int32)) > 0:
        again(z_ptr, p_ptr, top, cut, bend, fraction, K, KIND, N, EVEN, BLOCK)


@triton.jit
def again(
    z_ptr,
    p_ptr,
    top,
    t,
    bend,
    fraction,
    K,
    KIND: tl.constexpr,
    N: tl.constexpr,
    EVEN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The same from threshold ``t`` on by reading the row for each step; NaN where the largest score is not finite."""
    q = exponent(fraction, KIND, N)
    mass = tl.zeros_like(t)
    slope = tl.zeros_like(t)
    rounds = 0
    go = True
    while go:
        s = tl.zeros([1, 1, BLOCK], tl.float32)
        r = tl.zeros([1, 1, BLOCK], tl.float32)
        for start in range(0, K, BLOCK):
            x, _ = scores_of(z_ptr, start, K, EVEN, 1, BLOCK)
            ds, dr = terms(lifted(x - top, t, q, KIND), fraction, KIND, N)
            s += ds
            r += dr
        mass, slope = total2(s, r)
        bend = tl.where(mass < FAR, 0.0, bend)
        step = step_of(mass, slope, bend, q, KIND)
        moving = unsettled(mass, step, t, KIND, 4e-7 if KIND == SPARSEMAX else 2e-5)
        t = tl.where(moving, t + step, t)
        rounds += 1
        go = (tl.max(moving.to(tl.int32)) > 0) & (rounds < ROUNDS)
    # The last step to first order, as for short rows.
    excess = tl.where(slope > 0.0, (mass - 1.0) / tl.where(slope > 0.0, slope, 1.0), 0.0)
    for start in range(0, K, BLOCK):
        x, column = scores_of(z_ptr, start, K, EVEN, 1, BLOCK)
        p, r = terms(lifted(x - top, t, q, KIND), fraction, KIND, N)
        p = tl.maximum(p - excess * r, 0.0)
        write(p_ptr, column, tl.where(top < float("inf"), p, float("nan")), K, EVEN)
