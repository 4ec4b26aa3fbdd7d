"""Entmax whose exponent the compiler knows, of long rows: read once, written once.

While a row is read, zeros are written to the result and the maxima of ``BLOCK`` groups are kept, every ``BLOCK``-th
entry belonging to one group. The threshold of these maxima is a lower bound of that of the row, so that only groups
whose maximum is above it can have support. Their indices are listed, their entries loaded again, the threshold solved
for those, and their probabilities written over the zeros. Where too many groups are left, the row is read once more and
the entries above the lower bound are listed one by one, which are hardly more than the support. Where these are too
many, too, as in nearly constant rows, the row is read once for each Newton step.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.power import (
    distance_above,
    exponent,
    finish_power,
    power_step,
    power_terms,
    power_unsettled,
    solve_power_threshold,
)
from omegamax.kernels.triton.device import (
    MAX_STEPS,
    OVERSHOT,
    SPARSEMAX,
    load_blocks,
    max_or_nan,
    row_max,
    row_sum2,
    store_tile,
)


@triton.jit(do_not_specialize=["rows"])
def entmax_power_long_kernel(
    z_ptr,
    p_ptr,
    list_ptr,
    fraction,
    rows,
    K,
    z_stride,
    KIND: tl.constexpr,
    N: tl.constexpr,
    FRACTIONAL: tl.constexpr,
    UNMASKED: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
    LIST: tl.constexpr,
    ENTRIES: tl.constexpr,
):
    """Compute probabilities ``p [rows, K]`` of scores ``z``, one row for each program.

    ``list [rows, ENTRIES]`` is scratch memory for the indices of at most ``LIST`` groups, each of at most ``GROUP``
    entries, or else for those of entries. ``DEPTH`` blocks are loaded at a time; ``UNMASKED``: ``K`` is a multiple of
    them. Other constants are those of ``power``.
    """
    row = tl.program_id(0).to(tl.int64)
    z_ptr += row * z_stride
    p_ptr += row * K
    list_ptr += row * ENTRIES
    q = exponent(fraction, KIND, N)
    maxima = tl.full([1, 1, BLOCK], float("-inf"), tl.float32)
    for start in range(0, K, DEPTH * BLOCK):
        x, column = load_blocks(z_ptr, start, K, UNMASKED, DEPTH, BLOCK)
        store_tile(p_ptr, column, column < K, tl.zeros([1, DEPTH, BLOCK], tl.float32), UNMASKED)
        maxima = max_or_nan(maxima, tl.reduce(x, 1, max_or_nan, keep_dims=True))
    top = row_max(maxima)
    finite = tl.max((tl.abs(top) < float("inf")).to(tl.int32)) > 0
    maxima -= tl.where(top == float("-inf"), 0.0, top)
    lowest = tl.zeros([1, 1, 1], tl.float32) - 1.0
    t, step, curvature = solve_power_threshold(maxima, lowest, fraction, KIND, N, FRACTIONAL, 1e-3)
    if KIND != SPARSEMAX:
        t += step
    level = t - 1e-3 * tl.abs(t)  # lower, as a step may have gone too far
    candidate = distance_above(maxima, level, q, KIND) > 0.0
    groups = tl.sum(candidate.to(tl.int32))
    entries = groups + ENTRIES + 1  # more than there is room for
    if (groups > LIST) & (groups <= ENTRIES) & finite:
        entries = list_entries(z_ptr, list_ptr, top, level, q, K, KIND, UNMASKED, BLOCK, ENTRIES)
    if (groups <= LIST) & finite:
        at = tl.cumsum(candidate.to(tl.int32), 2) - 1
        tl.store(list_ptr + at, tl.arange(0, BLOCK)[None, None, :], mask=candidate)
        tl.debug_barrier()  # makes the lists and the zeros of other threads visible
        at = tl.arange(0, LIST * GROUP)[None, None, :]
        column = tl.load(list_ptr + at // GROUP, mask=at // GROUP < groups, other=K) + at % GROUP * BLOCK
        solve_listed(z_ptr, p_ptr, column, top, t, curvature, fraction, K, KIND, N, FRACTIONAL)
    elif entries <= ENTRIES:
        tl.debug_barrier()
        at = tl.arange(0, ENTRIES)[None, None, :]
        column = tl.load(list_ptr + at, mask=at < entries, other=K)
        solve_listed(z_ptr, p_ptr, column, top, t, curvature, fraction, K, KIND, N, FRACTIONAL)
    elif tl.max((top != float("-inf")).to(tl.int32)) > 0:
        solve_by_passes(z_ptr, p_ptr, top, t, curvature, fraction, K, KIND, N, FRACTIONAL, UNMASKED, BLOCK)


@triton.jit
def list_entries(
    z_ptr,
    list_ptr,
    top,
    level,
    q,
    K,
    KIND: tl.constexpr,
    UNMASKED: tl.constexpr,
    BLOCK: tl.constexpr,
    ENTRIES: tl.constexpr,
):
    """List the entries of a row above a level, in their order, while there is room; return how many there are."""
    count = 0
    for start in range(0, K, BLOCK):
        x, column = load_blocks(z_ptr, start, K, UNMASKED, 1, BLOCK)
        above = (distance_above(x - top, level, q, KIND) > 0.0).to(tl.int32)
        at = count + tl.cumsum(above, 2) - 1
        tl.store(list_ptr + at, column, mask=(above > 0) & (at < ENTRIES))
        count += tl.sum(above)
    return count


@triton.jit
def solve_listed(
    z_ptr,
    p_ptr,
    column,
    top,
    t,
    curvature,
    fraction,
    K,
    KIND: tl.constexpr,
    N: tl.constexpr,
    FRACTIONAL: tl.constexpr,
):
    """Solve a row, from threshold ``t`` on, for the entries at some columns, and write their probabilities."""
    x = tl.load(z_ptr + column, mask=column < K, other=float("-inf")).to(tl.float32) - top
    p = finish_power(x, top, t, curvature, fraction, KIND, N, FRACTIONAL)
    tl.store(p_ptr + column, p, mask=(column < K) & (p > 0.0))


@triton.jit
def solve_by_passes(
    z_ptr,
    p_ptr,
    top,
    t,
    curvature,
    fraction,
    K,
    KIND: tl.constexpr,
    N: tl.constexpr,
    FRACTIONAL: tl.constexpr,
    UNMASKED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Solve a row from threshold ``t`` on with one pass over it for each step; NaN if its maximum is not finite."""
    q = exponent(fraction, KIND, N)
    mass = tl.zeros_like(t)
    slope = tl.zeros_like(t)
    steps = 0
    go = True
    while go:
        s = tl.zeros([1, 1, BLOCK], tl.float32)
        r = tl.zeros([1, 1, BLOCK], tl.float32)
        for start in range(0, K, BLOCK):
            x, _ = load_blocks(z_ptr, start, K, UNMASKED, 1, BLOCK)
            ds, dr = power_terms(distance_above(x - top, t, q, KIND), fraction, KIND, N, FRACTIONAL)
            s += ds
            r += dr
        mass, slope = row_sum2(s, r)
        curvature = tl.where(mass < OVERSHOT, 0.0, curvature)
        step = power_step(mass, slope, curvature, q, KIND)
        moving = power_unsettled(mass, step, t, KIND, 4e-7 if KIND == SPARSEMAX else 2e-5)
        t = tl.where(moving, t + step, t)
        steps += 1
        go = (tl.max(moving.to(tl.int32)) > 0) & (steps < MAX_STEPS)
    # The last step to first order, as for short rows.
    excess = tl.where(slope > 0.0, (mass - 1.0) / tl.where(slope > 0.0, slope, 1.0), 0.0)
    for start in range(0, K, BLOCK):
        x, column = load_blocks(z_ptr, start, K, UNMASKED, 1, BLOCK)
        p, r = power_terms(distance_above(x - top, t, q, KIND), fraction, KIND, N, FRACTIONAL)
        p = tl.maximum(p - excess * r, 0.0)
        store_tile(p_ptr, column, column < K, tl.where(top < float("inf"), p, float("nan")), UNMASKED)
