"""Entmax attention on the GPU, forward and backward, from tensors to launches.

Two ways share the work, tile by tile of queries: lists of the few keys above the threshold (`_listed`), and all keys in
blocks (`_attend`) where the support is wide or nothing is known of it. Neither stores anything of size queries x keys:
marks are made for some tiles at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from omegamax.kernels.triton import _attend, _attend_backward, _listed, _powers, _scores
from omegamax.kernels.triton._layout import on_device

ENTMAX = _powers.ENTMAX.value
EXACT = {1.5: _powers.ENTMAX15.value, 2.0: _powers.SPARSEMAX.value}
LENGTH = 128  # of a list; a query with more keys to look at makes its tile a dense one
LISTED = 1.4  # alpha from which lists are tried: below it they would be long
MARKS = 1 << 28  # bytes for marks, at most
FAR = 1 << 30  # a distance that limits nothing


class Way(NamedTuple):
    """Queries to a tile, keys to a block, warps for both; keys to a block of marks; and keys of a list at once."""

    tile: int
    block: int
    warps: int
    marks: int
    chunk: int


class Attention(NamedTuple):
    """One call: tensors ``q [B, H, L, D]``, ``k [B, G, S, D]``, ``v [B, G, S, W]`` and all that makes its scores.

    ``alphas [H]`` stands before ``alpha``; ``mask`` is expanded to ``[B, H, L, S]``, bool or float; ``slopes [H]`` and
    ``lengths [B]`` may be None. A query sees keys from ``left`` before its place to ``right`` after it.
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
        size = max(self.q.shape[-1], self.v.shape[-1])
        few = self.alphas is None and self.alpha > 1.75
        if size <= 64:
            return Way(64, 64, 4, 64, 16 if few else 32)
        if size <= 128:
            return Way(64, 64, 4, 64, 8 if few else 16)
        return Way(64, 32, 4, 64, 8)

    @property
    def listed(self) -> bool:
        """Whether lists are worth a try."""
        if self.deterministic or (self.mask is not None and self.mask.stride(-2) != 0):
            return False
        return self.k.shape[-2] >= 8 * LENGTH and (self.alphas is not None or self.alpha >= LISTED)

    @property
    def tiles(self) -> int:
        return -(-self.q.shape[-2] // self.way.tile)

    @property
    def kind(self) -> int:
        return ENTMAX if self.alphas is not None else EXACT.get(self.alpha, ENTMAX)

    @property
    def flags(self) -> int:
        flags = 0
        if min(self.left, self.right) < FAR:
            flags |= _scores.LOCAL.value
        if self.left < FAR:
            flags |= _scores.LEFT.value
        if self.mask is not None:
            flags |= (_scores.KEEP if self.mask.dtype == torch.bool else _scores.ADD).value
            flags |= _scores.BY_KEY.value if self.mask.stride(-2) == 0 else 0
        if self.slopes is not None:
            flags |= _scores.ALIBI.value
        return flags

    @property
    def tensors(self) -> tuple[tuple, ...]:
        """Queries, keys, values, mask and numbers as the kernels take them."""
        mask = self.q if self.mask is None else self.mask
        mask = mask.view(torch.uint8) if mask.dtype == torch.bool else mask
        strides = (0, 0, 0, 0) if self.mask is None else self.mask.stride()
        heads = self.q.shape[1]
        shape = (heads, heads // self.k.shape[1], self.q.shape[-2], self.k.shape[-2])
        numbers = (self.alpha, self.alphas, self.slopes, self.lengths, *shape)
        numbers += (self.offset, self.left, self.right, self.scale)
        return strided(self.q), strided(self.k), strided(self.v), (mask, *strides), numbers

    @property
    def sizes(self) -> dict[str, int]:
        depth, width = self.q.shape[-1], self.v.shape[-1]
        return {"DEPTH": depth, "D": padded(depth), "WIDTH": width, "W": padded(width), "BM": self.way.tile}


def strided(x: Tensor) -> tuple:
    return x, x.stride(0), x.stride(1), x.stride(2)


def padded(size: int) -> int:
    """Matrix products want powers of two, 16 at least."""
    return max(triton.next_power_of_2(size), 16)


def forward(call: Attention) -> list[Tensor]:
    """Outputs ``[B, H, L, W]``, and what :func:`backward` wants to know."""
    q, v = call.q, call.v
    batch, heads, rows, keys = *q.shape[:3], call.k.shape[-2]
    out = q.new_empty(batch, heads, rows, v.shape[-1])
    t = q.new_empty(batch, heads, rows, dtype=torch.float32)
    blocks = q.new_zeros(batch * heads, call.tiles, -(-keys // call.way.block), dtype=torch.int8)
    length = LENGTH if call.listed else 0
    dense = q.new_ones(batch * heads * call.tiles, dtype=torch.int8)
    lists = q.new_empty(batch, heads, rows, length, dtype=torch.int32)
    p = q.new_empty(batch, heads, rows, length, dtype=torch.float32)
    count = q.new_empty(batch, heads, rows if call.listed else 0, dtype=torch.int32)
    state = [out, t, blocks, dense, lists, p, count]
    if not out.numel():
        return state
    with on_device(q):
        if call.listed:
            _list(call, *state)
        _attend.forward[(call.tiles, batch * heads)](
            *call.tensors,
            out,
            t,
            blocks,
            dense if call.listed else None,
            **_constants(call),
            num_warps=call.way.warps,
            num_stages=2,
        )
    return state


def backward(call: Attention, g: Tensor, *state: Tensor) -> list[Tensor]:
    """Gradients with respect to queries, keys, values and, if there are any, alphas; ``state`` is that of forward."""
    t, blocks, dense, lists, p, count = state
    q, k, v = call.q, call.k, call.v
    batch, heads, rows = q.shape[:3]
    dq = torch.empty_like(q, memory_format=torch.contiguous_format)
    wide = torch.float32 if call.listed else None
    dk, dv = (torch.zeros_like(x, dtype=wide, memory_format=torch.contiguous_format) for x in (k, v))
    dalpha = None if call.alphas is None else torch.zeros_like(t)
    if q.numel() and g.numel():
        g = g if g.stride(-1) == 1 else g.contiguous()
        mean = torch.empty_like(t)
        only = dense if call.listed else None
        with on_device(q):
            if call.listed:
                _listed.scatter[(rows, heads, batch)](
                    *(x for i, x in enumerate(call.tensors) if i != 3),
                    strided(g),
                    dq,
                    dk,
                    dv,
                    dalpha,
                    dense,
                    lists,
                    p,
                    count,
                    call.tiles,
                    call.kind,
                    **call.sizes,
                    LENGTH=LENGTH,
                    C=call.way.chunk,
                    num_warps=1,
                )
            common: dict[str, Any] = {**_constants(call), "num_warps": call.way.warps, "num_stages": 2}
            _attend_backward.queries_backward[(call.tiles, batch * heads)](
                *call.tensors, strided(g), t, mean, dq, dalpha, blocks, only, **common
            )
            _attend_backward.keys_backward[(blocks.shape[-1], batch * k.shape[1])](
                *call.tensors, strided(g), t, mean, dk, dv, blocks, only, call.tiles, **common
            )
    grads = [dq, dk.to(k.dtype), dv.to(v.dtype)]
    return grads if dalpha is None else [*grads, dalpha.sum((0, 2))]


def _list(call: Attention, out, t, blocks, dense, lists, p, count) -> None:
    """Outputs and lists of the tiles that have few keys to look at; the others stay marked as dense."""
    way = call.way
    words = -(-call.k.shape[-2] // way.marks) * (way.marks // 32)
    at_once = max(MARKS // (4 * words * way.tile), 1)
    bits = dense.new_empty(min(at_once, dense.numel()) * way.tile * words, dtype=torch.int32)
    tensors, sizes = call.tensors, call.sizes
    for first in range(0, dense.numel(), at_once):
        some = min(at_once, dense.numel() - first)
        common = {"KIND": call.kind, "BN": way.marks}
        scaled = call.flags & (_scores.ALIBI.value | _scores.ADD.value)
        _listed.mark[(some,)](
            *(x for i, x in enumerate(tensors) if i != 2),
            t,
            bits,
            dense,
            first,
            call.tiles,
            **common,
            FLAGS=call.flags if scaled else call.flags | _scores.RAW.value,
            **{name: sizes[name] for name in ("DEPTH", "D", "BM")},
            MOST=way.marks * 3 // 4,
            num_warps=way.warps,
            num_stages=3,
        )
        _listed.gather[(way.tile, some)](
            *tensors,
            out,
            t,
            bits,
            dense,
            lists,
            p,
            count,
            first,
            call.tiles,
            **common,
            FLAGS=call.flags,
            **sizes,
            LENGTH=LENGTH,
            C=way.chunk,
            WORDS=min(256, triton.next_power_of_2(words)),
            num_warps=1,
        )


def _constants(call: Attention) -> dict[str, Any]:
    exact = call.q.dtype == torch.float32
    return {"KIND": call.kind, "FLAGS": call.flags, "EXACT": exact, **call.sizes, "BN": call.way.block}
