"""Measures of answers to bags, of one network or of several side by side."""

from __future__ import annotations

import torch
from torch import Tensor


def auc(scores: Tensor, label: Tensor) -> Tensor:
    """Compute the area under the ROC curve, ``[*, N] -> [*]``: how often a positive bag scores more; ties count half.

    >>> auc(torch.tensor([0.1, 0.4, 0.4, 0.8]), torch.tensor([0, 0, 1, 1]))
    tensor(0.8750)
    """
    pairs = (label[..., :, None] > label[..., None, :]).to(scores.dtype)
    gaps = scores[..., :, None] - scores[..., None, :]
    return (pairs * ((gaps > 0) + 0.5 * (gaps == 0))).sum((-2, -1)) / pairs.sum((-2, -1))


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
