"""Entmax beyond sparsemax, alpha > 2, of rows too long for one program's registers: the row is read for each sum.

As ``_steep``: the support first, then its smallest probability, from which the others follow.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.above_two import ROUNDS, _above
from omegamax.kernels.rows.triton.general_long import block_of, scores_of
from omegamax.kernels.triton.numerics import largest, root_of, sum1, sum2


@triton.jit
def mass_above(z_ptr, K, shift, t, e, q, BLOCK: tl.constexpr):
    """The sum of ``[e (x - t)]_+^q``."""
    s = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        s += root_of(e * (scores_of(z_ptr, start, K, shift, BLOCK) - t), q)
    return sum1(s)


@triton.jit
def support(z_ptr, K, shift, e, q, BLOCK: tl.constexpr):
    """A number below the scores of the support and above all others."""
    low = tl.zeros_like(e).to(tl.int32, bitcast=True)
    high = (q * 1.0001).to(tl.int32, bitcast=True)
    for _ in range(31):
        middle = low + (high - low) // 2
        heavy = mass_above(z_ptr, K, shift, -middle.to(tl.float32, bitcast=True), e, q, BLOCK) >= 1.0
        high = tl.where(heavy, middle, high)
        low = tl.where(heavy, low, middle)
    edge = -high.to(tl.float32, bitcast=True)
    go = True
    while go:
        peak = tl.full([1, BLOCK], float("-inf"), tl.float32)
        for start in range(0, K, BLOCK):
            x = scores_of(z_ptr, start, K, shift, BLOCK)
            peak = tl.maximum(peak, tl.where(x <= edge, x, float("-inf")))
        following = tl.max(peak, 1, keep_dims=True)
        more = following > float("-inf")
        more = more & (mass_above(z_ptr, K, shift, tl.where(more, following, 0.0), e, q, BLOCK) < 1.0)
        edge = tl.where(more, following - tl.abs(following) * 1e-7 - 1e-37, edge)
        go = tl.max(more.to(tl.int32)) > 0
    return edge


@triton.jit
def gaps(z_ptr, start, K, shift, edge, last, e, BLOCK: tl.constexpr):
    """Which entries of a block are in the support, and ``e`` times their distances to the last of it."""
    x = scores_of(z_ptr, start, K, shift, BLOCK)
    kept = x > edge
    return tl.where(kept, e * (x - last), 0.0), kept


@triton.jit
def sums(z_ptr, K, shift, edge, last, y, e, q, BLOCK: tl.constexpr):
    """Mass of the probabilities whose smallest is ``y``, and its slope in ``y``."""
    s = tl.zeros([1, BLOCK], tl.float32)
    r = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        gap, kept = gaps(z_ptr, start, K, shift, edge, last, e, BLOCK)
        p, slope = _above(y, gap, kept, e, q)
        s += p
        r += slope
    return sum2(s, r)


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
    BLOCK: tl.constexpr,
):
    """Probabilities of the rows whose alpha is above 2, a row for each program; NaN if alpha is, others are left."""
    row = tl.program_id(0).to(tl.int64)
    z_ptr += row * z_stride
    p_ptr += row * K
    if PER_ROW:
        a = tl.load(alpha_ptr + row + tl.zeros([1, 1], tl.int64))
    else:
        a = tl.zeros([1, 1], tl.float32) + alpha
    if tl.max((a <= 2.0).to(tl.int32)) == 0:
        solve(z_ptr, p_ptr, a - 1.0, K, BLOCK)


@triton.jit
def solve(z_ptr, p_ptr, e, K, BLOCK: tl.constexpr):
    """The row at ``z`` with ``e = alpha - 1`` above 1."""
    peak = tl.full([1, BLOCK], float("-inf"), tl.float32)
    for start in range(0, K, BLOCK):
        x = scores_of(z_ptr, start, K, 0.0, BLOCK)
        peak = tl.maximum(peak, x, propagate_nan=tl.PropagateNan.ALL)
    top = largest(peak)
    shift = tl.where(top == float("-inf"), 0.0, top)
    good = (top < float("inf")) & (e == e)
    sharp = e == float("inf")
    e = tl.where(sharp, 2.0, e)
    q = 1.0 / e
    edge = support(z_ptr, K, shift, e, q, BLOCK)
    least = tl.zeros([1, BLOCK], tl.float32)
    count = tl.zeros([1, BLOCK], tl.float32)
    ties = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        x = scores_of(z_ptr, start, K, shift, BLOCK)
        least = tl.minimum(least, tl.where(x > edge, x, 0.0))
        count += (x > edge).to(tl.float32)
        ties += (x == 0.0).to(tl.float32)
    last = tl.min(least, 1, keep_dims=True)
    count, ties = sum2(count, ties)
    y = 1.0 / tl.maximum(count, 1.0)
    step = tl.zeros_like(y)
    rounds = 0
    go = True
    while go:
        mass, rise = sums(z_ptr, K, shift, edge, last, y, e, q, BLOCK)
        step = (mass - 1.0) / tl.maximum(rise, 1.0)
        lower = tl.maximum(y - step, 0.0)
        falling = (mass - 1.0 > 4e-7) & (lower < y)
        y = tl.where(falling, lower, y)
        rounds += 1
        go = (tl.max(falling.to(tl.int32)) > 0) & (rounds < ROUNDS)
    # The last step to first order, as for short rows; at infinity the maxima share.
    for start in range(0, K, BLOCK):
        gap, kept = gaps(z_ptr, start, K, shift, edge, last, e, BLOCK)
        p, slope = _above(y, gap, kept, e, q)
        p = tl.maximum(p - slope * step, 0.0)
        x = scores_of(z_ptr, start, K, shift, BLOCK)
        p = tl.where(sharp, (x == 0.0).to(tl.float32) / tl.maximum(ties, 1.0), p)
        column, here = block_of(start, K, BLOCK)
        tl.store(p_ptr + column, tl.where(good, p, float("nan")), mask=here)
