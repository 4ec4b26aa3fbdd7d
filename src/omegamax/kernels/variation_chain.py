r"""Total variation on chains, for a batch of rows at once: a taut string found by its contacts.

With ``y`` the cumulative sums of the row, ``argmin 1/2 |w - x|^2 + sum_i lambda_i |w_i - w_{i+1}|`` is the slope of the
shortest string through the tube ``y +- lambda`` with its ends held. If the straight line between the ends leaves the
tube, the string touches the tube where the line is farthest outside, on either side: between two contacts with the
upper wall the string is concave, so the line, minus the string, is nowhere larger than at those contacts or the ends.
These contacts hold the string as its ends do. Splitting there, all pieces of all rows at once, until every line fits is
exact, and takes about as many rounds as the logarithm of the number of pieces.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad


def solve(x: Tensor, limits: Tensor) -> Tensor:
    """The row ``w`` for ``x: [R, K]`` within [-1, 1] and ``limits: [R, K - 1]``, lambda; a limit of 0 is no edge."""
    loose = limits == 0
    side = torch.zeros_like(limits)  # 1 where the flow is at its upper limit (w falls there), -1 at its lower one
    for _ in range(x.shape[-1]):
        value, flow = _lines(x, limits, side, loose)
        cut = loose | (side != 0)
        slack = _slack(flow)
        group = _groups(cut)[..., :-1]
        upper = _farthest(torch.where(cut, -math.inf, flow - limits), group, slack)
        lower = _farthest(torch.where(cut, -math.inf, -flow - limits), group, slack)
        if not bool((upper | lower).any()):
            break
        side = side + upper.to(side.dtype) - lower.to(side.dtype)
    # Pieces that came out equal, or by rounding in the wrong order, are one.
    for _ in range(x.shape[-1]):
        step = (value[..., :-1] - value[..., 1:]) * side
        tied = (side != 0) & (step <= 32 * torch.finfo(x.dtype).eps * (1 + limits))
        if not bool(tied.any()):
            break
        side = torch.where(tied, 0.0, side)
        value, _ = _lines(x, limits, side, loose)
    return value


def runs(joined: Tensor) -> Tensor:
    """Number of the run of joined neighbours that each entry is in: ``[R, K - 1] -> [R, K]``."""
    return _groups(~joined)


def averaged(v: Tensor, group: Tensor) -> Tensor:
    """The mean of ``v`` over each group, at each of its entries, ``[R, K]``; one number for a group."""
    count = torch.zeros_like(v).scatter_add_(-1, group, torch.ones_like(v))
    total = torch.zeros_like(v).scatter_add_(-1, group, v)
    return (total / count.clamp(min=1)).gather(-1, group)


def _groups(cut: Tensor) -> Tensor:
    return pad(cut.long().cumsum(-1), (1, 0))


def _lines(x: Tensor, limits: Tensor, side: Tensor, loose: Tensor) -> tuple[Tensor, Tensor]:
    """The values if each piece is straight, and the flows over the edges that follow from them."""
    held = limits * side
    pulled = x - pad(held, (0, 1)) + pad(held, (1, 0))
    value = averaged(pulled, _groups(loose | (side != 0)))
    # Every piece sums to zero, so that one running sum over the row starts each of them afresh.
    return value, (pulled - value).cumsum(-1)[..., :-1]


def _slack(flow: Tensor) -> Tensor:
    """What rounding can make of a flow that is at its limit."""
    size = flow.shape[-1]
    largest = flow.abs().amax(-1, keepdim=True) if size else flow.new_zeros(())
    return 8 * math.sqrt(size + 1) * torch.finfo(flow.dtype).eps * (1 + largest)


def _farthest(outside: Tensor, group: Tensor, slack: Tensor) -> Tensor:
    """Where the edges of each group are farthest outside, if they are."""
    most = torch.full_like(outside, -math.inf).scatter_reduce_(-1, group, outside, "amax")
    return (outside > slack) & (outside == most.gather(-1, group))
