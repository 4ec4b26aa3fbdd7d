"""Find the best subset of k entries, with or without scores of neighbours that are chosen together."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def top_subset(scores: Tensor, k: int, at_most: bool) -> Tensor:
    """Mark the k largest of ``scores [B, n]``, or with ``at_most`` the positive ones among them, as 0/1 ``[B, n]``."""
    if k == 0:
        return torch.zeros_like(scores)
    values, positions = scores.topk(min(k, scores.shape[-1]), -1)
    wanted = values > 0 if at_most else torch.ones_like(values, dtype=torch.bool)
    chosen = torch.zeros_like(scores).scatter(-1, positions, wanted.to(scores.dtype))
    return chosen.where((~wanted | (values > -math.inf)).all(-1, keepdim=True), math.nan)


def adjacent(unary: Tensor) -> Tensor:
    """Tell which neighbours are chosen together, ``[B, n] -> [B, n - 1]``."""
    return unary[..., :-1] * unary[..., 1:]


def sequential_subset(scores: Tensor, transition: Tensor, k: int, at_most: bool) -> Tensor:
    r"""Find a 0/1 sequence with k ones (or at most k) that maximises ``sum x_i y_i + sum t_i y_i y_{i+1}``.

    ``scores [B, n]``, ``transition [B, n - 1]``; dynamic programming over position, ones so far and last value.
    """
    rows, size = scores.shape
    # best[b, y, c]: of the prefixes that end in y and have c ones.
    best = scores.new_full((rows, 2, k + 1), -math.inf)
    best[:, 0, 0] = 0.0
    before = torch.zeros(size, rows, 2, k + 1, dtype=torch.bool, device=scores.device)  # whether the previous is a one
    for i in range(size):
        after = torch.full_like(best, -math.inf)
        off, on = best.unbind(1)
        before[i, :, 0] = on > off
        after[:, 0] = torch.maximum(off, on)
        if k > 0:
            joined = on if i == 0 else on + transition[:, i - 1, None]
            before[i, :, 1, 1:] = (joined > off)[:, :-1]
            after[:, 1, 1:] = scores[:, i, None] + torch.maximum(off, joined)[:, :-1]
        best = after
    ends = best if at_most else best[..., k:]
    value, position = ends.flatten(1).max(-1)
    last = torch.div(position, ends.shape[-1], rounding_mode="floor")
    ones = position % ends.shape[-1] + (0 if at_most else k)
    every = torch.arange(rows, device=scores.device)
    unary = torch.zeros_like(scores)
    for i in reversed(range(size)):
        unary[:, i] = last.to(scores.dtype)
        previous = before[i, every, last, ones].to(torch.int64)
        ones = ones - last
        last = previous
    return unary.where((value > -math.inf)[:, None], math.nan)
