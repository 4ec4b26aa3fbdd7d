"""Solve maps with bounds in plain torch: exact, slow, any device. All other kernels are tested against this one.

Rows are solved in float64, and edge cases settled, as in :mod:`omegamax.kernels.rows.reference`. Bounds and totals are
floats or tensors with the rank of the scores.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.kernels.bounds.jacobians import box_simplex_vjp as box_simplex_vjp
from omegamax.kernels.bounds.jacobians import capped_softmax_vjp as capped_softmax_vjp
from omegamax.kernels.bounds.jacobians import k_subsets_vjp as k_subsets_vjp
from omegamax.kernels.rows.reference import flatten_parameter, solve_rows


def k_subsets(z: Tensor, k: float | Tensor, dim: int = -1) -> Tensor:
    """Project onto ``{0 <= p <= 1, sum p = k}``; a row with fewer than ``k`` entries left gives ones there."""
    return box_simplex(z, 0.0, 1.0, k, dim)


def box_simplex(
    z: Tensor, lower: float | Tensor, upper: float | Tensor, total: float | Tensor, dim: int = -1
) -> Tensor:
    """Project onto ``{lower <= p <= upper, sum p = total}``; ``total`` has size 1 along ``dim``."""
    low, high = (flatten_parameter(bound, z, dim, z.shape[dim]) for bound in (lower, upper))
    sums = flatten_parameter(total, z, dim, 1)

    def solve(u: Tensor) -> Tensor:
        # F(tau) = sum clip(u - tau, low, high) falls along a broken line with kinks where an entry leaves its upper
        # bound, at u - high, and where it arrives at its lower one, at u - low. Sort the kinks; a binary search finds
        # the last one with F >= total. Kinks keep what rounding takes from them, because 1e15 - 0.4 rounds
        # to 1e15, and which entries are at a bound is read off the order of the kinks.
        gone = u == -math.inf
        lo, hi = torch.where(gone, 0.0, low), torch.where(gone, 0.0, high)
        goal = torch.minimum(torch.maximum(sums, lo.sum(-1, keepdim=True)), hi.sum(-1, keepdim=True))
        # No probability is above the goal, and an infinite ceiling would be no kink.
        hi = torch.minimum(hi, torch.maximum(goal, lo))
        scores = torch.where(gone, 0.0, u)
        kinks, lost = _difference(scores.repeat(1, 2), torch.cat([hi, lo], -1))
        order = lost.argsort(dim=-1, stable=True)
        order = order.gather(-1, kinks.gather(-1, order).argsort(dim=-1, stable=True))
        kinks, lost = kinks.gather(-1, order), lost.gather(-1, order)
        leaves, arrives = order.argsort(-1).chunk(2, -1)

        def clip_at(kink: Tensor) -> Tensor:
            inside = (scores - kinks.gather(-1, kink) - lost.gather(-1, kink)).clamp(lo, hi)
            return torch.where(arrives <= kink, lo, torch.where(leaves >= kink, hi, inside))

        first = kinks.new_zeros(kinks.shape[0], 1, dtype=torch.long)
        last = torch.full_like(first, kinks.shape[-1] - 1)
        for _ in range(kinks.shape[-1].bit_length()):
            middle = (first + last + 1) // 2
            above = clip_at(middle).sum(-1, keepdim=True) >= goal
            first, last = torch.where(above, middle, first), torch.where(above, last, middle - 1)
            last = torch.maximum(first, last)
        p = clip_at(first)
        # Beyond that kink the free entries share what the others leave. Measured from the largest of them, whose
        # distances are below 1, their scores lose no digits.
        free = (leaves <= first) & (arrives > first) & ~gone & (p.sum(-1, keepdim=True) > goal)
        rest = goal - torch.where(free, 0.0, torch.where(arrives <= first, lo, hi)).sum(-1, keepdim=True)
        gap = torch.where(free, u - torch.where(free, u, -math.inf).amax(-1, keepdim=True), 0.0)
        share = (rest - gap.sum(-1, keepdim=True)) / free.sum(-1, keepdim=True).clamp(min=1)
        return torch.where(free, (gap + share).clamp(lo, hi), p)

    return solve_rows(solve, z, dim, shift=False)


def capped_softmax(z: Tensor, upper: float | Tensor, dim: int = -1) -> Tensor:
    """Compute ``min(upper, c exp(z))`` with ``c`` such that it sums to one."""
    cap = flatten_parameter(upper, z, dim, z.shape[dim])

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

        def share_rest(capped: Tensor) -> Tensor:
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
            over = share_rest(rank < middle).gather(-1, following) > caps.gather(-1, following)
            over = over & (middle < u.shape[-1])
            low, high = torch.where(over, middle + 1, low), torch.where(over, high, middle)
            low = torch.minimum(low, high)
        capped = rank < high
        share = share_rest(capped)
        while bool((over := share > caps).any()):  # a close call that rounding decided
            capped = capped | over
            share = share_rest(capped)
        return torch.where(capped, caps, share)

    return solve_rows(solve, z, dim, shift=False)


def _difference(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``a - b`` rounded, and what the rounding took (Knuth's TwoSum): together they are exact."""
    rounded = a - b
    back = rounded - a
    return rounded, (a - (rounded - back)) - (b + back)
