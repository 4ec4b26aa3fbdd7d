"""Maps with bounds: k-subsets and constrained sparsemax from sorted kinks, constrained softmax by bisection."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from omegamax.kernels.export.axis import Parameter, count_rounds, keep, solve_rows, to_rows


def k_subsets(z: Tensor, k: Parameter, dim: int) -> Tensor:
    r"""Compute ``clip(z - tau, 0, 1)`` with the sum k."""
    return box_simplex(z, 0.0, 1.0, k, dim)


def box_simplex(z: Tensor, lower: Parameter, upper: Parameter, total: Parameter, dim: int) -> Tensor:
    r"""Compute ``clip(z - tau, lower, upper)`` with the sum ``total`` from its sorted kinks.

    .. math:: F(\tau) = \sum_i \mathrm{clip}(z_i - \tau, l_i, u_i), \qquad
              F(t_{j+1}) = F(t_j) - n_j (t_{j+1} - t_j)

    falls from kink to kink, an entry starting to count for n at ``z - u`` and ceasing to at ``z - l``.
    """
    low, high, goal = (to_rows(a, z, dim) for a in (lower, upper, total))

    def solve(scores: Tensor) -> Tensor:
        gone = scores == -math.inf
        x, l, u = (keep(a.expand(scores.shape), ~gone) for a in (scores, low, high))  # noqa: E741
        least = l.sum(-1, keepdim=True)
        wanted = torch.minimum(torch.maximum(goal.expand(least.shape), least), u.sum(-1, keepdim=True))
        # No probability is above the goal, and an infinite ceiling would be no kink.
        u = torch.minimum(u, torch.maximum(wanted, l))
        most = u.sum(-1, keepdim=True)
        kinks, order = torch.cat([x - u, x - l], -1).sort(-1)
        count = (1 - 2 * (order >= x.shape[-1]).to(x.dtype)).cumsum(-1)
        fall = count[..., :-1] * (kinks[..., 1:] - kinks[..., :-1])
        at_kink = most - pad(fall.cumsum(-1), (1, 0))
        last = ((at_kink >= wanted).long().sum(-1, keepdim=True) - 1).clamp(min=0)
        excess, free = at_kink.gather(-1, last) - wanted, count.gather(-1, last)
        tau = kinks.gather(-1, last) + excess / free.clamp(min=1)
        p = torch.minimum(torch.maximum(x - tau, l), u)
        # What rounding left, large scores most of all, is shared by the entries between their bounds.
        between = (p > l) & (p < u)
        short = (wanted - p.sum(-1, keepdim=True)) / between.to(p.dtype).sum(-1, keepdim=True).clamp(min=1)
        return torch.where(between, torch.minimum(torch.maximum(p + short, l), u), p)

    return solve_rows(solve, z.double(), dim, shift=False).to(z.dtype)


def capped_softmax(z: Tensor, upper: Parameter, dim: int) -> Tensor:
    r"""Compute ``min(upper, c exp(z))`` with the sum 1.

    Entries reach their bounds in the order of ``upper / exp(z)``. How many do is found by bisection: with the first n
    at their bounds the others share what is left, and n is large enough if the next one's share is below its bound.
    """
    high = to_rows(upper, z, dim)

    def solve(u: Tensor) -> Tensor:
        gone = u == -math.inf
        cap = keep(high.expand(u.shape), ~gone)
        order = (high.log() - u).masked_fill(gone, math.inf).sort(-1)[1]
        rank = order.sort(-1)[1]

        def shares(capped: Tensor) -> Tensor:
            free = ~capped & ~gone
            anchor = u.masked_fill(~free, -math.inf).amax(-1, keepdim=True)
            weight = keep((u - anchor).exp(), free)
            left = (1 - keep(cap, capped).sum(-1, keepdim=True)).clamp(min=0)
            return keep(weight * left / weight.sum(-1, keepdim=True), free)

        size = u.shape[-1]
        low = 0 * rank[..., :1]
        most = low + size
        for _ in range(count_rounds(size)):
            middle = torch.div(low + most, 2, rounding_mode="floor")
            following = order.gather(-1, middle.clamp(max=size - 1))
            over = shares(rank < middle).gather(-1, following) > cap.gather(-1, following)
            over = over & (middle < size)
            low, most = torch.where(over, middle + 1, low), torch.where(over, most, middle)
            low = torch.minimum(low, most)
        capped = rank < most
        return torch.where(capped, cap, torch.minimum(shares(capped), cap))

    return solve_rows(solve, z.double(), dim, shift=False).to(z.dtype)
