"""Entmax attention on the GPU, forward and backward, from tensors to launches.

Two ways share the work, tile by tile of queries: lists of the few keys above the threshold (`_marks`, `_listed`), and
all keys in blocks (`_attend`) where the support is wide or nothing is known of it. Neither stores anything of size
queries x keys: marks are made for some tiles at a time.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from omegamax.kernels.triton import _attend, _attend_backward, _listed, _listed_backward, _marks
from omegamax.kernels.triton._call import ADD, ALIBI, LENGTH, RAW, Attention, state_of, strided
from omegamax.kernels.triton._layout import on_device

MARKS = 1 << 10  # bytes for marks, at most, for each query


def forward(call: Attention) -> list[Tensor]:
    """Outputs ``[B, H, L, W]``, and what :func:`backward` wants to know."""
    state = state_of(call)
    out, t, blocks, dense = state[:4]
    if not out.numel():
        return state
    with on_device(call.q):
        only = None
        if call.listed:
            _list(call, *state)
            only = dense
        _attend.forward[(call.tiles, blocks.shape[0])](*call.tensors, out, t, blocks, only, **_constants(call))
    return state


def backward(call: Attention, g: Tensor, *state: Tensor) -> list[Tensor]:
    """Gradients with respect to queries, keys, values and, if there are any, alphas; ``state`` is that of forward."""
    q, k, v = call.q, call.k, call.v
    t, blocks, dense = state[:3]
    dq = torch.empty_like(q, memory_format=torch.contiguous_format)
    wide = torch.float32 if call.listed else None  # many small parts are added
    dk, dv = (torch.zeros_like(x, dtype=wide, memory_format=torch.contiguous_format) for x in (k, v))
    dalpha = None if call.alphas is None else torch.zeros_like(t)
    if q.numel() and g.numel():
        incoming = strided(g if g.stride(-1) == 1 else g.contiguous())
        with on_device(q):
            only = None
            if call.listed:
                _scatter(call, incoming, dq, dk, dv, dalpha, *state[2:])
                only = dense
            mean = torch.empty_like(t)
            constants = _constants(call) | {"num_warps": call.way.back_warps}
            _attend_backward.queries_backward[(call.tiles, blocks.shape[0])](
                *call.tensors, incoming, t, mean, dq, dalpha, blocks, only, **constants
            )
            _attend_backward.keys_backward[(blocks.shape[-1], k.shape[0] * k.shape[1])](
                *call.tensors, incoming, t, mean, dk, dv, blocks, only, call.tiles, **constants
            )
    grads = [dq, dk.to(k.dtype), dv.to(v.dtype)]
    return grads if dalpha is None else [*grads, dalpha.sum((0, 2))]


def _constants(call: Attention) -> dict[str, Any]:
    exact = call.q.dtype == torch.float32
    launch = {"num_warps": call.way.warps, "num_stages": 2}
    return {"KIND": call.kind, "FLAGS": call.flags, "EXACT": exact, **call.sizes, "BN": call.way.block, **launch}


def _list(
    call: Attention, out: Tensor, t: Tensor, blocks: Tensor, dense: Tensor, lists: Tensor, p: Tensor, count: Tensor
) -> None:
    """Outputs and lists of the tiles that have few keys to look at; the others are named in ``dense``."""
    way, sizes = call.way, call.sizes
    q, k, v, mask, numbers = call.tensors
    # Where scores are products and nothing else, thresholds are divided by the scale and not products multiplied by it.
    raw = 0 if call.flags & (ALIBI | ADD) else RAW
    common: dict[str, Any] = {name: sizes[name] for name in ("DEPTH", "D", "BM")}
    common |= {"KIND": call.kind, "FLAGS": call.flags | raw, "num_stages": 3}
    most = way.bounds * 7 // 8
    _marks.bound[(call.tiles, blocks.shape[0])](
        q, k, mask, numbers, t, dense, **common, BN=way.bounds, MOST=most, num_warps=way.bound_warps
    )
    marking = common | {"BN": way.marks, "num_warps": way.mark_warps}
    words = -(-call.k.shape[-2] // way.marks) * (way.marks // 32)
    at_once = max(MARKS * count.numel() // (4 * words * way.tile), 1)
    bits = dense.new_empty(min(at_once, dense.numel()) * way.tile * words, dtype=torch.int32)
    reading: dict[str, Any] = {"KIND": call.kind, "FLAGS": call.flags, "BN": way.marks, **sizes, "LENGTH": LENGTH}
    reading |= {"WORDS": min(256, triton.next_power_of_2(words)), "C": way.chunk, "num_warps": 1}
    for first in range(0, dense.numel(), at_once):
        some = min(at_once, dense.numel() - first)
        _marks.mark[(some,)](q, k, mask, numbers, t, bits, dense, first, call.tiles, **marking)
        _listed.gather[(way.tile, some)](
            q, k, v, mask, numbers, out, t, bits, dense, lists, p, count, first, call.tiles, **reading
        )


def _scatter(
    call: Attention, incoming: tuple, dq: Tensor, dk: Tensor, dv: Tensor, dalpha: Tensor | None, *state: Tensor
) -> None:
    """Gradients of the queries that have lists, and their parts of the others'."""
    q, k, v, _, numbers = call.tensors
    batch, heads, rows = call.q.shape[:3]
    constants = {"KIND": call.kind, **call.sizes, "LENGTH": LENGTH, "C": call.way.chunk, "num_warps": 1}
    _listed_backward.scatter[(rows, heads, batch)](
        q, k, v, numbers, incoming, dq, dk, dv, dalpha, *state, call.tiles, **constants
    )
