"""Pairs of a query and a key: which of them attention sees, and what their scores have beside the product."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax._arguments import is_integer
from omegamax.nn._attention_operation import UNLIMITED

Window = int | tuple[int | None, int | None] | None


class Pairs(NamedTuple):
    """What is added to scores ``[*, H, L, S]``, and what is left out of them.

    ``mask`` broadcasts to the scores. Query i stands at position ``i + offset`` and sees ``left`` keys before it and
    ``right`` after it. ``slopes [H]`` times the distance is subtracted. ``lengths`` has the axes before the heads.
    """

    mask: Tensor | None
    slopes: Tensor | None
    lengths: Tensor | None
    offset: int
    left: int
    right: int

    @property
    def local(self) -> bool:
        """Tell whether positions limit what is seen."""
        return self.left < UNLIMITED or self.right < UNLIMITED


def check_pairs(
    shape: tuple[int, ...],
    mask: Tensor | None,
    is_causal: bool,
    window: Window,
    alibi: Tensor | None,
    lengths: Tensor | None,
    offset: int,
) -> Pairs:
    """Check the arguments of :func:`omegamax.attention` for scores of this shape, and return them."""
    if mask is not None:
        _check_mask(mask, shape)
    left, right = _sides(window)
    check_offset(offset)
    heads = shape[-3] if len(shape) > 2 else 1
    if alibi is not None and (not alibi.is_floating_point() or tuple(alibi.shape) != (heads,)):
        raise ValueError(
            f"attention: alibi must be a float tensor with a slope for each head, shape ({heads},), "
            f"got {alibi.dtype} of shape {tuple(alibi.shape)}"
        )
    texts = shape[:-3] if len(shape) > 3 else shape[:-2]
    if lengths is not None:
        check_lengths(lengths, tuple(texts))
    return Pairs(mask, alibi, lengths, offset, left, min(right, 0) if is_causal else right)


def check_offset(offset: int) -> None:
    """Refuse what is no place of the first query among the keys."""
    if not is_integer(offset):
        raise TypeError(f"attention: offset must be an integer, got {offset!r}")


def check_lengths(lengths: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse what is no number of keys for each example, of this shape."""
    if not isinstance(lengths, Tensor):
        raise TypeError(f"attention: lengths must be a tensor of integers, got {type(lengths).__name__}")
    if lengths.is_floating_point() or lengths.dtype == torch.bool or tuple(lengths.shape) != shape:
        given = f"{lengths.dtype} of shape {tuple(lengths.shape)}"
        raise ValueError(f"attention: lengths must be integers of shape {shape}, got {given}")


def mask_pairs(z: Tensor, pairs: Pairs) -> Tensor:
    """Products ``z [*, H, L, S]`` made scores: ``-inf`` where a query does not see a key."""
    queries, keys = z.shape[-2:]
    seen = None
    if pairs.local or pairs.slopes is not None:
        # How far ahead of the query a key is.
        ahead = torch.arange(keys, device=z.device) - torch.arange(queries, device=z.device)[:, None] - pairs.offset
        if pairs.slopes is not None:
            slopes = pairs.slopes.to(torch.promote_types(z.dtype, torch.float32))
            bias = slopes[:, None, None] * ahead.abs()
            z = z - (bias if z.dim() > 2 else bias[0]).to(z.dtype)
        if pairs.local:
            seen = (ahead <= pairs.right) & (ahead >= -pairs.left)
    if pairs.lengths is not None:
        last = pairs.lengths.reshape(*pairs.lengths.shape, *(1,) * (z.dim() - pairs.lengths.dim()))
        there = torch.arange(keys, device=z.device) < last
        seen = there if seen is None else seen & there
    if pairs.mask is not None:
        if pairs.mask.dtype == torch.bool:
            seen = pairs.mask if seen is None else seen & pairs.mask
        else:
            z = z + pairs.mask.to(z.dtype)
    return z if seen is None else z.masked_fill(~seen, -math.inf)


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that both expand to; torch takes its time even where they are the same."""
    return tuple(a) if a == b or not b else tuple(torch.broadcast_shapes(a, b))


def _sides(window: Window) -> tuple[int, int]:
    """Return how many keys before and after its own position a query sees."""
    if window is None:
        return UNLIMITED, UNLIMITED
    sides = window if isinstance(window, (tuple, list)) else (window, window)
    if len(sides) != 2 or any(side is not None and (not is_integer(side) or side < 0) for side in sides):
        raise ValueError(
            f"attention: window must be an integer, a count of keys, or two of them (before, after), got {window!r}"
        )
    left, right = (UNLIMITED if side is None else min(int(side), UNLIMITED) for side in sides)
    return left, right


def _check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(f"attention: mask must be bool (True keeps) or float (added to the scores), got {mask.dtype}")
    if mask.dim() > len(shape) or any(a not in (1, b) for a, b in zip(mask.shape[::-1], shape[::-1], strict=False)):
        raise ValueError(
            f"attention: mask of shape {tuple(mask.shape)} does not broadcast to scores of shape {tuple(shape)}"
        )
