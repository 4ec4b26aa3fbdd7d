"""Entmax with alpha > 2, beyond sparsemax: its probabilities have an infinite slope at the edge of the support.

With ``e = alpha - 1 > 1`` the map is ``p = [e (x - t)]_+^(1/e)``. A threshold alone is of no use, because the smallest
probability is a root of its distance to it, and rounding the distance changes all its digits. So the support is found
first, then its smallest probability ``y``; the others follow from their exact distances to the last score of the
support: ``p = (y^e + e (x - x_last))^(1/e)``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.device import (
    MAX_STEPS,
    any_row,
    block_indices,
    load_shifted,
    positive_power,
    row_max,
    row_sum,
    row_sum2,
)


@triton.jit
def from_smallest(y, gap, kept, e, q):
    """Return ``p = (y^e + gap)^q`` and its derivative in ``y`` on the entries ``kept``; ``y`` where the gap is 0."""
    p = tl.where(gap > 0.0, positive_power(positive_power(y, e) + gap, q), y)
    p = tl.where(kept, p, 0.0)
    slope = tl.where(kept & (p > 0.0), positive_power(y / tl.where(p > 0.0, p, 1.0), e - 1.0), 0.0)
    return p, slope


@triton.jit
def above_two_probabilities(x, e):
    """Return ``p`` of a tile of scores with maximum 0, for ``1 < e <= inf``; at infinity the maxima share the mass."""
    infinite = e == float("inf")
    e = tl.where(infinite, 2.0, e)
    q = 1.0 / e
    # The threshold is in [-1/e, 0): bisect the bits of its magnitude, whose order is that of the floats.
    low = tl.zeros_like(e).to(tl.int32, bitcast=True)
    high = (q * 1.0001).to(tl.int32, bitcast=True)
    for _ in range(31):
        middle = low + (high - low) // 2
        t = -middle.to(tl.float32, bitcast=True)
        heavy = row_sum(positive_power(e * (x - t), q)) >= 1.0
        high = tl.where(heavy, middle, high)
        low = tl.where(heavy, low, middle)
    edge = -high.to(tl.float32, bitcast=True)
    # An entry is in the support iff the roots of its distances to the larger ones sum to less than one. Rounding may
    # have put the threshold on the wrong side of some.
    go = True
    while go:
        following = tl.max(tl.where(x <= edge, x, float("-inf")), 1, keep_dims=True)
        more = (following > float("-inf")) & (row_sum(positive_power(e * (x - following), q)) < 1.0)
        edge = tl.where(more, following - tl.abs(following) * 1e-7 - 1e-37, edge)
        go = any_row(more, x)
    kept = x > edge
    last = tl.min(tl.where(kept, x, 0.0), 1, keep_dims=True)
    gap = tl.where(kept, e * (x - last), 0.0)
    # The mass is convex and increasing in y, so that Newton from above, where all entries are equal, stays above.
    y = 1.0 / tl.maximum(row_sum(kept.to(tl.float32)), 1.0)
    steps = 0
    go = True
    while go:
        p, slope = from_smallest(y, gap, kept, e, q)
        mass, rise = row_sum2(p, slope)
        lower = tl.maximum(y - (mass - 1.0) / tl.maximum(rise, 1.0), 0.0)
        falling = (mass - 1.0 > 4e-7) & (lower < y)
        y = tl.where(falling, lower, y)
        steps += 1
        go = any_row(falling, x) & (steps < MAX_STEPS)
    # The last step to first order: it changes the smallest probabilities most, normalising would change the largest.
    p, slope = from_smallest(y, gap, kept, e, q)
    mass, rise = row_sum2(p, slope)
    p = tl.maximum(p - slope * ((mass - 1.0) / tl.maximum(rise, 1.0)), 0.0)
    p = tl.where(infinite, (x == 0.0).to(tl.float32), p)
    s = row_sum(p)
    return p / tl.where(s > 0.0, s, 1.0)


@triton.jit
def above_two_vjp(p, g, a):
    """Return ``J g`` at ``p``, where ``s = p^(2 - alpha)`` of small probabilities may overflow.

    ``J`` annihilates constants: with ``g`` measured from the entry of the largest ``s``, that entry's own product is
    what the others leave, and no difference of large numbers is taken.
    """
    on = (p > 0.0) & (a < float("inf"))
    log_s = tl.where(on, (2.0 - a) * tl.log2(tl.where(on, p, 1.0)), float("-inf"))
    anchor = tl.argmax(log_s, 1, keep_dims=True)
    at = tl.arange(0, p.shape[1])[None, :] == anchor
    h = g - row_sum(tl.where(at, g, 0.0))
    most = tl.max(log_s, 1, keep_dims=True)
    weight = tl.exp2(log_s - tl.where(most > float("-inf"), most, 0.0))
    total = row_sum(weight)
    sh = tl.where(on & ~at, tl.exp2(log_s) * h, 0.0)
    return sh - weight / tl.where(total > 0.0, total, 1.0) * row_sum(sh)


@triton.jit(do_not_specialize=["rows"])
def entmax_above_two_long_kernel(
    z_ptr,
    p_ptr,
    alpha_ptr,
    alpha,
    rows,
    K,
    z_stride,
    PER_ROW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute probabilities of the long rows whose alpha is above 2, one row for each program; NaN if alpha is NaN.

    Other rows are not written. A row is read once for each sum over it.
    """
    row = tl.program_id(0).to(tl.int64)
    z_ptr += row * z_stride
    p_ptr += row * K
    if PER_ROW:
        a = tl.load(alpha_ptr + row + tl.zeros([1, 1], tl.int64))
    else:
        a = tl.zeros([1, 1], tl.float32) + alpha
    if tl.max((a <= 2.0).to(tl.int32)) == 0:
        solve_above_two_long(z_ptr, p_ptr, a - 1.0, K, BLOCK)


@triton.jit
def power_sum(z_ptr, K, shift, t, e, q, BLOCK: tl.constexpr):
    """Return the sum of ``[e (x - t)]_+^q`` over a row."""
    s = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        s += positive_power(e * (load_shifted(z_ptr, start, K, shift, BLOCK) - t), q)
    return row_sum(s)


@triton.jit
def find_support_edge(z_ptr, K, shift, e, q, BLOCK: tl.constexpr):
    """Return a number below the scores of the support and not below any other, as for short rows."""
    low = tl.zeros_like(e).to(tl.int32, bitcast=True)
    high = (q * 1.0001).to(tl.int32, bitcast=True)
    for _ in range(31):
        middle = low + (high - low) // 2
        heavy = power_sum(z_ptr, K, shift, -middle.to(tl.float32, bitcast=True), e, q, BLOCK) >= 1.0
        high = tl.where(heavy, middle, high)
        low = tl.where(heavy, low, middle)
    edge = -high.to(tl.float32, bitcast=True)
    go = True
    while go:
        peak = tl.full([1, BLOCK], float("-inf"), tl.float32)
        for start in range(0, K, BLOCK):
            x = load_shifted(z_ptr, start, K, shift, BLOCK)
            peak = tl.maximum(peak, tl.where(x <= edge, x, float("-inf")))
        following = tl.max(peak, 1, keep_dims=True)
        more = following > float("-inf")
        more = more & (power_sum(z_ptr, K, shift, tl.where(more, following, 0.0), e, q, BLOCK) < 1.0)
        edge = tl.where(more, following - tl.abs(following) * 1e-7 - 1e-37, edge)
        go = tl.max(more.to(tl.int32)) > 0
    return edge


@triton.jit
def load_gaps(z_ptr, start, K, shift, edge, last, e, BLOCK: tl.constexpr):
    """Return ``e`` times the distances of a block's entries to the last of the support, and which are in it."""
    x = load_shifted(z_ptr, start, K, shift, BLOCK)
    kept = x > edge
    return tl.where(kept, e * (x - last), 0.0), kept


@triton.jit
def mass_and_slope(z_ptr, K, shift, edge, last, y, e, q, BLOCK: tl.constexpr):
    """Return the mass of the probabilities whose smallest is ``y``, and its derivative in ``y``."""
    s = tl.zeros([1, BLOCK], tl.float32)
    r = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        gap, kept = load_gaps(z_ptr, start, K, shift, edge, last, e, BLOCK)
        p, slope = from_smallest(y, gap, kept, e, q)
        s += p
        r += slope
    return row_sum2(s, r)


@triton.jit
def solve_above_two_long(z_ptr, p_ptr, e, K, BLOCK: tl.constexpr):
    """Solve the row at ``z_ptr``, with ``e = alpha - 1`` above 1."""
    peak = tl.full([1, BLOCK], float("-inf"), tl.float32)
    for start in range(0, K, BLOCK):
        x = load_shifted(z_ptr, start, K, 0.0, BLOCK)
        peak = tl.maximum(peak, x, propagate_nan=tl.PropagateNan.ALL)
    top = row_max(peak)
    shift = tl.where(top == float("-inf"), 0.0, top)
    valid = (top < float("inf")) & (e == e)
    infinite = e == float("inf")
    e = tl.where(infinite, 2.0, e)
    q = 1.0 / e
    edge = find_support_edge(z_ptr, K, shift, e, q, BLOCK)
    least = tl.zeros([1, BLOCK], tl.float32)
    count = tl.zeros([1, BLOCK], tl.float32)
    ties = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        x = load_shifted(z_ptr, start, K, shift, BLOCK)
        least = tl.minimum(least, tl.where(x > edge, x, 0.0))
        count += (x > edge).to(tl.float32)
        ties += (x == 0.0).to(tl.float32)
    last = tl.min(least, 1, keep_dims=True)
    count, ties = row_sum2(count, ties)
    y = 1.0 / tl.maximum(count, 1.0)
    step = tl.zeros_like(y)
    steps = 0
    go = True
    while go:
        mass, rise = mass_and_slope(z_ptr, K, shift, edge, last, y, e, q, BLOCK)
        step = (mass - 1.0) / tl.maximum(rise, 1.0)
        lower = tl.maximum(y - step, 0.0)
        falling = (mass - 1.0 > 4e-7) & (lower < y)
        y = tl.where(falling, lower, y)
        steps += 1
        go = (tl.max(falling.to(tl.int32)) > 0) & (steps < MAX_STEPS)
    # The last step to first order, as for short rows; at infinity the maxima share the mass.
    for start in range(0, K, BLOCK):
        gap, kept = load_gaps(z_ptr, start, K, shift, edge, last, e, BLOCK)
        p, slope = from_smallest(y, gap, kept, e, q)
        p = tl.maximum(p - slope * step, 0.0)
        x = load_shifted(z_ptr, start, K, shift, BLOCK)
        p = tl.where(infinite, (x == 0.0).to(tl.float32) / tl.maximum(ties, 1.0), p)
        column, mask = block_indices(start, K, BLOCK)
        tl.store(p_ptr + column, tl.where(valid, p, float("nan")), mask=mask)
