r"""Maps in plain operators of torch, for graphs that run without omegamax: ONNX, ``torch.export``, ``torch.jit.trace``.

A function here takes what the kernel of its name takes. No step depends on values: loops have a fixed number of steps.
Rows may have any length, except for :func:`tv_chain`; where it is known while a graph is made, fewer steps are written
down. Closed forms are computed in the dtype of the scores, all others in float64, because thresholds are differences of
sums. As everywhere, a row with nothing left (all ``-inf``) gives zeros, one that holds NaN or ``+inf`` gives NaN.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

NEWTON_STEPS = 20  # 15 were the most that a row of any alpha was seen to need
MORE_ROUNDS = 6  # of splitting a row at its levels, than it takes to halve it until single entries are left
MAX_BITS = 24  # of the length of a row
SLACK = 1e-13  # relative to the largest excess: rounding
LEAST = 1e-8  # of |alpha - 1| where alpha is a tensor
HUGE, TINY = 1e300, 1e-300

Parameter = float | Tensor


def entmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    r"""Compute entmax: in closed form for the alphas that have one, else by Newton's method.

    .. math:: p_i = \bigl[1 + (\alpha - 1)(u_i - \tau)\bigr]_+^{1/(\alpha - 1)}, \quad u = z - \max z
    """
    if isinstance(alpha, Tensor):
        e = _move_last(alpha, z, dim) - 1
        return _solve_rows(lambda u: _entmax_by_row(u, e), z.double(), dim).to(z.dtype)
    closed = {1.0: _softmax, 1.5: _entmax15, 2.0: _sparsemax, math.inf: _argmax}.get(alpha)
    if closed is not None:
        return _solve_rows(closed, z, dim)
    solve = _entmax_up_to_two if alpha < 2 else _entmax_above_two
    return _solve_rows(lambda u: solve(u, alpha - 1), z.double(), dim).to(z.dtype)


def normmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    r"""Compute normmax by Newton's method on the norm, which is convex and decreasing in tau, from 0.

    .. math:: p \propto h^{1/(\alpha - 1)}, \quad h = [1 + u - \tau]_+, \quad \lVert h \rVert_q = 1, \quad
              q = \tfrac{\alpha}{\alpha - 1}, \quad u = z - \max z
    """
    exponent = 1 / (_move_last(alpha, z, dim) - 1)
    q = 1 + exponent

    def solve(u: Tensor) -> Tensor:
        tau = 0 * u.amax(-1, keepdim=True)
        for _ in range(NEWTON_STEPS):
            h = (1 + u - tau).clamp(min=0)
            weight = _keep(h.pow(exponent), h > 0)
            power = (weight * h).sum(-1, keepdim=True)
            norm = power.pow(1 / q)
            tau = torch.maximum(tau, tau + (norm - 1) * power / (norm * weight.sum(-1, keepdim=True)))
        h = (1 + u - tau).clamp(min=0)
        return _normalise(_keep(h.pow(exponent), h > 0))

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
        x, l, u = (_keep(a.expand(scores.shape), ~gone) for a in (scores, low, high))  # noqa: E741
        least, most = l.sum(-1, keepdim=True), u.sum(-1, keepdim=True)
        wanted = torch.minimum(torch.maximum(goal.expand(least.shape), least), most)
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

    return _solve_rows(solve, z.double(), dim, shift=False).to(z.dtype)


def capped_softmax(z: Tensor, upper: Parameter, dim: int) -> Tensor:
    r"""Compute ``min(upper, c exp(z))`` with the sum 1.

    Entries reach their bounds in the order of ``upper / exp(z)``. How many do is found by bisection: with the first n
    at their bounds the others share what is left, and n is large enough if the next one's share is below its bound.
    """
    high = _move_last(upper, z, dim)

    def solve(u: Tensor) -> Tensor:
        gone = u == -math.inf
        cap = _keep(high.expand(u.shape), ~gone)
        order = (high.log() - u).masked_fill(gone, math.inf).sort(-1)[1]
        rank = order.sort(-1)[1]

        def shares(capped: Tensor) -> Tensor:
            free = ~capped & ~gone
            anchor = u.masked_fill(~free, -math.inf).amax(-1, keepdim=True)
            weight = _keep((u - anchor).exp(), free)
            left = (1 - _keep(cap, capped).sum(-1, keepdim=True)).clamp(min=0)
            return _keep(weight * left / weight.sum(-1, keepdim=True), free)

        size = u.shape[-1]
        low = 0 * rank[..., :1]
        most = low + size
        for _ in range(_count_rounds(size)):
            middle = torch.div(low + most, 2, rounding_mode="floor")
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
    that stay whole are level.
    """
    size = _fix_size(x, dim)
    if size == 1:
        return x
    row = _last(x, dim).double() + torch.zeros(size, dtype=torch.float64, device=x.device)  # of no other length
    gone = row == -math.inf
    y = _keep(row, ~gone)
    # An absent entry has no edges.
    limits = _keep(_move_last(strength, x, dim).expand(row.shape)[..., 1:], ~(gone[..., 1:] | gone[..., :-1]))
    side = 0 * limits  # 1 on an edge between two parts where w falls, -1 where it rises
    for _ in range(size.bit_length() + MORE_ROUNDS):
        free = _keep(limits, side == 0)
        excess = _pull(y, limits, side) - _average(y, limits, side)
        above = (_gain(excess, free, size) > SLACK * (1 + excess.abs().amax(-1, keepdim=True))).to(y.dtype)
        side = side + _keep(above[..., :-1] - above[..., 1:], free > 0)
    w = _average(y, limits, side).masked_fill(gone, -math.inf)
    spoilt = ((y.abs() < math.inf).to(y.dtype).amin(-1, keepdim=True) < 1).expand(w.shape)
    return _back(w.masked_fill(spoilt, math.nan), dim).to(x.dtype)


def _pull(x: Tensor, limits: Tensor, side: Tensor) -> Tensor:
    """Return the entries with what the edges between parts do to them."""
    held = side * limits
    return x - pad(held, (0, 1)) + pad(held, (1, 0))


def _average(x: Tensor, limits: Tensor, side: Tensor) -> Tensor:
    """Return the level of each entry's part, ``[*, K]``; which entries share a part is written as a matrix."""
    part = pad(((limits <= 0) | (side != 0)).to(x.dtype), (1, 0)).cumsum(-1)
    share = (part.unsqueeze(-1) == part.unsqueeze(-2)).to(x.dtype)
    return (share @ _pull(x, limits, side).unsqueeze(-1)).squeeze(-1) / share.sum(-1)


def _gain(excess: Tensor, limits: Tensor, size: int) -> Tensor:
    """Return what S gains by an entry, with the best choice of all the others: its excess and a message from each side.

    Messages follow ``m_i = clip(m_{i-1} + excess_i, -limit_i, limit_i)``.
    """
    from_left = pad(_messages(excess[..., :-1], limits, size - 1), (1, 0))
    from_right = pad(_messages(excess.flip(-1)[..., :-1], limits.flip(-1), size - 1).flip(-1), (0, 1))
    return excess + from_left + from_right


def _messages(excess: Tensor, limits: Tensor, size: int) -> Tensor:
    """Return the messages over all edges; less the running sum s of the excess, each is the last but clipped again.

    Clipping to one interval and then to another is clipping to an interval: intervals of 1, 2, 4, ... steps are joined.
    """
    s = excess.cumsum(-1)
    low, high = -limits - s, limits - s
    for step in (2**i for i in range(size.bit_length())):
        before_low = pad(low, (step, 0), value=-HUGE)[..., :size]
        before_high = pad(high, (step, 0), value=HUGE)[..., :size]
        low, high = (torch.minimum(torch.maximum(a, low), high) for a in (before_low, before_high))
    return torch.minimum(low.clamp(min=0), high) + s


def _solve_rows(solve: Callable[[Tensor], Tensor], z: Tensor, dim: int, shift: bool = True) -> Tensor:
    """Apply ``solve`` along ``dim`` and settle rows without a finite maximum, which else becomes 0 if ``shift``."""
    row = _last(z, dim)
    top = row.amax(-1, keepdim=True)
    sound = top.abs() < math.inf
    p = solve(_keep(row - top if shift else row, sound))
    # Zero times what is infinite is NaN.
    p = torch.where(sound, p, (0 * top).masked_fill(top == -math.inf, 0.0))
    return _back(p, dim)


def _last(t: Tensor, dim: int) -> Tensor:
    """Return a tensor with the axis ``dim`` last; axes are counted from the front, as every exporter takes them."""
    return t if dim == t.dim() - 1 else t.movedim(dim, t.dim() - 1)


def _back(t: Tensor, dim: int) -> Tensor:
    return t if dim == t.dim() - 1 else t.movedim(t.dim() - 1, dim)


def _move_last(value: Parameter, z: Tensor, dim: int) -> Tensor:
    """Return a parameter in float64, with its axis last if it is a tensor."""
    if isinstance(value, Tensor):
        return _last(value, dim).double()
    return torch.full((1,), value, dtype=torch.float64, device=z.device)


def _keep(x: Tensor, kept: Tensor) -> Tensor:
    """Return ``x`` where ``kept``, and 0 elsewhere."""
    return x.masked_fill(~kept, 0.0)


def _normalise(p: Tensor) -> Tensor:
    return p / p.sum(-1, keepdim=True)


def _count_rounds(size: int) -> int:
    """Count the rounds of a bisection over ``size`` positions; of a size that a graph leaves open, the most."""
    return size.bit_length() if type(size) is int else MAX_BITS


def _fix_size(x: Tensor, dim: int) -> int:
    """Return the length of the rows as an int: what is exported then takes no other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        return int(x.shape[dim])


def _positions(u: Tensor) -> Tensor:
    """Return 0, 1, ... along the rows. Nothing here has the shape of a batch but what is computed from scores.

    An exporter may take such a constant for one, and with it the size of the batch.
    """
    return torch.arange(u.shape[-1], device=u.device).to(u.dtype)


def _softmax(u: Tensor) -> Tensor:
    return u.softmax(-1)


def _argmax(u: Tensor) -> Tensor:
    return _normalise((u == 0).to(u.dtype))


def _sparsemax(u: Tensor) -> Tensor:
    """Martins & Astudillo (2016), Alg. 1: the n largest are the support if ``1 + n u_(n)`` exceeds their sum."""
    top = u.sort(-1, descending=True)[0]
    n = _positions(u) + 1
    support = 1 + n * top > top.cumsum(-1)
    tau = (_keep(top, support).sum(-1, keepdim=True) - 1) / support.to(u.dtype).sum(-1, keepdim=True)
    return (u - tau).clamp(min=0)


def _entmax15(u: Tensor) -> Tensor:
    """Peters, Niculae & Martins (2019), Alg. 2, with ``v = u / 2``.

    The n largest are the support if their squared gaps to the last of them, ``sum_i (v_(i) - v_(n))^2``, are below 1.
    """
    v = u / 2
    top = v.sort(-1, descending=True)[0]
    n = _positions(u) + 1
    support = n * top * top - 2 * top * top.cumsum(-1) + (top * top).cumsum(-1) < 1
    size = support.to(u.dtype).sum(-1, keepdim=True)
    mean = _keep(top, support).sum(-1, keepdim=True) / size
    gap = _keep(top - mean, support)
    tau = mean - ((1 - (gap * gap).sum(-1, keepdim=True)).clamp(min=0) / size).sqrt()
    return (v - tau).clamp(min=0) ** 2


def _entmax_up_to_two(u: Tensor, e: Parameter) -> Tensor:
    """Solve ``e = alpha - 1 <= 1``: Newton on ``(s^e - 1) / e``, s the sum, convex and decreasing in tau, from 0."""
    tau = 0 * u.amax(-1, keepdim=True)
    for _ in range(NEWTON_STEPS):
        base = (1 + e * (u - tau)).clamp(min=0)
        p = base.pow(1 / e)
        s = p.sum(-1, keepdim=True)
        r = _keep(p / base, p > 0).sum(-1, keepdim=True)
        tau = torch.maximum(tau, tau + s / r * (1 - s.pow(-e)) / e)
    return _normalise((1 + e * (u - tau)).clamp(min=0).pow(1 / e))


def _entmax_above_two(u: Tensor, e: Parameter) -> Tensor:
    """Solve ``e = alpha - 1 > 1``, where p has infinite slope at the edge of the support.

    The unknown is y, the smallest probability: the others are ``(y^e + e gap)^(1/e)``, gap being what a score is ahead
    of the last of the support. Their sum is convex and increasing in y: Newton from above.
    """
    top = u.sort(-1, descending=True)[0]
    low = (0 * top[..., :1]).long() + 1
    high = 0 * low + u.shape[-1]
    for _ in range(_count_rounds(u.shape[-1])):  # the most entries that those above the last leave some mass
        middle = torch.div(low + high + 1, 2, rounding_mode="floor")
        ahead = (e * (top - top.gather(-1, middle - 1))).clamp(min=0)
        inside = ahead.pow(1 / e).sum(-1, keepdim=True) < 1
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle - 1)
        high = torch.maximum(low, high)
    last = top.gather(-1, low - 1)
    support = u >= last
    alone = (e * _keep(u - last, support)).pow(1 / e)  # the probability if y were 0

    def raise_to(y: Tensor) -> Tensor:
        largest = torch.maximum(y, alone)  # measured from it, no power underflows
        return _keep(largest * ((y / largest).pow(e) + (alone / largest).pow(e)).pow(1 / e), support)

    y = 1 / low.to(u.dtype)
    for _ in range(NEWTON_STEPS):
        p = raise_to(y)
        slope = _keep((y / p).pow(e - 1), p > 0).sum(-1, keepdim=True).clamp(min=1)
        y = torch.minimum(y, (y - (p.sum(-1, keepdim=True) - 1) / slope).clamp(min=TINY))
    return _normalise(raise_to(y))


def _entmax_by_row(u: Tensor, e: Tensor) -> Tensor:
    """Solve entmax for one alpha for each row, ``e = alpha - 1 [*, 1]``."""
    steep, endless = e > 1, e == math.inf
    above = _entmax_above_two(u, e.masked_fill(~steep | endless, 2.0))
    e = e.masked_fill(steep, 0.5)
    below = _entmax_up_to_two(u, e.masked_fill(e.abs() < LEAST, LEAST))
    return torch.where(steep, torch.where(endless, _argmax(u), above), below)
