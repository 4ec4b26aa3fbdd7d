"""Entmax beyond sparsemax, alpha > 2: its probabilities have an infinite slope at the edge of the support.

A threshold is of no use there, because the smallest probability is a root of its distance to it. So: find the support,
and solve for the smallest probability ``y``; the others follow from their exact distances to the last entry.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.numerics import any_row, root_of, sum1, sum2

ROUNDS = tl.constexpr(64)


@triton.jit
def steep(x, e):
    """``p = [e (x - t)]_+^(1/e)`` summing to one, for ``1 < e <= inf``; at infinity the maxima share."""
    sharp = e == float("inf")
    e = tl.where(sharp, 2.0, e)
    q = 1.0 / e
    # The threshold is in [-1/e, 0): bisect the bits of its magnitude, in which numbers are ordered as in themselves.
    low = tl.zeros_like(e).to(tl.int32, bitcast=True)
    high = (q * 1.0001).to(tl.int32, bitcast=True)
    for _ in range(31):
        middle = low + (high - low) // 2
        t = -middle.to(tl.float32, bitcast=True)
        heavy = sum1(root_of(e * (x - t), q)) >= 1.0
        high = tl.where(heavy, middle, high)
        low = tl.where(heavy, low, middle)
    edge = -high.to(tl.float32, bitcast=True)
    # An entry is in the support iff the roots of its distances to the larger ones sum to less than one. Rounding may
    # have put the threshold on the wrong side of some.
    go = True
    while go:
        following = tl.max(tl.where(x <= edge, x, float("-inf")), 1, keep_dims=True)
        more = (following > float("-inf")) & (sum1(root_of(e * (x - following), q)) < 1.0)
        edge = tl.where(more, following - tl.abs(following) * 1e-7 - 1e-37, edge)
        go = any_row(more, x)
    kept = x > edge
    last = tl.min(tl.where(kept, x, 0.0), 1, keep_dims=True)
    gap = tl.where(kept, e * (x - last), 0.0)
    # y plus the roots of y^e + gap: convex and increasing in y, so that Newton from above, ties, stays above.
    y = 1.0 / tl.maximum(sum1(kept.to(tl.float32)), 1.0)
    rounds = 0
    go = True
    while go:
        p, slope = _above(y, gap, kept, e, q)
        mass, rise = sum2(p, slope)
        lower = tl.maximum(y - (mass - 1.0) / tl.maximum(rise, 1.0), 0.0)
        falling = (mass - 1.0 > 4e-7) & (lower < y)
        y = tl.where(falling, lower, y)
        rounds += 1
        go = any_row(falling, x) & (rounds < ROUNDS)
    # The last step to first order: it is the smallest probabilities' alone, which bringing to sum one would spread.
    p, slope = _above(y, gap, kept, e, q)
    mass, rise = sum2(p, slope)
    p = tl.maximum(p - slope * ((mass - 1.0) / tl.maximum(rise, 1.0)), 0.0)
    p = tl.where(sharp, (x == 0.0).to(tl.float32), p)
    s = sum1(p)
    return p / tl.where(s > 0.0, s, 1.0)


@triton.jit
def _above(y, gap, kept, e, q):
    """The probabilities ``(y^e + gap)^q`` and their slopes in ``y``; ``y`` itself where the gap is none."""
    p = tl.where(gap > 0.0, root_of(root_of(y, e) + gap, q), y)
    p = tl.where(kept, p, 0.0)
    slope = tl.where(kept & (p > 0.0), root_of(y / tl.where(p > 0.0, p, 1.0), e - 1.0), 0.0)
    return p, slope


@triton.jit
def steep_backward(p, g, a):
    """The Jacobian at ``p`` times ``g``, where ``s = p^(2 - alpha)`` of small probabilities may be too large a number.

    It does not see a constant: with ``g`` measured from the entry of the largest ``s``, that entry's own product is
    what the others leave, and no difference of large numbers is taken.
    """
    on = (p > 0.0) & (a < float("inf"))
    log_s = tl.where(on, (2.0 - a) * tl.log2(tl.where(on, p, 1.0)), float("-inf"))
    anchor = tl.argmax(log_s, 1, keep_dims=True)
    at = tl.arange(0, p.shape[1])[None, :] == anchor
    h = g - sum1(tl.where(at, g, 0.0))
    most = tl.max(log_s, 1, keep_dims=True)
    weight = tl.exp2(log_s - tl.where(most > float("-inf"), most, 0.0))
    total = sum1(weight)
    sh = tl.where(on & ~at, tl.exp2(log_s) * h, 0.0)
    return sh - weight / tl.where(total > 0.0, total, 1.0) * sum1(sh)
