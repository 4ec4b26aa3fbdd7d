"""Close gaps between scores that are wider than matters, so that a sum of them rounds nothing away."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._numerics import summable


def close_gaps(scores: Tensor, transition: Tensor, at_most: bool) -> Tensor:
    r"""Return scores ``[B, n]`` without wide gaps that have the same marginals over sequences with (at most) k ones.

    Exchanging a one below a gap for a zero above it gains the gap, loses at most 1 by the regulariser and at most four
    transition scores (two edges given up, two taken on). So a wider gap only says that the entries above it come first:
    they hold a fixed number of ones, and a constant may be added to all of them. Without this, one score of 1e20 would
    round away all the others in the sums of the search. With ``at_most``, zero is a level of its own, and stays.
    """
    scores, transition = summable(scores), summable(transition)
    forbidden = (transition == -math.inf).any(-1, keepdim=True)  # then not every exchange is allowed: all gaps stay
    strongest = torch.where(forbidden, 0.0, transition).abs().amax(-1, keepdim=True) if transition.shape[-1] else 0.0
    widest = 2 + 4 * strongest + torch.zeros_like(scores[:, :1])
    levels = torch.cat([scores, torch.zeros_like(scores[:, :1])], -1) if at_most else scores
    descending, order = levels.sort(dim=-1, descending=True)
    gaps = torch.nn.functional.pad(descending[:, :-1] - descending[:, 1:], (1, 0))
    wide = (gaps > widest) & (descending > -math.inf) & ~forbidden
    # Levels between two wide gaps keep their distances from the highest of them.
    positions = torch.arange(levels.shape[-1], device=levels.device)
    top = descending.gather(1, torch.where(wide, positions, 0).cummax(-1).values)
    below_top = torch.where(descending == -math.inf, 0.0, descending - top)
    last = torch.nn.functional.pad(below_top[:, :-1], (1, 0))
    closed = below_top + torch.where(wide, last - widest, 0.0).cumsum(-1)
    closed = closed.masked_fill(descending == -math.inf, -math.inf)
    closed = torch.empty_like(levels).scatter(1, order, closed)
    if not at_most:
        return closed
    return torch.where(wide.any(-1, keepdim=True), (closed - closed[:, -1:])[:, :-1], scores)
