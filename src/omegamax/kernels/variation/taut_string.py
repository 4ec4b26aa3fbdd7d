r"""Solve total variation on chains, for a batch of rows at once: a taut string found by its contacts.

With ``y`` the cumulative sums of a row, ``argmin 1/2 |w - x|^2 + sum_i lambda_i |w_i - w_{i+1}|`` is the slope of the
shortest string through the tube ``y +- lambda`` with its ends held. If the straight line between the ends leaves the
tube, the string touches the tube where the line is farthest outside, on either side: between two contacts with the
upper wall the string is concave, so the line, minus the string, is nowhere larger than at those contacts or the ends.
These contacts hold the string as its ends do. Splitting there, all pieces of all rows at once, until every line fits is
exact, and takes about as many rounds as the logarithm of the number of pieces.

Rows come last: ``[K, R]`` for entries, ``[K - 1, R]`` for edges.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.kernels.variation.graphs import ChainGraph, average, cumulate


def solve(chain: ChainGraph, x: Tensor, limits: Tensor) -> Tensor:
    """Solve for ``w: [K, R]``, with ``x`` within [-2, 2] and lambda as ``limits: [K - 1, R]``; a limit of 0 cuts."""
    eps = torch.finfo(x.dtype).eps
    side = torch.zeros_like(limits)  # 1 where the flow is at its upper limit (w falls there), -1 at its lower one

    def draw_lines() -> tuple[Tensor, Tensor, Tensor]:
        """Return the pieces, their values if each is straight, and the flows over the edges that follow from these."""
        piece = chain.components((limits > 0) & (side == 0))
        pulled = x - chain.divergence(side * limits)
        value = average(pulled, piece)
        # Every piece sums to zero, so that one running sum over the row starts each of them afresh.
        return piece, value, cumulate(pulled - value)[:-1]

    for _ in range(chain.nodes):
        piece, value, flow = draw_lines()
        if not flow.numel():
            return value
        inside = (limits > 0) & (side == 0)
        slack = 8 * math.sqrt(chain.nodes) * eps * (1 + flow.abs().amax(0))
        upper = _find_farthest(torch.where(inside, flow - limits, -math.inf), piece[:-1], slack)
        lower = _find_farthest(torch.where(inside, -flow - limits, -math.inf), piece[:-1], slack)
        if not bool((upper | lower).any()):
            break
        side = side + upper.to(side.dtype) - lower.to(side.dtype)
    # Pieces that came out equal, or by rounding in the wrong order, are one.
    for _ in range(chain.nodes):
        tied = (side != 0) & (chain.difference(value) * side <= 32 * eps * (1 + limits))
        if not bool(tied.any()):
            break
        side = torch.where(tied, 0.0, side)
        _, value, _ = draw_lines()
    return value


def _find_farthest(outside: Tensor, piece: Tensor, slack: Tensor) -> Tensor:
    """Tell which edges of each piece are farthest outside, if any are."""
    most = torch.full_like(outside, -math.inf).scatter_reduce_(0, piece, outside, "amax")
    return (outside > slack) & (outside == most.gather(0, piece))
