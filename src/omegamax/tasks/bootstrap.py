"""Intervals by the bootstrap: what a number would be on other samples of what it is over."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import check_integer

Interval = tuple[float, float, float]  # an estimate, and the ends of its 95 % interval


def draw_counts(count: int, draws: int, seed: int = 0) -> Tensor:
    """Return how often each of ``count`` things is in each sample with replacement, ``[draws, count]``, float64.

    >>> draw_counts(3, 2).sum(1)
    tensor([3., 3.], dtype=torch.float64)
    """
    check_integer("draw_counts", "count", count, least=1)
    check_integer("draw_counts", "draws", draws, least=1)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(count, (draws, count), generator=generator)
    ones = torch.ones_like(chosen, dtype=torch.float64)
    return torch.zeros(draws, count, dtype=torch.float64).scatter_add_(1, chosen, ones)


def take_middle(value: float, drawn: Tensor) -> Interval:
    """Return an estimate with the middle 95 % of what samples give (percentile bootstrap).

    Samples that give NaN, such as those of nothing that was measured, are left out; if all do, or the estimate is NaN,
    so is the interval.

        >>> take_middle(0.5, torch.linspace(0, 1, 101, dtype=torch.float64))
        (0.5, 0.025, 0.975)
    """
    known = drawn[~drawn.isnan()]
    if math.isnan(value) or not len(known):
        return math.nan, math.nan, math.nan
    low, high = torch.quantile(known, torch.tensor([0.025, 0.975], dtype=known.dtype)).tolist()
    return value, low, high
