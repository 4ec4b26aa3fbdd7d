"""Entmax attention on the GPU, forward and backward, from tensors to launches.

Two ways share the work, tile by tile of queries: lists of the few keys above the threshold (`_marks`, `_listed`), and
all keys in blocks (`_attend`) where the support is wide or nothing is known of it. Neither stores anything of size
queries x keys: marks are made for some tiles at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import triton
from torch import Tensor

from omegamax.kernels.attention.call import ADD, ALIBI, LENGTH, RAW, Attention, state_of, strided
from omegamax.kernels.attention.triton import candidates, dense_backward, lists_backward
from omegamax.kernels.attention.triton import dense as dense_kernels
from omegamax.kernels.attention.triton import lists as lists_kernels
from omegamax.kernels.triton.ahead import Launch, ahead, known
from omegamax.kernels.triton.layout import on_device

MARKS = 1 << 10  # bytes for marks, at most, for each query


def forward(call: Attention, learnt: bool = False) -> list[Tensor]:
    """Outputs ``[B, H, L, W]``, and what :func:`backward` wants to know; ``learnt``: it will be called."""
    state = state_of(call)
    out, t, blocks, dense = state[:4]
    if not out.numel():
        return state
    with on_device(call.q):
        constants = _constants(call)
        only = dense if call.listed else None
        steps = list(_listing(call, *state)) if call.listed else []
        attending = (*call.tensors, out, t, blocks, only)
        steps.append(Launch(dense_kernels.forward, (call.parts, blocks.shape[0]), attending, constants))
        key = (learnt, *_key(call, constants))
        if not known(key):
            # Stand-ins of the right types: nothing is read or written.
            wide = t if call.listed else out
            back = _differentiating(call, strided(out), out, wide, wide, t, *state[1:]) if learnt else []
            ahead(key, [*steps, *back], out)
        for step in steps:
            step.run()
    return state


def backward(call: Attention, g: Tensor, *state: Tensor) -> list[Tensor]:
    """Gradients with respect to queries, keys, values and, if there are any, alphas; ``state`` is that of forward."""
    q, k, v = call.q, call.k, call.v
    t = state[0]
    dq = torch.empty_like(q, memory_format=torch.contiguous_format)
    wide = torch.float32 if call.listed else None  # many small parts are added
    some = q.numel() > 0 and g.numel() > 0
    new = torch.zeros_like if call.listed or not some else torch.empty_like
    dk, dv = (new(x, dtype=wide, memory_format=torch.contiguous_format) for x in (k, v))
    dalpha = None if call.alphas is None else torch.empty_like(t) if some else torch.zeros_like(t)
    if some:
        incoming = strided(g if g.stride(-1) == 1 else g.contiguous())
        with on_device(q):
            steps = _differentiating(call, incoming, dq, dk, dv, dalpha, *state)
            key = (None, *_key(call, steps[-1].constants))
            if not known(key):
                ahead(key, steps, dq)
            for step in steps:
                step.run()
    grads = [dq, dk.to(k.dtype), dv.to(v.dtype)]
    return grads if dalpha is None else [*grads, dalpha.sum((0, 2))]


def _differentiating(
    call: Attention, incoming: tuple, dq: Tensor, dk: Tensor, dv: Tensor, dalpha: Tensor | None, *state: Tensor
) -> list[Launch]:
    """The backward pass: of the queries that have lists, and their parts of the others' gradients, then of the rest."""
    q, k, v, _, numbers = call.tensors
    batch, heads, rows = call.q.shape[:3]
    t, blocks, dense = state[:3]
    dalpha = None if call.alphas is None else dalpha
    only, steps = None, []
    if call.listed:
        constants = {"KIND": call.kind, **call.sizes, "LENGTH": LENGTH, "C": call.way.chunk, "num_warps": 1}
        scattering = (q, k, v, numbers, incoming, dq, dk, dv, dalpha, *state[2:], call.tiles)
        steps.append(Launch(lists_backward.scatter, (rows, heads, batch), scattering, constants))
        only = dense
    mean = torch.empty_like(t)
    constants = _constants(call, backward=True)
    wanted = torch.empty_like(blocks, dtype=torch.int32)
    by_query = (*call.tensors, incoming, t, mean, dq, dalpha, blocks, only, wanted)
    by_key = (*call.tensors, incoming, t, mean, dk, dv, blocks, only, call.parts, wanted)
    parts, groups = (call.parts, blocks.shape[0]), (blocks.shape[-1], call.k.shape[0] * call.k.shape[1])
    steps.append(Launch(dense_backward.queries_backward, parts, by_query, constants))
    steps.append(Launch(dense_backward.keys_backward, groups, by_key, constants))
    return steps


def _constants(call: Attention, backward: bool = False) -> dict[str, Any]:
    """Of the kernels that look at all keys."""
    way = call.way
    cut = {"BM": way.rows, "BN": way.block, "PART": way.tile // way.rows}
    if not backward:
        cut |= {"BN": way.block * way.wide, "WIDE": way.wide}
    launch = {"num_warps": way.warps, "num_stages": way.back_stages if backward else way.stages}
    registers = way.back_registers if backward else way.registers
    if registers is not None:
        launch["maxnreg"] = registers
    exact = call.q.dtype == torch.float32
    return {"KIND": call.kind, "FLAGS": call.flags, "EXACT": exact, **call.sizes, **cut, **launch}


def _key(call: Attention, constants: dict[str, Any]) -> tuple:
    """Of calls that need the same kernels; Triton makes others for numbers that 16 divides, and for 1."""
    numbers = (*call.q.shape[1:3], *call.k.shape[1:3], call.offset, call.left, call.right, call.parts)
    cases = [2 if n == 1 else n & 15 == 0 for n in numbers]
    return (call.q.device.index, call.q.dtype, call.listed, call.alphas is None, *constants.values(), *cases)


def _listing(
    call: Attention, out: Tensor, t: Tensor, blocks: Tensor, dense: Tensor, lists: Tensor, p: Tensor, count: Tensor
) -> Iterator[Launch]:
    """Outputs and lists of the tiles that have few keys to look at; the others are named in ``dense``."""
    way, sizes = call.way, call.sizes
    q, k, v, mask, numbers = call.tensors
    # Where scores are products and nothing else, thresholds are divided by the scale and not products multiplied by it.
    raw = 0 if call.flags & (ALIBI | ADD) else RAW
    common: dict[str, Any] = {name: sizes[name] for name in ("DEPTH", "D", "BM")}
    common |= {"KIND": call.kind, "FLAGS": call.flags | raw, "num_stages": 3}
    most = way.bounds * 7 // 8
    bounding = common | {"BN": way.bounds, "MOST": most, "num_warps": way.bound_warps}
    yield Launch(candidates.bound, (call.tiles, blocks.shape[0]), (q, k, mask, numbers, t, dense), bounding)
    marking = common | {"BN": way.marks, "num_warps": way.mark_warps}
    words = -(-call.k.shape[-2] // way.marks) * (way.marks // 32)
    at_once = max(MARKS * count.numel() // (4 * words * way.tile), 1)
    bits = dense.new_empty(min(at_once, dense.numel()) * way.tile * words, dtype=torch.int32)
    reading: dict[str, Any] = {"KIND": call.kind, "FLAGS": call.flags, "BN": way.marks, **sizes, "LENGTH": LENGTH}
    reading |= {"WORDS": min(256, triton.next_power_of_2(words)), "C": way.chunk, "num_warps": 1}
    for first in range(0, dense.numel(), at_once):
        some = min(at_once, dense.numel() - first)
        yield Launch(candidates.mark, (some,), (q, k, mask, numbers, t, bits, dense, first, call.tiles), marking)
        tensors = (q, k, v, mask, numbers, out, t, bits, dense, lists, p, count)
        yield Launch(lists_kernels.gather, (way.tile, some), (*tensors, first, call.tiles), reading)
