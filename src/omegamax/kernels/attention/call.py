"""One call of the fused attention: its tensors and scalars, how it is tiled, what it keeps. Needs no Triton."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from omegamax.kernels.kinds import Kind

# Integer exponents 1 / (alpha - 1) that kernels are compiled for, as products, beside those of sparsemax and entmax15.
INTEGER_EXPONENTS = {1 + 1 / n: n for n in range(3, 9)}

# What the scores have beside the products of queries and keys, as bits of one integer.
LOCAL = 1  # not every query sees every key
LEFT = 2  # nor every key before it
KEEP = 4  # a mask of bools, True keeps
ADD = 8  # a mask of floats, added
BY_KEY = 16  # the mask is the same for all queries
ALIBI = 32  # a slope times the distance, subtracted
RAW = 64  # products as they are, not yet times the scale: for comparisons
DROPOUT = 128  # some weights are dropped before they meet the values

LIST_LENGTH = 128  # keys; a query with more candidates makes its tile a dense one
MIN_SEEN_KEYS = 1536  # keys that a query sees on average, from which lists are tried
MIN_SEEN_KEYS_NEAR_2 = 512  # the same from alpha = 1.75 on, where lists are short
NEAR_2 = 1.75
MIN_LISTED_ALPHA = 1.42  # alpha from which lists are tried: below it they would be long
SHORT_KEYS = {2: 256}  # by bytes of an entry: keys, at most, that one block holds, with their gradients
SHORT_FEATURES = 64  # of queries and values, at most, for that
SHORT_QUERIES = 1024  # that share a head of keys, at most: one program computes the gradients of all
UNLIMITED = 1 << 30  # a distance between query and key that limits nothing


class Tiling(NamedTuple):
    """How the work is divided into tiles of queries and blocks of keys."""

    tile: int  # queries to a program where lists are made
    rows: int  # queries to a program where all keys are read: as many, or a part of them
    block: int  # keys at a time in the backward passes
    warps: int
    bounds: int  # keys at a time where the thresholds are bounded
    bound_warps: int
    marks: int  # keys at a time where candidates are marked
    mark_warps: int
    chunk: int  # keys of a list at a time
    wide: int = 1  # blocks at a time in the forward pass
    stages: int = 1  # blocks of keys being loaded
    back_stages: int = 1
    registers: int | None = None  # of a thread, at most, so that more programs run at once
    back_registers: int | None = None


class ShortTiling(NamedTuple):
    """How the work is divided where one block holds all keys."""

    block: int  # keys, at least as many as there are
    rows: int  # queries at a time
    warps: int
    back_rows: int  # the same in the backward pass
    back_warps: int


T = TypeVar("T")


class kept_property(Generic[T]):
    """An attribute that is computed when it is first read: ``functools.cached_property`` without its lock."""

    def __init__(self, compute: Callable[[Any], T]):
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, owner: Any, kind: type) -> T:
        if owner is None:  # read from the class
            return self  # type: ignore[return-value]
        value = owner.__dict__[self.name] = self.compute(owner)
        return value


@dataclass(eq=False)
class AttentionCall:
    """Tensors ``q [B, H, L, D]``, ``k [B, G, S, D]``, ``v [B, G, S, W]`` and all that makes the scores.

    ``alphas [H]`` overrides ``alpha``; ``mask`` is expanded to ``[B, H, L, S]``, bool or float; ``slopes [H]`` and
    ``lengths [B]`` may be None. A query at position ``i + offset`` sees keys ``left`` before it to ``right`` after it.
    Where there is a ``seed [1]``, an integer of 64 bits, it decides which weights are dropped, a share of ``dropout``.
    What follows from these is worked out once: a call lives for one pass, and its tensors stay as they are.
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
    dropout: float = 0.0
    seed: Tensor | None = None

    @property
    def given(self) -> tuple[Tensor | None, ...]:
        """The tensors."""
        return self.q, self.k, self.v, self.mask, self.alphas, self.slopes, self.lengths, self.seed

    @property
    def layout(self) -> tuple:
        """All that launches depend on but for the values in tensors and where these lie: the same for calls alike."""
        q, k, v, mask = self.q, self.k, self.v, self.mask
        rows = (q.shape, q.stride(), q.dtype, k.shape, k.stride(), k.dtype, v.shape, v.stride(), v.dtype, q.device)
        of_mask = None if mask is None else (mask.shape, mask.stride(), mask.dtype)
        others = [None if x is None else x.dtype for x in (self.alphas, self.slopes, self.lengths, self.seed)]
        window = (self.offset, self.left, self.right)
        return (*rows, of_mask, *others, *window, self.alpha, self.scale, self.deterministic, self.dropout)

    @kept_property
    def tiling(self) -> Tiling:
        """The tiling measured on Hopper; elsewhere, and in float32, one small enough to fit."""
        size = max(self.q.shape[-1], self.v.shape[-1])
        if not is_hopper(self.q.device) or self.q.dtype == torch.float32:
            if size <= 64:
                return Tiling(64, 64, 32, 4, 64, 4, 64, 4, 16, 1, 2, 2)
            # All the registers there are: unasked, the assembler leaves most of them unused where they are not enough.
            return Tiling(32, 32, 32, 4, 64, 4, 64, 4, 8, registers=255, back_registers=255)
        if size <= 64:
            wide, registers = (2, 168) if self.kind is Kind.ENTMAX_POWER else (1, 128)
            chunk = 16 if self.alpha < NEAR_2 else 8
            return Tiling(128, 64, 64, 4, 64, 8, 128, 4, chunk, wide, 2, 3, registers, 168)
        if size <= 128:
            return Tiling(128, 64, 64, 4, 64, 8, 64, 8, 8, 1, 3, 2)
        return Tiling(64, 64, 32, 8, 64, 4, 64, 4, 8, 1, 2, 2)

    @kept_property
    def listed(self) -> bool:
        """Whether lists of keys are worth a try. Their gradients are accumulated in no fixed order."""
        if (
            self.short
            or self.deterministic
            or self.seed is not None
            or (self.mask is not None and self.mask.stride(-2) != 0)
        ):
            return False
        seen = min(self.k.shape[-2], self.left + self.right + 1)
        if self.right < self.left and seen == self.k.shape[-2]:
            seen //= 2  # causal
        least = MIN_SEEN_KEYS if self.alpha < NEAR_2 else MIN_SEEN_KEYS_NEAR_2
        return seen >= least and (self.alphas is not None or self.alpha >= MIN_LISTED_ALPHA)

    @kept_property
    def short(self) -> ShortTiling | None:
        """The tiling, measured on Hopper, where all keys fit into one block; None where they do not."""
        keys = self.k.shape[-2]
        if keys > SHORT_KEYS.get(self.q.element_size(), 0):
            return None
        shared = self.q.shape[1] // max(self.k.shape[1], 1) * self.q.shape[2]
        if shared > SHORT_QUERIES or max(self.q.shape[-1], self.v.shape[-1]) > SHORT_FEATURES:
            return None
        block = pad_to_power_of_2(keys, 16)
        return ShortTiling(block, 64, 4, 64, 4) if block <= 128 else ShortTiling(block, 64, 4, 32, 8)

    @kept_property
    def tiles(self) -> int:
        """The number of tiles of queries where lists are made."""
        return -(-self.q.shape[-2] // self.tiling.tile)

    @kept_property
    def parts(self) -> int:
        """The number of tiles of queries where all keys are read."""
        return -(-self.q.shape[-2] // self.tiling.rows)

    @kept_property
    def kind(self) -> Kind:
        """The formula of the weights."""
        return Kind.ENTMAX if self.alphas is not None else kind_of_alpha(self.alpha)[0]

    @kept_property
    def formula(self) -> dict[str, int]:
        """The kind as constants of a kernel: with the integer exponent, 0 if there is none."""
        return {"KIND": self.kind.value, "N": 0 if self.alphas is not None else kind_of_alpha(self.alpha)[1]}

    @kept_property
    def flags(self) -> int:
        """The bits of what the scores have beside products."""
        flags = 0
        if min(self.left, self.right) < UNLIMITED:
            flags |= LOCAL
        if self.left < UNLIMITED:
            flags |= LEFT
        if self.mask is not None:
            flags |= KEEP if self.mask.dtype == torch.bool else ADD
            flags |= BY_KEY if self.mask.stride(-2) == 0 else 0
        if self.slopes is not None:
            flags |= ALIBI
        if self.seed is not None:
            flags |= DROPOUT
        return flags

    @kept_property
    def tensors(self) -> tuple[tuple, ...]:
        """Queries, keys, values, mask and scalars as the kernels take them."""
        mask = self.q if self.mask is None else self.mask
        mask = mask.view(torch.uint8) if mask.dtype == torch.bool else mask
        strides = (0, 0, 0, 0) if self.mask is None else self.mask.stride()
        heads = self.q.shape[1]
        shape = (heads, heads // self.k.shape[1], self.q.shape[-2], self.k.shape[-2])
        window = (self.offset, self.left, self.right, self.scale)
        scalars = (self.alpha, self.alphas, self.slopes, self.lengths, *shape, *window)
        return with_strides(self.q), with_strides(self.k), with_strides(self.v), (mask, *strides), scalars

    @kept_property
    def drop(self) -> tuple[float, Tensor | None]:
        """The share of weights that are dropped and the seed that says which, as the kernels take them."""
        return self.dropout, self.seed

    @kept_property
    def sizes(self) -> dict[str, int]:
        """Sizes of vectors and tiles as constants of a kernel."""
        depth, width = self.q.shape[-1], self.v.shape[-1]
        least = 128 // self.q.element_size()
        return {
            "DEPTH": depth,
            "D": pad_to_power_of_2(depth, least),
            "WIDTH": width,
            "W": pad_to_power_of_2(width, least),
            "BM": self.tiling.tile,
        }


@functools.cache
def kind_of_alpha(alpha: float) -> tuple[Kind, int]:
    """Return the formula of the weights for a number alpha, and its integer exponent, 0 if it is compiled for none."""
    if alpha in INTEGER_EXPONENTS:
        return Kind.ENTMAX_POWER, INTEGER_EXPONENTS[alpha]
    return {2.0: Kind.SPARSEMAX, 1.5: Kind.ENTMAX15}.get(alpha, Kind.ENTMAX), 0


@functools.cache
def is_hopper(device: torch.device) -> bool:
    """Return whether a device has the registers, shared memory and matrix units of Hopper."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9


def with_strides(x: Tensor) -> tuple:
    """Return a tensor with its strides of batch, head and row."""
    return x, x.stride(0), x.stride(1), x.stride(2)


def pad_to_power_of_2(size: int, least: int) -> int:
    """Return the size of a tile of vectors: matrix products want powers of two and rows of 128 bytes at least.

    With shorter rows, Triton 3.6 gave wrong products.
    """
    return max(1 << (size - 1).bit_length(), least)


def empty_state(call: AttentionCall) -> list[Tensor]:
    """Return the tensors that a forward pass fills.

    They are outputs ``[B, H, L, W]`` and thresholds ``[B, H, L]``; and, unless one block holds all keys, which blocks
    have support, which tiles are dense, and for the others lists of keys ``[B, H, L, LIST_LENGTH]``, their
    probabilities, and how many.
    """
    q = call.q
    batch, heads, rows = q.shape[:3]
    length = LIST_LENGTH if call.listed else 0
    keys = call.k.shape[-2]
    index = torch.int16 if keys <= 1 << 15 else torch.int32
    blocks = -(-keys // call.tiling.block)
    state = [q.new_empty(batch, heads, rows, call.v.shape[-1]), q.new_empty(batch, heads, rows, dtype=torch.float32)]
    if call.short:
        return state
    return [
        *state,
        q.new_empty(batch * heads, call.parts, blocks, dtype=torch.int8),
        q.new_empty(batch * heads * call.tiles, dtype=torch.int8),
        q.new_empty(batch, heads, rows, length, dtype=index),
        q.new_empty(batch, heads, rows, length, dtype=torch.float32),
        q.new_empty(batch, heads, rows if length else 0, dtype=torch.int32),
    ]
