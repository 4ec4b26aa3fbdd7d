"""Scores with gaps no wider than matters, so that a sum of them rounds nothing away."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._numerics import summable


def close_gaps(scores: Tensor, transition: Tensor, at_most: bool) -> Tensor:
    r"""Scores ``[B, n]`` of equal marginals over sequences with (at most) k ones, without wide gaps.

    Exchanging a one below a gap for a zero above it gains the gap, loses at most 1 by the regulariser and at most four
    transition scores (two edges given up, two taken on). So a wider gap only says that the entries above it come first:
    they hold a fixed number of ones, and a constant may be added to all of them. Without this, one score of 1e20 would
    round away all the others in the sums of the search. With ``at_most``, zero is a level of its own, and stays.
    """
    scores, transition = summable(scores), summable(transition)
    barred = (transition == -math.inf).any(-1, keepdim=True)  # then not every exchange is allowed: all gaps stay
    strongest = torch.where(barred, 0.0, transition).abs().amax(-1, keepdim=True) if transition.shape[-1] else 0.0
    widest = 2 + 4 * strongest + torch.zeros_like(scores[:, :1])
    level = torch.cat([scores, torch.zeros_like(scores[:, :1])], -1) if at_most else scores
    falling, order = level.sort(dim=-1, descending=True)
    step = torch.nn.functional.pad(falling[:, :-1] - falling[:, 1:], (1, 0))
    wide = (step > widest) & (falling > -math.inf) & ~barred
    # Levels between two gaps keep their distances from the highest of them.
    place = torch.arange(level.shape[-1], device=level.device)
    top = falling.gather(1, torch.where(wide, place, 0).cummax(-1).values)
    below = torch.where(falling == -math.inf, 0.0, falling - top)
    last = torch.nn.functional.pad(below[:, :-1], (1, 0))
    moved = (below + torch.where(wide, last - widest, 0.0).cumsum(-1)).masked_fill(falling == -math.inf, -math.inf)
    moved = torch.empty_like(level).scatter(1, order, moved)
    if not at_most:
        return moved
    return torch.where(wide.any(-1, keepdim=True), (moved - moved[:, -1:])[:, :-1], scores)
