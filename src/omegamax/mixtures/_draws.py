"""Random numbers of the starts: all of a call drawn at once, which is one launch on a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from omegamax._operation import Operation


@dataclass(frozen=True)
class FixedDraws:
    """Numbers that are the same in each call, on each device and in a compiled graph, in place of a generator."""

    seed: int = 0


Source = torch.Generator | FixedDraws | None  # None: the global generator of the device


class StartDraws:
    """Numbers in [0, 1), taken one part after another.

    Args:
        source: where they come from. A generator may be on the CPU, whatever the device.
        count: how many there are to take.
        like: a tensor of their dtype and device.
    """

    def __init__(self, source: Source, count: int, like: Tensor):
        self._used = 0
        if isinstance(source, FixedDraws):
            self._numbers = _fixed_draws(like, count, source.seed)
        elif not count:  # vmap allows no random numbers, not even none of them
            self._numbers = like.new_empty(0)
        elif source is None:  # torch has no generator, not even none, with a size that a compiler has left open
            self._numbers = torch.rand(count, dtype=like.dtype, device=like.device)
        else:
            numbers = torch.rand(count, dtype=like.dtype, device=source.device, generator=source)
            self._numbers = numbers.to(like.device, non_blocking=True)

    def take(self, shape: Sequence[int]) -> Tensor:
        """Return the next numbers, of this shape."""
        start, self._used = self._used, self._used + math.prod(shape)
        return self._numbers[start : self._used].reshape(tuple(shape))


@lru_cache(maxsize=64)
def _table(count: int, seed: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the numbers, kept on each device: a copy would wait for a GPU, and no CUDA graph can hold it."""
    with torch.inference_mode(False):
        return torch.rand(count, dtype=dtype, generator=torch.Generator().manual_seed(seed)).to(device)


def _draw(like: Tensor, count: int, seed: int) -> Tensor:
    return _table(count, seed, like.dtype, like.device).clone()


# An operation, since a compiled graph can make no generator.
_fixed_draws = Operation(
    "fixed_draws",
    "(Tensor like, SymInt count, int seed) -> Tensor",
    _draw,
    lambda like, count, seed: like.new_empty((count,)),
)
