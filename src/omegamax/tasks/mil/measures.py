"""Measures of answers to bags, of one network or of several side by side."""

from __future__ import annotations

import torch
from torch import Tensor


def zeros(weights: Tensor, mask: Tensor) -> Tensor:
    """Compute the share of exactly zero weights: ``[*, N, H, n]`` and a mask ``[*, N, n]`` to ``[*]``."""
    there = mask.unsqueeze(-2)
    return ((weights == 0) & there).sum((-3, -2, -1)) / there.expand_as(weights).sum((-3, -2, -1))


def inside(weights: Tensor, positive: Tensor, label: Tensor) -> Tensor:
    """Return the share of a positive bag's weight on the instances that count: mean over its heads, then over bags.

    Weights ``[*, N, H, n]``, ``positive [*, N, n]``, ``label [*, N]``; without positive bags, NaN.
    """
    share = (weights * positive.unsqueeze(-2)).sum(-1) / weights.sum(-1).clamp(min=torch.finfo(weights.dtype).tiny)
    bags = (label == 1).to(weights.dtype)
    return (share.mean(-1) * bags).sum(-1) / bags.sum(-1)
