r"""Bound the largest score of a query in each page of keys, in plain torch, from a copy of the keys in bytes.

Between the extremes l and u of a page, coordinate by coordinate, a key is ``l + s c`` with ``s = (u - l) / 255`` and a
code c from 0 to 255, up to an error of ``s / 2``. So the score of a key is

.. math:: \langle q, k \rangle = \langle q, l \rangle + \sum_d q_d s_d c_d \pm \tfrac12 \sum_d |q_d| s_d ,

which is known to a hundredth of its spread over the page without the key being read.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

LEVELS = 255
ROOM = 1 << 26  # codes that are numbers of the working dtype at a time
ROUNDED = 0.501  # of a step: half of it, and what rounding may add in float32


class PageBounds(NamedTuple):
    """What is known of the scores of queries in pages, ``[T, M, P]`` each."""

    upper: Tensor
    """No score of a key that is seen exceeds it; -inf where none is seen, inf where nothing can be said."""
    least: Tensor
    """The largest of these scores is at least so large; -inf where nothing can be said."""
    rounding: Tensor
    """By how much a computed score may be off; inf where nothing can be said."""


def find_floor(dtype: torch.dtype) -> float:
    """Return the spread up to which a coordinate has no codes, since its steps would underflow."""
    return torch.finfo(dtype).tiny * 2.0**20


def encode_pages(keys: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return the codes ``[*, P, D, page]`` of keys ``[*, P, page, D]`` between the extremes ``[*, P, D]``, in bytes.

    The codes of a coordinate lie side by side, so that sums over coordinates are taken for many keys at a time.
    """
    low, spread = low.unsqueeze(-2), (high - low).unsqueeze(-2)
    code = ((keys - low) / (spread / LEVELS)).round()
    # Where the spread is zero, infinite or NaN, codes say nothing.
    coded = (spread > find_floor(keys.dtype)) & spread.isfinite()
    return torch.where(coded, code.nan_to_num(0.0).clamp(0, LEVELS), 0.0).to(torch.uint8).mT


def page_bounds(
    q: Tensor, codes: Tensor, low: Tensor, high: Tensor, limits: Tensor, reach: Tensor, size: int, floor: float
) -> PageBounds:
    """Bound the scores of queries ``q [T, M, D]`` in pages of keys.

    Args:
        codes: of the keys, ``[T, P, D, page]``.
        low, high: extremes of the pages, ``[T, P, D]``, in the dtype of ``q``.
        limits: how many keys a query sees, ``[T, M]``.
        reach: by how much a threshold can be below the largest score at most, ``[T, M]``; not used here.
        size: number S of keys; pages may have room for more.
        floor: :func:`find_floor` of the dtype that the codes were found in.
    """
    pages, page = codes.shape[1], codes.shape[3]
    box = q.clamp(min=0) @ high.mT + q.clamp(max=0) @ low.mT
    most = q.abs() @ torch.maximum(low.abs(), high.abs()).mT
    rounding = (q.shape[-1] + 4) * torch.finfo(q.dtype).eps * most
    spread = high - low
    coded = spread > floor
    step = torch.where(coded, spread / LEVELS, 0.0)
    error = q.abs() @ torch.where(coded, ROUNDED * step, spread).mT
    seen = limits.clamp(max=size).unsqueeze(-1) - page * torch.arange(pages, device=q.device)  # [T, M, P]
    few = max(1, ROOM // max(codes[:, 0].numel(), 1))
    parts = zip(*(x.split(few, axis) for x, axis in ((step, 1), (codes, 1), (seen, 2))), strict=True)
    top = torch.cat([_find_largest(q, *part) for part in parts], -1) + q @ low.mT
    slack = 6 * rounding
    upper = torch.where(box.isnan(), math.inf, box + slack)
    upper = torch.where(top + error + slack < upper, top + error + slack, upper)
    least = top - error - slack
    upper = upper.masked_fill(seen <= 0, -math.inf)
    least = torch.where(least.isfinite() & (seen > 0), least, -math.inf)
    return PageBounds(upper.nan_to_num(math.inf, math.inf, -math.inf), least, rounding.nan_to_num(math.inf))


def _find_largest(q: Tensor, step: Tensor, codes: Tensor, seen: Tensor) -> Tensor:
    """Return the largest sum of ``q s c`` among the first ``seen [T, M, P]`` keys of each page, ``[T, M, P]``."""
    sums = (q.unsqueeze(1) * step.unsqueeze(2)) @ codes.to(q.dtype)  # [T, P, M, page]
    place = torch.arange(codes.shape[3], device=q.device)
    return sums.transpose(1, 2).masked_fill(place >= seen.unsqueeze(-1), -math.inf).amax(-1)
