"""Plain-torch kernels: exact, slow, any device. The truth that every other kernel is tested against.

All take scores ``[*, K]`` and work along the last axis in float64, whatever the dtype, because thresholds are
differences of sums. One rule for odd rows: nothing left (all ``-inf``) gives zeros, NaN or ``+inf`` gives NaN.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

MAX_STEPS = 200  # Newton needs 2 to 15; the cap only bounds the time spent on rows that hold NaN


def entmax(z: Tensor, alpha: float | Tensor) -> Tensor:
    """Tsallis entmax for a float ``alpha`` or one for each row, ``[*, 1]``; any alpha in (0, inf]."""
    if not isinstance(alpha, Tensor):
        return _by_row(z, _entmax_for(alpha))
    rows = alpha.expand(*z.shape[:-1], 1).reshape(-1, 1).double()
    return _by_row(z, lambda u: _entmax_rows(u, rows))


def normmax(z: Tensor, alpha: float | Tensor) -> Tensor:
    """Norm-regularised map for ``alpha`` in (1, inf], a float or ``[*, 1]``."""

    def solve(u: Tensor) -> Tensor:
        a = alpha if isinstance(alpha, Tensor) else u.new_tensor(alpha)
        a = a.double().expand(*z.shape[:-1], 1).reshape(-1, 1)
        exponent = 1 / (a - 1)
        log_height = _log_height(u, _norm_threshold(u, exponent))
        return _normalise(torch.where(log_height > -math.inf, (exponent * log_height).exp(), 0.0))

    return _by_row(z, solve)


def k_subsets(z: Tensor, k: float | Tensor) -> Tensor:
    """Projection onto ``{0 <= p <= 1, sum p = k}``; a row with fewer than ``k`` entries left gives ones there."""
    low, high = z.new_zeros(()), z.new_ones(())
    budget = k if isinstance(k, Tensor) else z.new_full((), k, dtype=torch.float64)
    return box_simplex(z, low, high, budget.double())


def box_simplex(z: Tensor, lower: float | Tensor, upper: float | Tensor, total: float | Tensor) -> Tensor:
    """Projection onto ``{lower <= p <= upper, sum p = total}`` (``total`` is ``[*, 1]`` or a scalar)."""
    rows = z.shape[:-1]
    low = _double(lower, z).expand(z.shape).reshape(-1, z.shape[-1])
    high = _double(upper, z).expand(z.shape).reshape(-1, z.shape[-1])
    total = _double(total, z)
    total = total.expand(*rows, 1).reshape(-1, 1) if total.dim() else total

    def solve(u: Tensor) -> Tensor:
        # F(tau) = sum clip(u - tau, low, high) falls along a broken line with kinks where an entry leaves its upper
        # bound, at u - high, and where it arrives at its lower one, at u - low. Sort the kinks; a binary search finds
        # the last one with F >= total. Kinks keep what rounding takes from them, because 1e15 - 0.4 and 1e15 are one
        # number, and which entries are at a bound is read off the order of the kinks.
        gone = u == -math.inf
        lo, hi = torch.where(gone, 0.0, low), torch.where(gone, 0.0, high)
        goal = torch.minimum(torch.maximum(total, lo.sum(-1, keepdim=True)), hi.sum(-1, keepdim=True))
        scores = torch.where(gone, 0.0, u)
        kinks, lost = _difference(scores.repeat(1, 2), torch.cat([hi, lo], -1))
        order = lost.argsort(dim=-1, stable=True)
        order = order.gather(-1, kinks.gather(-1, order).argsort(dim=-1, stable=True))
        kinks, lost = kinks.gather(-1, order), lost.gather(-1, order)
        leaves, arrives = order.argsort(-1).chunk(2, -1)

        def clipped(kink: Tensor) -> Tensor:
            inside = (scores - kinks.gather(-1, kink) - lost.gather(-1, kink)).clamp(lo, hi)
            return torch.where(arrives <= kink, lo, torch.where(leaves >= kink, hi, inside))

        first = kinks.new_zeros(kinks.shape[0], 1, dtype=torch.long)
        last = torch.full_like(first, kinks.shape[-1] - 1)
        for _ in range(kinks.shape[-1].bit_length()):
            middle = (first + last + 1) // 2
            above = clipped(middle).sum(-1, keepdim=True) >= goal
            first, last = torch.where(above, middle, first), torch.where(above, last, middle - 1)
            last = torch.maximum(first, last)
        p = clipped(first)
        # Beyond that kink the free entries share what the others leave. Measured from the largest of them, whose
        # distances are below 1, their scores lose no digits.
        free = (leaves <= first) & (arrives > first) & ~gone & (p.sum(-1, keepdim=True) > goal)
        rest = goal - torch.where(free, 0.0, torch.where(arrives <= first, lo, hi)).sum(-1, keepdim=True)
        gap = torch.where(free, u - torch.where(free, u, -math.inf).amax(-1, keepdim=True), 0.0)
        share = (rest - gap.sum(-1, keepdim=True)) / free.sum(-1, keepdim=True).clamp(min=1)
        return torch.where(free, (gap + share).clamp(lo, hi), p)

    return _by_row(z, solve, shifted=False)


def capped_softmax(z: Tensor, upper: float | Tensor) -> Tensor:
    """``min(upper, c exp(z))`` with ``c`` such that it sums to one."""
    cap = _double(upper, z).expand(z.shape).reshape(-1, z.shape[-1])

    def solve(u: Tensor) -> Tensor:
        # Entries reach their cap in the order of cap / exp(u); where scores are so large that a logarithm is lost in
        # them, that of the caps decides. With the first n capped, the others share what is left in proportion to
        # exp(u). The right n is the first that leaves the next entry below its cap, and so are all after it: bisection.
        gone = u == -math.inf
        caps = torch.where(gone, 0.0, cap)
        order = cap.log().argsort(dim=-1, stable=True)
        ratio = torch.where(gone, math.inf, cap.log() - u)
        order = order.gather(-1, ratio.gather(-1, order).argsort(dim=-1, stable=True))
        rank = order.argsort(-1)

        def shares(capped: Tensor) -> Tensor:
            # Measured from the largest free score, the shares lose no digits however large the scores are.
            free = ~capped & ~gone
            anchor = torch.where(free, u, -math.inf).amax(-1, keepdim=True)
            weight = torch.where(free, (u - anchor).exp(), 0.0)
            left = (1 - torch.where(capped, caps, 0.0).sum(-1, keepdim=True)).clamp(min=0)
            return torch.where(free, weight * (left / weight.sum(-1, keepdim=True)), 0.0)

        low = u.new_zeros(u.shape[0], 1, dtype=torch.long)
        high = torch.full_like(low, u.shape[-1])
        for _ in range(u.shape[-1].bit_length()):
            middle = (low + high) // 2
            following = order.gather(-1, middle.clamp(max=u.shape[-1] - 1))
            over = shares(rank < middle).gather(-1, following) > caps.gather(-1, following)
            over = over & (middle < u.shape[-1])
            low, high = torch.where(over, middle + 1, low), torch.where(over, high, middle)
            low = torch.minimum(low, high)
        capped = rank < high
        share = shares(capped)
        while bool((over := share > caps).any()):  # a close call that rounding decided
            capped = capped | over
            share = shares(capped)
        return torch.where(capped, caps, share)

    return _by_row(z, solve, shifted=False)


def _double(a: float | Tensor, z: Tensor) -> Tensor:
    """A parameter of scores ``z`` in float64."""
    return a.double() if isinstance(a, Tensor) else z.new_full((), a, dtype=torch.float64)


def _difference(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """``a - b`` rounded, and what the rounding took (Knuth's TwoSum): together they are exact."""
    rounded = a - b
    back = rounded - a
    return rounded, (a - (rounded - back)) - (b + back)


def _by_row(z: Tensor, solve, shifted: bool = True) -> Tensor:
    """Apply ``solve`` to rows and settle those that have no finite maximum.

    The maximum becomes 0, unless bounds may decide it and leave the others to share the rest: their differences would
    not survive being taken from a score of 1e30.
    """
    rows = z.reshape(-1, z.shape[-1]).double()
    if rows.numel() == 0:
        return torch.empty_like(z, memory_format=torch.contiguous_format)
    top = rows.amax(-1, keepdim=True)
    sound = top.isfinite()
    p = solve(torch.where(sound, rows - top if shifted else rows, 0.0))
    p = torch.where(sound, p, torch.where(top == -math.inf, 0.0, math.nan))
    return p.to(z.dtype).reshape(z.shape)


def _entmax_for(alpha: float):
    """The solver for one alpha: the exact one where there is one."""
    if alpha == 1:
        return lambda u: u.softmax(-1)
    if alpha == 1.5:
        return _entmax15
    if alpha == 2:
        return _sparsemax
    return lambda u: _entmax_rows(u, u.new_full((u.shape[0], 1), alpha))


def _sparsemax(u: Tensor) -> Tensor:
    """Martins & Astudillo (2016), Alg. 1, with the support found by bisection, and all measured from its last entry.

    A running sum over a long row of equal scores would round in the same direction at every step.
    """
    top = u.sort(-1, descending=True).values
    size = _support_size(top, lambda t: (top - t).clamp(min=0).sum(-1, keepdim=True))
    last = top.gather(-1, size - 1)
    excess = (top - last).clamp(min=0).sum(-1, keepdim=True) - 1
    return ((u - last) - excess / size).clamp(min=0)


def _entmax15(u: Tensor) -> Tensor:
    """Peters, Niculae & Martins (2019), Alg. 2, with the support found by bisection on a sum of squares."""
    v = u / 2
    top = v.sort(-1, descending=True).values
    # The k-th entry is in the support iff the squared gaps of the larger ones to it sum to less than one, which
    # is monotone in k: a binary search needs no square root and no difference of running squares.
    size = _support_size(top, lambda t: (top - t).clamp(min=0).square().sum(-1, keepdim=True))
    kept = torch.arange(u.shape[-1], device=u.device) < size
    top = torch.where(kept, top, 0.0)
    mean = top.sum(-1, keepdim=True) / size
    spread = torch.where(kept, top - mean, 0.0).square().sum(-1, keepdim=True)
    tau = mean - ((1 - spread).clamp(min=0) / size).sqrt()
    return (v - tau).clamp(min=0).square()


def _entmax_rows(u: Tensor, alpha: Tensor) -> Tensor:
    """Any mixture of alphas, one for each row."""
    e = alpha - 1
    gentle, steep = e <= 1, (e > 1) & ~e.isinf()
    p = (u == 0).to(u.dtype)  # alpha = inf: the maxima share
    p = torch.where(gentle, _newton(u, torch.where(gentle, e, 0.0)), p / p.sum(-1, keepdim=True))
    if bool(steep.any()):
        p = torch.where(steep, _steep(u, torch.where(steep, e, 2.0)), p)
    return torch.where(alpha > 0, p, math.nan)


def _newton(u: Tensor, e: Tensor) -> Tensor:
    """exp_e(u - l) summing to one, e <= 1. Newton on (s^e - 1) / e, convex and decreasing in l, from l = 0."""
    shift = torch.zeros_like(e)
    inverse = torch.where(e == 0, 0.0, 1 / e)
    for _ in range(MAX_STEPS):
        p, base = deformed_exp(u - shift, e, inverse)
        s = p.sum(-1, keepdim=True)
        r = torch.where(p > 0, p / base, 0.0).sum(-1, keepdim=True)
        log_s = s.log()
        step = s / r * torch.where(e == 0, log_s, -(-e * log_s).expm1() * inverse)
        moved = shift + step
        if bool((moved <= shift).all()):
            break
        shift = torch.maximum(moved, shift)
    return _normalise(deformed_exp(u - shift, e, inverse)[0])


def deformed_exp(t: Tensor, e: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
    """``exp_e(t) = [1 + e t]_+^(1/e)`` and its base ``1 + e t``."""
    base = torch.where(e == 0, 1.0, 1 + e * t)
    log_p = torch.where(e == 0, t, torch.where(base > 0, (e * t).clamp(min=-1).log1p(), -math.inf) * inverse)
    return torch.where(base > 0, log_p.exp(), 0.0), base


def _norm_threshold(u: Tensor, exponent: Tensor) -> Tensor:
    """The l of normmax: ``[1 + u - l]_+`` has a q-norm of one, q = 1 + exponent, for scores with maximum 0.

    Newton on the norm, convex and decreasing in l, from l = 0. The powers of the leaders are measured from 1: where one
    score leads all others by nearly 1, l is next to nothing, and a high root of what it leaves needs all its digits.
    """
    q = 1 + exponent
    shift = torch.zeros_like(exponent)
    leaders = (u == 0).sum(-1, keepdim=True)
    for _ in range(MAX_STEPS):
        log_height = _log_height(u, shift)
        weight = torch.where(log_height > -math.inf, (exponent * log_height).exp(), 0.0)
        mass = torch.where(u < 0, weight * (1 + u - shift).clamp(min=0), 0.0).sum(-1, keepdim=True)
        lead = (q * (-shift).log1p()).expm1()
        excess = mass + (leaders - 1) * (lead + 1) + lead
        above = (excess.log1p() / q).expm1()
        moved = shift + above * (excess + 1) / (weight.sum(-1, keepdim=True) * (above + 1))
        if bool((moved <= shift).all()):
            break
        shift = torch.maximum(moved, shift)
    return shift


def _log_height(u: Tensor, shift: Tensor) -> Tensor:
    """``log [1 + u - shift]_+`` for u <= 0, accurate where the height is next to 1 and where it is next to 0."""
    fall, height = u - shift, (1 + u) - shift
    near = fall.clamp(min=-0.5).log1p()
    far = torch.where(height > 0, height, 1.0).log()
    return torch.where(height > 0, torch.where(fall > -0.5, near, far), -math.inf)


def _steep(u: Tensor, e: Tensor) -> Tensor:
    """alpha > 2, where p has infinite slope at the edge of the support: solve for the smallest probability.

    With y the probability of the last entry in the support and d its gaps to the others times e, the sum
    y + sum (y^e + d)^(1/e) is convex and increasing in y: Newton from above, y = 1 / size, cannot overshoot.
    """
    q = 1 / e
    top = u.sort(-1, descending=True).values
    size = _support_size(top, lambda t: (e * (top - t)).clamp(min=0).pow(q).sum(-1, keepdim=True))
    last = top.gather(-1, size - 1)

    def raised(y: Tensor, scores: Tensor) -> Tensor:
        # (y^e + gap)^(1/e): as logarithms, because the power of y underflows at large e.
        inside = scores >= last
        gap = torch.where(inside, e * (scores - last), 0.0)
        return torch.where(inside, (torch.logaddexp(e * y.log(), gap.log()) * q).exp(), 0.0)

    y = 1 / size.to(u.dtype)
    for _ in range(MAX_STEPS):
        p = raised(y, top)
        slope = torch.where(p > 0, (y / p).pow(e - 1), 0.0).sum(-1, keepdim=True)
        lower = (y - (p.sum(-1, keepdim=True) - 1) / slope.clamp(min=1)).clamp(min=0)
        if bool((lower >= y).all()):
            break
        y = torch.minimum(lower, y)
    return _normalise(raised(y, u))


def _support_size(top: Tensor, mass_above) -> Tensor:
    """Largest n such that ``mass_above(top[n - 1]) < 1``, by bisection; ``top`` is sorted downwards. ``[N, 1]``."""
    low = top.new_ones(top.shape[0], 1, dtype=torch.long)
    high = torch.full_like(low, top.shape[-1])
    for _ in range(top.shape[-1].bit_length()):
        middle = (low + high + 1) // 2
        inside = mass_above(top.gather(-1, middle - 1)) < 1
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle - 1)
        high = torch.maximum(low, high)
    return low


def _normalise(p: Tensor) -> Tensor:
    return p / p.sum(-1, keepdim=True)
