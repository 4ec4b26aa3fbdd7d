r"""Maps in plain operators of torch, for graphs that others than omegamax run: ONNX, ``torch.export``, ``torch.jit.trace``.

A function here takes what the kernel of its name takes. No step depends on values: loops have a fixed number of steps.
Rows may have any length; where that is known while a graph is made, fewer steps are written down. Closed forms are
computed in the dtype of the scores, all others in float64, because thresholds are differences of sums. As everywhere,
a row with nothing left (all ``-inf``) gives zeros, one that holds NaN or ``+inf`` gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from omegamax.kernels.rows.reference import count_bits, solve_gentle, solve_norm, solve_steep

NEWTON_STEPS = 20  # 15 were the most that a row of any alpha was seen to need
LEVEL_ROUNDS = 24  # of splitting a row at its levels; 6 to 12 make most rows exact
HUGE = 1e300

SLACK = 1e-13  # relative to the largest excess: rounding

Parameter = float | Tensor


def entmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    r"""Compute entmax: in closed form for the alphas that have one, else by Newton's method.

    .. math:: p_i = \bigl[1 + (\alpha - 1)(u_i - l)\bigr]_+^{1/(\alpha - 1)}, \quad u = z - \max z, \quad \sum_i p_i = 1
    """
    if isinstance(alpha, Tensor):
        e = alpha.movedim(dim, -1) - 1
        return _solve_rows(lambda u: _solve_any(u, e.double()), z.double(), dim).to(z.dtype)
    closed = {1.0: _softmax, 1.5: _entmax15, 2.0: _sparsemax, math.inf: _argmax}.get(alpha)
    if closed is not None:
        return _solve_rows(closed, z, dim)
    solve = solve_gentle if alpha < 2 else solve_steep
    e = alpha - 1
    return _solve_rows(lambda u: solve(u, torch.full_like(u[..., :1], e), NEWTON_STEPS), z.double(), dim).to(z.dtype)


def normmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    r"""Compute normmax by Newton's method.

    .. math:: p_i \propto [1 + u_i - l]_+^{1/(\alpha - 1)}, \quad \lVert [1 + u - l]_+ \rVert_{\alpha/(\alpha-1)} = 1
    """

    def solve(u: Tensor) -> Tensor:
        a = alpha.movedim(dim, -1).double() if isinstance(alpha, Tensor) else torch.full_like(u[..., :1], alpha)
        return solve_norm(u, (1 / (a - 1)).expand(u[..., :1].shape), NEWTON_STEPS)

    return _solve_rows(solve, z.double(), dim).to(z.dtype)


def k_subsets(z: Tensor, k: Parameter, dim: int) -> Tensor:
    r"""Compute ``clip(z - tau, 0, 1)`` with the sum k."""
    return box_simplex(z, 0.0, 1.0, k, dim)


def box_simplex(z: Tensor, lower: Parameter, upper: Parameter, total: Parameter, dim: int) -> Tensor:
    r"""Compute ``clip(z - tau, lower, upper)`` with the sum ``total`` from its sorted kinks.

    .. math:: F(\tau) = \sum_i \mathrm{clip}(z_i - \tau, l_i, u_i), \qquad
              F(t_{j+1}) = F(t_j) - n_j (t_{j+1} - t_j)

    falls from kink to kink, an entry starting to count for n at ``z - u`` and ceasing to at ``z - l``.
    """
    low, high, goal = (_move_last(a, z, dim) for a in (lower, upper, total))

    def solve(scores: Tensor) -> Tensor:
        gone = scores == -math.inf
        x, l, u = torch.where(gone, 0.0, scores), torch.where(gone, 0.0, low), torch.where(gone, 0.0, high)  # noqa: E741
        least, most = l.sum(-1, keepdim=True), u.sum(-1, keepdim=True)
        wanted = torch.minimum(torch.maximum(goal.expand(least.shape), least), most)
        kinks, order = torch.cat([x - u, x - l], -1).sort(-1)
        change = torch.cat([torch.ones_like(x), -torch.ones_like(x)], -1).gather(-1, order)
        count = change.cumsum(-1)
        fall = count[..., :-1] * (kinks[..., 1:] - kinks[..., :-1])
        at_kink = most - torch.cat([torch.zeros_like(least), fall.cumsum(-1)], -1)
        last = ((at_kink >= wanted).long().sum(-1, keepdim=True) - 1).clamp(min=0)
        excess, free = at_kink.gather(-1, last) - wanted, count.gather(-1, last)
        tau = kinks.gather(-1, last) + excess / free.clamp(min=1)
        p = torch.minimum(torch.maximum(x - tau, l), u)
        # What rounding left, large scores most of all, is shared by the entries between their bounds.
        between = (p > l) & (p < u)
        short = (wanted - p.sum(-1, keepdim=True)) / between.to(p.dtype).sum(-1, keepdim=True).clamp(min=1)
        return torch.where(between, torch.minimum(torch.maximum(p + short, l), u), p)

    return _solve_rows(solve, z.double(), dim, shift=False).to(z.dtype)


def capped_softmax(z: Tensor, upper: Parameter, dim: int) -> Tensor:
    r"""Compute ``min(upper, c exp(z))`` with the sum 1.

    Entries reach their bounds in the order of ``upper / exp(z)``. How many do is found by bisection: with the first n
    at their bounds the others share what is left, and n is large enough if the next one's share is below its bound.
    """
    high = _move_last(upper, z, dim)

    def solve(u: Tensor) -> Tensor:
        gone = u == -math.inf
        cap = torch.where(gone, 0.0, high)
        order = torch.where(gone, math.inf, high.log() - u).sort(-1).indices
        rank = order.sort(-1).indices

        def shares(capped: Tensor) -> Tensor:
            free = ~capped & ~gone
            anchor = torch.where(free, u, -math.inf).amax(-1, keepdim=True)
            weight = torch.where(free, (u - anchor).exp(), 0.0)
            left = (1 - torch.where(capped, cap, 0.0).sum(-1, keepdim=True)).clamp(min=0)
            return torch.where(free, weight * left / weight.sum(-1, keepdim=True), 0.0)

        size = u.shape[-1]
        low = torch.zeros_like(rank[..., :1])
        most = torch.full_like(low, size)
        for _ in range(count_bits(size)):
            middle = (low + most) // 2
            following = order.gather(-1, middle.clamp(max=size - 1))
            over = shares(rank < middle).gather(-1, following) > cap.gather(-1, following)
            over = over & (middle < size)
            low, most = torch.where(over, middle + 1, low), torch.where(over, most, middle)
            low = torch.minimum(low, most)
        capped = rank < most
        return torch.where(capped, cap, torch.minimum(shares(capped), cap))

    return _solve_rows(solve, z.double(), dim, shift=False).to(z.dtype)


def tv_chain(x: Tensor, strength: Parameter, dim: int) -> Tensor:
    r"""Compute ``argmin_w 1/2 |w - x|^2 + lambda * sum_i |w_i - w_{i+1}|`` by splitting the row at levels.

    The entries of w above a level t are those of the set S that maximises
    :math:`\sum_{i \in S} (x_i - t) - \lambda\, |\partial S|`. A part of the row that is not level is split at its mean
    into the runs above and below, all parts at once; an edge between two runs pulls them together by lambda, and parts
    that stay whole are level. Rounds halve what is left, so that their number suffices for rows of any shape.
    """
    if x.shape[dim] == 1:
        return x
    row = x.movedim(dim, -1).double()
    gone = row == -math.inf
    y = torch.where(gone, 0.0, row)
    # An absent entry has no edges.
    limits = torch.where(gone[..., 1:] | gone[..., :-1], 0.0, _move_last(strength, x, dim))
    side = torch.zeros_like(limits)  # 1 on an edge between two parts where w falls, -1 where it rises
    for _ in range(LEVEL_ROUNDS):
        free = torch.where(side == 0, limits, 0.0)
        excess = _pull(y, limits, side) - _average(y, limits, side)
        above = (_gain(excess, free) > SLACK * (1 + excess.abs().amax(-1, keepdim=True))).to(y.dtype)
        side = side + torch.where(free > 0, above[..., :-1] - above[..., 1:], 0.0)
    w = torch.where(gone, row, _average(y, limits, side))
    spoilt = (row.isnan() | (row == math.inf)).any(-1, keepdim=True)
    return torch.where(spoilt, math.nan, w).to(x.dtype).movedim(-1, dim)


def _pull(x: Tensor, limits: Tensor, side: Tensor) -> Tensor:
    """Return the entries with what the edges between parts do to them."""
    held = side * limits
    return x - pad(held, (0, 1)) + pad(held, (1, 0))


def _average(x: Tensor, limits: Tensor, side: Tensor) -> Tensor:
    """Return the level of each entry's part, ``[*, K]``; which entries share a part is written as a matrix."""
    part = pad(((limits <= 0) | (side != 0)).to(x.dtype), (1, 0)).cumsum(-1)
    share = (part.unsqueeze(-1) == part.unsqueeze(-2)).to(x.dtype)
    return (share @ _pull(x, limits, side).unsqueeze(-1)).squeeze(-1) / share.sum(-1)


def _gain(excess: Tensor, limits: Tensor) -> Tensor:
    """Return what S gains by an entry, with the best choice of all the others: its excess and a message from each side.

    Messages follow ``m_i = clip(m_{i-1} + excess_i, -limit_i, limit_i)``.
    """
    from_left = pad(_messages(excess[..., :-1], limits), (1, 0))
    from_right = pad(_messages(excess.flip(-1)[..., :-1], limits.flip(-1)).flip(-1), (0, 1))
    return excess + from_left + from_right


def _messages(excess: Tensor, limits: Tensor) -> Tensor:
    """Return the messages over all edges; less the running sum s of the excess, each is the last but clipped again.

    Clipping to one interval and then to another is clipping to an interval: intervals of 1, 2, 4, ... steps are joined.
    """
    s = excess.cumsum(-1)
    low, high = -limits - s, limits - s
    step, size = 1, limits.shape[-1]
    for _ in range(count_bits(size)):
        before_low = pad(low, (step, 0), value=-HUGE)[..., :size]
        before_high = pad(high, (step, 0), value=HUGE)[..., :size]
        low, high = (torch.minimum(torch.maximum(a, low), high) for a in (before_low, before_high))
        step *= 2
    return torch.minimum(torch.maximum(torch.zeros_like(low), low), high) + s


def _solve_rows(solve: Callable[[Tensor], Tensor], z: Tensor, dim: int, shift: bool = True) -> Tensor:
    """Apply ``solve`` along ``dim`` and settle rows without a finite maximum, which else becomes 0 if ``shift``."""
    row = z.movedim(dim, -1)
    top = row.amax(-1, keepdim=True)
    sound = top.abs() < math.inf
    p = solve(torch.where(sound, row - top if shift else row, 0.0))
    p = torch.where(sound, p, torch.where(top == -math.inf, 0.0, math.nan))
    return p.movedim(-1, dim)


def _move_last(value: Parameter, z: Tensor, dim: int) -> Tensor:
    """Return a parameter in float64, with its axis last if it is a tensor."""
    if isinstance(value, Tensor):
        return value.movedim(dim, -1).double()
    return torch.full((1,), value, dtype=torch.float64, device=z.device)


def _softmax(u: Tensor) -> Tensor:
    return u.softmax(-1)


def _argmax(u: Tensor) -> Tensor:
    top = (u == 0).to(u.dtype)
    return top / top.sum(-1, keepdim=True)


def _sparsemax(u: Tensor) -> Tensor:
    """Martins & Astudillo (2016), Alg. 1: the n largest are the support if ``1 + n u_(n)`` exceeds their sum."""
    top = u.sort(-1, descending=True).values
    n = torch.arange(1, u.shape[-1] + 1, device=u.device, dtype=u.dtype)
    support = 1 + n * top > top.cumsum(-1)
    size = support.to(u.dtype).sum(-1, keepdim=True)
    tau = (torch.where(support, top, 0.0).sum(-1, keepdim=True) - 1) / size
    return (u - tau).clamp(min=0)


def _entmax15(u: Tensor) -> Tensor:
    """Peters, Niculae & Martins (2019), Alg. 2, with ``v = u / 2``.

    The n largest are the support if their squared gaps to the last of them, ``sum_i (v_(i) - v_(n))^2``, are below 1.
    """
    v = u / 2
    top = v.sort(-1, descending=True).values
    n = torch.arange(1, u.shape[-1] + 1, device=u.device, dtype=u.dtype)
    support = n * top.square() - 2 * top * top.cumsum(-1) + top.square().cumsum(-1) < 1
    size = support.to(u.dtype).sum(-1, keepdim=True)
    mean = torch.where(support, top, 0.0).sum(-1, keepdim=True) / size
    spread = torch.where(support, top - mean, 0.0).square().sum(-1, keepdim=True)
    tau = mean - ((1 - spread).clamp(min=0) / size).sqrt()
    return (v - tau).clamp(min=0).square()


def _solve_any(u: Tensor, e: Tensor) -> Tensor:
    """Solve entmax for one alpha for each row, ``e = alpha - 1``."""
    e = e.expand(u[..., :1].shape)
    gentle, endless = e <= 1, e == math.inf
    p = torch.where(endless, _argmax(u), solve_steep(u, torch.where(gentle | endless, 2.0, e), NEWTON_STEPS))
    return torch.where(gentle, solve_gentle(u, torch.where(gentle, e, 0.0), NEWTON_STEPS), p)
