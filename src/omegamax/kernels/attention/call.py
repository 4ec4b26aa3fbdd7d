"""One call of the fused attention: its tensors and numbers, how it is cut, what it keeps. Plain Python and torch."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

SPARSEMAX, ENTMAX15, ENTMAX = range(3)
# Where 1 / (alpha - 1) is a whole number from 3 on, that is the kind: probabilities are powers by multiplication.
KINDS = {2.0: SPARSEMAX, 1.5: ENTMAX15, **{1 + 1 / n: n for n in range(3, 9)}}

# What the scores have beside the products of queries and keys, as bits of one number.
LOCAL = 1  # not every query sees every key
LEFT = 2  # nor every key before it
KEEP = 4  # a mask of bools, True keeps
ADD = 8  # a mask of floats, added
BY_KEY = 16  # the mask is the same for all queries
ALIBI = 32  # a slope times the distance, subtracted
RAW = 64  # products as they are, not yet times the scale: for comparisons

LENGTH = 128  # of a list; a query with more keys to look at makes its tile a dense one
SEEN = 1536  # keys that a query sees on average, from which lists are tried
FEW = 512  # the same for alpha near 2, whose lists are short
LISTED = 1.42  # alpha from which lists are tried: below it they would be long
FAR = 1 << 30  # a distance that limits nothing


class Way(NamedTuple):
    """How the work is cut."""

    tile: int  # queries to a program where lists are made
    rows: int  # and where all keys are looked at: as many, or a part of them
    block: int  # keys at a time in the backward passes
    warps: int
    bounds: int  # keys at a time where the bounds are found
    bound_warps: int
    marks: int  # keys at a time where lists are made
    mark_warps: int
    chunk: int  # keys of a list at a time
    wide: int = 1  # blocks at a time in the forward pass
    stages: int = 1  # blocks of keys on their way
    back_stages: int = 1
    registers: int | None = None  # of a thread, at most, so that more programs run side by side
    back_registers: int | None = None


class Attention(NamedTuple):
    """Tensors ``q [B, H, L, D]``, ``k [B, G, S, D]``, ``v [B, G, S, W]`` and all that makes the scores.

    ``alphas [H]`` stands before ``alpha``; ``mask`` is expanded to ``[B, H, L, S]``, bool or float; ``slopes [H]`` and
    ``lengths [B]`` may be None. A query at place ``i + offset`` sees keys ``left`` before it to ``right`` after it.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    alpha: float
    alphas: Tensor | None
    mask: Tensor | None
    slopes: Tensor | None
    lengths: Tensor | None
    offset: int
    left: int
    right: int
    scale: float
    deterministic: bool = False

    @property
    def way(self) -> Way:
        """Measured on Hopper; elsewhere, and in float32, small enough to fit."""
        size = max(self.q.shape[-1], self.v.shape[-1])
        if not hopper(self.q.device) or self.q.dtype == torch.float32:
            return Way(64, 64, 32, 4, 64, 4, 64, 4, 16, 1, 2, 2) if size <= 64 else Way(32, 32, 32, 4, 64, 4, 64, 4, 8)
        if size <= 64:
            wide, registers = (2, 168) if self.kind > ENTMAX else (1, 128)
            return Way(128, 64, 64, 4, 64, 8, 128, 4, 16 if self.alpha < 1.75 else 8, wide, 2, 3, registers, 168)
        if size <= 128:
            return Way(128, 64, 64, 4, 64, 8, 64, 8, 8, 1, 3, 2)
        return Way(64, 64, 32, 8, 64, 4, 64, 4, 8, 1, 2, 2)

    @property
    def listed(self) -> bool:
        """Whether lists are worth a try. Their gradients are added up in any order."""
        if self.deterministic or (self.mask is not None and self.mask.stride(-2) != 0):
            return False
        seen = min(self.k.shape[-2], self.left + self.right + 1)
        if self.right < self.left and seen == self.k.shape[-2]:
            seen //= 2  # causal
        return seen >= (SEEN if self.alpha < 1.75 else FEW) and (self.alphas is not None or self.alpha >= LISTED)

    @property
    def tiles(self) -> int:
        return -(-self.q.shape[-2] // self.way.tile)

    @property
    def parts(self) -> int:
        return -(-self.q.shape[-2] // self.way.rows)

    @property
    def kind(self) -> int:
        return ENTMAX if self.alphas is not None else KINDS.get(self.alpha, ENTMAX)

    @property
    def flags(self) -> int:
        flags = 0
        if min(self.left, self.right) < FAR:
            flags |= LOCAL
        if self.left < FAR:
            flags |= LEFT
        if self.mask is not None:
            flags |= KEEP if self.mask.dtype == torch.bool else ADD
            flags |= BY_KEY if self.mask.stride(-2) == 0 else 0
        if self.slopes is not None:
            flags |= ALIBI
        return flags

    @property
    def tensors(self) -> tuple[tuple, ...]:
        """Queries, keys, values, mask and numbers as the kernels take them."""
        mask = self.q if self.mask is None else self.mask
        mask = mask.view(torch.uint8) if mask.dtype == torch.bool else mask
        strides = (0, 0, 0, 0) if self.mask is None else self.mask.stride()
        heads = self.q.shape[1]
        shape = (heads, heads // self.k.shape[1], self.q.shape[-2], self.k.shape[-2])
        place = (self.offset, self.left, self.right, self.scale)
        numbers = (self.alpha, self.alphas, self.slopes, self.lengths, *shape, *place)
        return strided(self.q), strided(self.k), strided(self.v), (mask, *strides), numbers

    @property
    def sizes(self) -> dict[str, int]:
        depth, width = self.q.shape[-1], self.v.shape[-1]
        least = 128 // self.q.element_size()
        return {
            "DEPTH": depth,
            "D": padded(depth, least),
            "WIDTH": width,
            "W": padded(width, least),
            "BM": self.way.tile,
        }


@functools.cache
def hopper(device: torch.device) -> bool:
    """Whether a device has the registers, shared memory and matrix units of Hopper."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9


def strided(x: Tensor) -> tuple:
    return x, x.stride(0), x.stride(1), x.stride(2)


def padded(size: int, least: int) -> int:
    """Matrix products want powers of two, and rows of 128 bytes at least: with less, Triton 3.6 gave wrong ones."""
    return max(1 << (size - 1).bit_length(), least)


def state_of(call: Attention) -> list[Tensor]:
    """What a forward pass fills.

    Outputs ``[B, H, L, W]``, thresholds ``[B, H, L]``, which blocks have support, which tiles are dense, and for the
    others lists of keys ``[B, H, L, LENGTH]``, their probabilities, and how many.
    """
    q = call.q
    batch, heads, rows = q.shape[:3]
    length = LENGTH if call.listed else 0
    keys = call.k.shape[-2]
    number = torch.int16 if keys <= 1 << 15 else torch.int32
    blocks = -(-keys // call.way.block)
    return [
        q.new_empty(batch, heads, rows, call.v.shape[-1]),
        q.new_empty(batch, heads, rows, dtype=torch.float32),
        q.new_empty(batch * heads, call.parts, blocks, dtype=torch.int8),
        q.new_empty(batch * heads * call.tiles, dtype=torch.int8),
        q.new_empty(batch, heads, rows, length, dtype=number),
        q.new_empty(batch, heads, rows, length, dtype=torch.float32),
        q.new_empty(batch, heads, rows if length else 0, dtype=torch.int32),
    ]
