"""Total variation on a chain: a row is split at its levels until all of its parts are level."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor
from torch.nn.functional import pad

from omegamax.kernels.export.axis import Parameter, keep, move_back, move_last, to_rows

MORE_ROUNDS = 6  # of splitting a row at its levels, than it takes to halve it until single entries are left
SLACK = 1e-13  # relative to the largest excess: rounding
HUGE = 1e300


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
    row = move_last(x, dim).double() + torch.zeros(size, dtype=torch.float64, device=x.device)  # of no other length
    gone = row == -math.inf
    y = keep(row, ~gone)
    # An absent entry has no edges.
    limits = keep(to_rows(strength, x, dim).expand(row.shape)[..., 1:], ~(gone[..., 1:] | gone[..., :-1]))
    side = 0 * limits  # 1 on an edge between two parts where w falls, -1 where it rises
    for _ in range(size.bit_length() + MORE_ROUNDS):
        free = keep(limits, side == 0)
        excess = _pull(y, limits, side) - _average(y, limits, side)
        above = (_gain(excess, free, size) > SLACK * (1 + excess.abs().amax(-1, keepdim=True))).to(y.dtype)
        side = side + keep(above[..., :-1] - above[..., 1:], free > 0)
    w = _average(y, limits, side).masked_fill(gone, -math.inf)
    spoilt = ((y.abs() < math.inf).to(y.dtype).amin(-1, keepdim=True) < 1).expand(w.shape)
    return move_back(w.masked_fill(spoilt, math.nan), dim).to(x.dtype)


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


def _fix_size(x: Tensor, dim: int) -> int:
    """Return the length of the rows as an int: what is exported then takes no other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        return int(x.shape[dim])
