"""Entmax with alpha > 2 of long rows: read once, written once.

As for the exponents that the compiler knows (see ``power_long``): while a row is read, zeros are written to the result
and the maxima of ``BLOCK`` groups are kept, whose threshold is a lower bound of that of the row. The few groups whose
maximum is above it are loaded again and solved. Where too many are left, as in nearly constant rows, the row is read
once for each step.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.above_two import (
    find_support,
    finite_exponents,
    first_bracket,
    narrow_bracket,
    reduce_support,
    secant_threshold,
    smallest_step,
    smallest_terms,
    solve_smallest,
    support_terms,
)
from omegamax.kernels.triton.device import (
    INF,
    MAX_STEPS,
    load_blocks,
    max_or_nan,
    positive_power,
    row_max,
    row_sum2,
    store_tile,
)


@triton.jit(do_not_specialize=["rows"])
def entmax_above_two_long_kernel(
    z_ptr,
    p_ptr,
    list_ptr,
    alpha_ptr,
    alpha,
    rows,
    K,
    z_stride,
    PER_ROW: tl.constexpr,
    UNMASKED: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
    LIST: tl.constexpr,
):
    """Compute probabilities of the long rows whose alpha is above 2, one row for each program; NaN if alpha is NaN.

    Other rows are not written. ``list [rows, LIST]`` is scratch memory for the indices of groups, each of at most
    ``GROUP`` entries. ``DEPTH`` blocks are loaded at a time; ``UNMASKED``: ``K`` is a multiple of them.
    """
    row = tl.program_id(0).to(tl.int64)
    z_ptr += row * z_stride
    p_ptr += row * K
    list_ptr += row * LIST
    if PER_ROW:
        a = tl.load(alpha_ptr + row + tl.zeros([1, 1, 1], tl.int64))
    else:
        a = tl.zeros([1, 1, 1], tl.float32) + alpha
    if tl.max((a <= 2.0).to(tl.int32)) == 0:
        solve_above_two_long(z_ptr, p_ptr, list_ptr, a, K, UNMASKED, DEPTH, BLOCK, GROUP, LIST)


@triton.jit
def solve_above_two_long(
    z_ptr,
    p_ptr,
    list_ptr,
    a,
    K,
    UNMASKED: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
    LIST: tl.constexpr,
):
    """Solve the row at ``z_ptr``."""
    maxima = tl.full([1, 1, BLOCK], -INF, tl.float32)
    for start in range(0, K, DEPTH * BLOCK):
        x, column = load_blocks(z_ptr, start, K, UNMASKED, DEPTH, BLOCK)
        store_tile(p_ptr, column, column < K, tl.zeros([1, DEPTH, BLOCK], tl.float32), UNMASKED)
        maxima = max_or_nan(maxima, tl.reduce(x, 1, max_or_nan, keep_dims=True))
    top = row_max(maxima)
    maxima -= tl.where(top == -INF, 0.0, top)
    e, q, out = finite_exponents(a)
    _, out, _ = find_support(maxima, e, q, out)
    candidate = maxima > out
    found = tl.sum(candidate.to(tl.int32))
    finite = tl.max(((tl.abs(top) < INF) & (e == e)).to(tl.int32)) > 0
    if (found <= LIST) & finite:
        at = tl.cumsum(candidate.to(tl.int32), 2) - 1
        tl.store(list_ptr + at, tl.arange(0, BLOCK)[None, None, :], mask=candidate)
        tl.debug_barrier()  # makes the lists and the zeros of other threads visible
        at = tl.arange(0, LIST * GROUP)[None, None, :]
        column = tl.load(list_ptr + at // GROUP, mask=at // GROUP < found, other=K) + at % GROUP * BLOCK
        x = tl.load(z_ptr + column, mask=column < K, other=-INF).to(tl.float32) - top
        last, _, t = find_support(x, e, q, out)
        _, p = solve_smallest(x, last, t, e, q)
        tl.store(p_ptr + column, p, mask=(column < K) & (p > 0.0))
    elif tl.max(((top != -INF) | (e != e)).to(tl.int32)) > 0:
        solve_by_passes(z_ptr, p_ptr, top, e, q, out, K, UNMASKED, BLOCK)


@triton.jit
def solve_by_passes(z_ptr, p_ptr, top, e, q, out, K, UNMASKED: tl.constexpr, BLOCK: tl.constexpr):
    """Solve a row with one pass over it for each step; NaN if its maximum or its alpha is."""
    last, t = find_support_by_passes(z_ptr, top, e, q, out, K, UNMASKED, BLOCK)
    y = tl.minimum(positive_power(e * (last - t), q), 1.0)
    steps = 0
    go = True
    while go:
        mass, rise = mass_of_row(z_ptr, top, last, y, e, q, K, UNMASKED, BLOCK, False)
        step, moving = smallest_step(mass, rise, y, steps)
        y = tl.where(moving, y - step, y)
        steps += 1
        go = (tl.max(moving.to(tl.int32)) > 0) & (steps < MAX_STEPS)
    mass, rise = mass_of_row(z_ptr, top, last, y, e, q, K, UNMASKED, BLOCK, True)
    step, _ = smallest_step(mass, rise, y, steps)
    for start in range(0, K, BLOCK):
        x, column = load_blocks(z_ptr, start, K, UNMASKED, 1, BLOCK)
        p, slope = smallest_terms(x - top, last, y, e, q, True)
        p = tl.where((top < INF) & (e == e), tl.maximum(p - slope * step, 0.0), float("nan"))
        store_tile(p_ptr, column, column < K, p, UNMASKED)


@triton.jit
def mass_of_row(z_ptr, top, last, y, e, q, K, UNMASKED: tl.constexpr, BLOCK: tl.constexpr, EXACT: tl.constexpr):
    """Return the mass of the probabilities whose smallest is ``y``, and its derivative in ``y``."""
    mass = tl.zeros([1, 1, BLOCK], tl.float32)
    rise = tl.zeros([1, 1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        x, _ = load_blocks(z_ptr, start, K, UNMASKED, 1, BLOCK)
        p, slope = smallest_terms(x - top, last, y, e, q, EXACT)
        mass += p
        rise += slope
    return row_sum2(mass, rise)


@triton.jit
def find_support_by_passes(z_ptr, top, e, q, out, K, UNMASKED: tl.constexpr, BLOCK: tl.constexpr):
    """Return the last score of the support of a row, and roughly the threshold, as :func:`find_support` of a tile."""
    mass, least, most = support_of_row(z_ptr, top, out, 0.0, e, q, K, UNMASKED, BLOCK)
    far, log_far, near, log_near, moved = first_bracket(mass, K, e, q, out)
    steps = 0
    go = tl.max((least <= most).to(tl.int32)) > 0
    while go:
        t = secant_threshold(far, log_far, near, log_near, steps)
        t = tl.minimum(tl.maximum(t, least), most)
        mass, above, below = support_of_row(z_ptr, top, t, t, e, q, K, UNMASKED, BLOCK)
        least, most, far, log_far, near, log_near, moved = narrow_bracket(
            t, mass, above, below, least, most, far, log_far, near, log_near, moved
        )
        steps += 1
        go = (tl.max((least <= most).to(tl.int32)) > 0) & (steps < MAX_STEPS)
    return tl.where(least < INF, least, 0.0), secant_threshold(far, log_far, near, log_near, 0)


@triton.jit
def support_of_row(z_ptr, top, t, ceiling, e, q, K, UNMASKED: tl.constexpr, BLOCK: tl.constexpr):
    """Return the mass at the threshold ``t``, the least score above it and the largest below ``ceiling``."""
    mass = tl.zeros([1, 1, BLOCK], tl.float32)
    least = tl.full([1, 1, BLOCK], INF, tl.float32)
    most = tl.full([1, 1, BLOCK], -INF, tl.float32)
    for start in range(0, K, BLOCK):
        x, _ = load_blocks(z_ptr, start, K, UNMASKED, 1, BLOCK)
        terms, above, below = support_terms(x - top, t, ceiling, e, q)
        mass += terms
        least = tl.minimum(least, above)
        most = tl.maximum(most, below)
    return reduce_support(mass, least, most)
