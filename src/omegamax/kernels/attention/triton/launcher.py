"""Launch the kernels of entmax attention, forward and backward.

Where all keys fit into one block, a tile's scores are computed once (`short`). Otherwise two methods share the work,
tile by tile of queries: lists of the few keys that can be above the threshold (`candidates`, `lists`), and all keys in
blocks (`dense`) where the support is wide or nothing is known of it. None stores anything of size queries x keys:
candidates are marked for some tiles at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
import triton
from torch import Tensor

from omegamax.kernels.attention.call import (
    ADD,
    ALIBI,
    LIST_LENGTH,
    RAW,
    AttentionCall,
    ShortTiling,
    empty_state,
    with_strides,
)
from omegamax.kernels.attention.triton.candidates import bound_thresholds_kernel, mark_candidates_kernel
from omegamax.kernels.attention.triton.dense import attention_dense_kernel, count_zeros_kernel
from omegamax.kernels.attention.triton.dense_backward import dense_keys_vjp_kernel, dense_queries_vjp_kernel
from omegamax.kernels.attention.triton.lists import attend_lists_kernel, lists_vjp_kernel
from omegamax.kernels.attention.triton.short import attention_short_kernel, short_vjp_kernel
from omegamax.kernels.choice import Case, choose
from omegamax.kernels.triton.launch import (
    PlannedLaunch,
    call_again,
    compile_ahead,
    is_compiled,
    on_device,
    run_and_keep,
)

MARK_BYTES = 1 << 10  # of candidate bits, at most, for each query
COUNT_BLOCK = 64  # queries and keys of a tile in which zeros are counted


def forward(call: AttentionCall, learnt: bool = False) -> list[Tensor]:
    """Return outputs ``[B, H, L, W]``, and the state that :func:`backward` takes; ``learnt``: it will be called."""
    key = ("attention", learnt, call.layout)
    again = call_again(key, *call.given)
    if again is not None:
        return again
    call = _with_tensors_of_its_own(call)
    state = empty_state(call)
    out, t = state[:2]
    if not out.numel():
        return state
    with on_device(call.q):
        launches = _plan_forward(call, *state)
        compile_key = (learnt, *_compile_key(call, launches[-1].constants))
        if not is_compiled(compile_key):
            # Stand-ins of the right types: nothing is read or written.
            wide = t if call.listed else out
            scratch = _empty_scratch(call, *state[1:])
            back = _plan_backward(call, with_strides(out), out, wide, wide, t, scratch, *state[1:]) if learnt else []
            compile_ahead(compile_key, [*launches, *back], out)
        _run(call, key, launches, (), state)
    return state


def backward(call: AttentionCall, g: Tensor, *state: Tensor) -> list[Tensor]:
    """Return gradients in queries, keys, values and, if there are any, alphas, from the state of :func:`forward`."""
    key = ("attention_backward", len(state), g.stride(), g.dtype, call.layout)
    again = call_again(key, *call.given, g, *state)
    if again is not None:
        return again[:3] if call.alphas is None else [*again[:3], again[3].sum((0, 2))]
    call = _with_tensors_of_its_own(call)
    q, k, v = call.q, call.k, call.v
    t = state[0]
    dq = torch.empty_like(q, memory_format=torch.contiguous_format)
    wide = torch.float32 if call.listed else None  # many small parts are added
    some = q.numel() > 0 and g.numel() > 0
    new = torch.zeros_like if call.listed or not some else torch.empty_like
    dk, dv = (new(x, dtype=wide, memory_format=torch.contiguous_format) for x in (k, v))
    dalpha = None if call.alphas is None else torch.empty_like(t) if some else torch.zeros_like(t)
    if some:
        incoming = g if g.stride(-1) == 1 else g.contiguous()
        with on_device(q):
            scratch = _empty_scratch(call, *state)
            launches = _plan_backward(call, with_strides(incoming), dq, dk, dv, dalpha, scratch, *state)
            compile_key = (None, *_compile_key(call, launches[-1].constants))
            if not is_compiled(compile_key):
                compile_ahead(compile_key, launches, dq)
            made = [dq, dk, dv, *([] if dalpha is None else [dalpha]), *scratch]
            _run(call, key if incoming is g else None, launches, (g, *state), made)
    grads = [dq, dk.to(k.dtype), dv.to(v.dtype)]
    return grads if dalpha is None else [*grads, dalpha.sum((0, 2))]


def _with_tensors_of_its_own(call: AttentionCall) -> AttentionCall:
    """Return a call whose tensors are told apart, where one is both queries and keys, say."""
    return replace(call, q=call.q.detach(), k=call.k.detach(), v=call.v.detach())


def _run(
    call: AttentionCall, key: tuple | None, launches: list[PlannedLaunch], state: Sequence[Tensor], made: list[Tensor]
) -> None:
    """Run launches, and keep them unless lists of keys are made, whose gradients are added to zeros."""
    if key is None or call.listed:
        for planned in launches:
            planned.run()
        return
    q, k, v, mask, *others = call.given
    mask = None if mask is None else call.tensors[3][0]  # bools as bytes, at the same place
    run_and_keep(key, launches, [q, k, v, mask, *others, *state], made)


def count_zeros(call: AttentionCall, t: Tensor) -> Tensor:
    """Return ``[4, B, H]``: visible pairs, those of weight zero, visible blocks, those of weight zero."""
    q = call.q
    batch, heads, rows = q.shape[:3]
    tiles = -(-rows // COUNT_BLOCK)
    found = q.new_zeros(4, batch, heads, tiles, dtype=torch.int32)
    if found.numel():
        queries, keys, _, mask, scalars = call.tensors
        exact = q.dtype == torch.float32
        constants = {**call.formula, "FLAGS": call.flags, "EXACT": exact, "BLOCK": COUNT_BLOCK}
        constants |= {name: call.sizes[name] for name in ("DEPTH", "D")}
        constants["BN"] = COUNT_BLOCK // 2 if exact else COUNT_BLOCK  # as much as registers hold
        tensors = (queries, keys, mask, scalars, t, found, found.stride(0))
        stages = 1 if exact else 2  # as much as shared memory holds of 256 features
        with on_device(q):
            count_zeros_kernel[(tiles * batch * heads,)](*tensors, **constants, num_warps=4, num_stages=stages)
    return found.sum(-1)


def _short_constants(call: AttentionCall, rows: int, warps: int) -> dict[str, Any]:
    """Return the constants of the kernels that hold all keys."""
    assert call.short is not None
    constants = {**call.formula, "FLAGS": call.flags, "EXACT": call.q.dtype == torch.float32, **call.sizes}
    return constants | {"BM": rows, "BN": call.short.block, "num_warps": warps}


def _plan_short(call: AttentionCall, tiling: ShortTiling, out: Tensor, t: Tensor) -> PlannedLaunch:
    """Return the launch of the forward pass where one block holds all keys."""
    grid = (-(-call.q.shape[-2] // tiling.rows) * call.q.shape[0] * call.q.shape[1],)
    tensors = (*call.tensors, out, t, call.drop)
    return PlannedLaunch(attention_short_kernel, grid, tensors, _short_constants(call, tiling.rows, tiling.warps))


def _plan_forward(call: AttentionCall, out: Tensor, t: Tensor, *state: Tensor) -> list[PlannedLaunch]:
    """Return the launches of the forward pass: of the queries that have lists, if any, then of the dense tiles."""
    if call.short:
        return [_plan_short(call, call.short, out, t)]
    blocks, dense = state[:2]
    case = Case.LISTS if call.listed else Case.DENSE
    kernels = choose("attention", case, call.q.itemsize, call.k.shape[-2])
    constants = _dense_constants(call)
    only = dense if call.listed else None
    launches = list(_plan_lists(call, out, t, *state)) if "attend_lists_kernel" in kernels else []
    tensors = (*call.tensors, out, t, blocks, only, call.drop)
    launches.append(PlannedLaunch(attention_dense_kernel, (call.parts * blocks.shape[0],), tensors, constants))
    return launches


def _plan_backward(
    call: AttentionCall,
    incoming: tuple,
    dq: Tensor,
    dk: Tensor,
    dv: Tensor,
    dalpha: Tensor | None,
    scratch: list[Tensor],
    t: Tensor,
    *state: Tensor,
) -> list[PlannedLaunch]:
    """Return the launches of the backward pass: of the queries that have lists, then of the dense tiles."""
    q, k, v, _, scalars = call.tensors
    batch, heads, rows = call.q.shape[:3]
    dalpha = None if call.alphas is None else dalpha
    if call.short:
        constants = _short_constants(call, call.short.back_rows, call.short.back_warps)
        given = (*call.tensors, incoming, t, dq, dk, dv, dalpha, call.drop)
        return [PlannedLaunch(short_vjp_kernel, (call.k.shape[0] * call.k.shape[1],), given, constants)]
    mean, wanted = scratch
    blocks, dense = state[:2]
    only, launches = None, []
    if call.listed:
        constants = {"KIND": call.kind.value, **call.sizes, "LENGTH": LIST_LENGTH, "C": call.tiling.chunk}
        tensors: tuple = (q, k, v, scalars, incoming, dq, dk, dv, dalpha, *state[1:], call.tiles)
        launches.append(PlannedLaunch(lists_vjp_kernel, (rows * heads * batch,), tensors, constants | {"num_warps": 1}))
        only = dense
    constants = _dense_constants(call, backward=True)
    tensors = (*call.tensors, incoming, t, mean, dq, dalpha, blocks, only, wanted, call.drop)
    launches.append(PlannedLaunch(dense_queries_vjp_kernel, (call.parts * blocks.shape[0],), tensors, constants))
    tensors = (*call.tensors, incoming, t, mean, dk, dv, blocks, only, call.parts, wanted, call.drop)
    grid = (blocks.shape[-1] * call.k.shape[0] * call.k.shape[1],)
    launches.append(PlannedLaunch(dense_keys_vjp_kernel, grid, tensors, constants))
    return launches


def _empty_scratch(call: AttentionCall, t: Tensor, *state: Tensor) -> list[Tensor]:
    """Return what the first kernel of the backward pass leaves to the second: means, and which blocks are wanted."""
    return [] if call.short else [torch.empty_like(t), torch.empty_like(state[0], dtype=torch.int32)]


def _dense_constants(call: AttentionCall, backward: bool = False) -> dict[str, Any]:
    """Return the constants of the kernels that read all keys."""
    tiling = call.tiling
    blocks = {"BM": tiling.rows, "BN": tiling.block, "PART": tiling.tile // tiling.rows}
    if not backward:
        blocks |= {"BN": tiling.block * tiling.wide, "WIDE": tiling.wide}
    launch = {"num_warps": tiling.warps, "num_stages": tiling.back_stages if backward else tiling.stages}
    registers = tiling.back_registers if backward else tiling.registers
    if registers is not None and torch.version.hip is None:
        launch["maxnreg"] = registers
    exact = call.q.dtype == torch.float32
    return {**call.formula, "FLAGS": call.flags, "EXACT": exact, **call.sizes, **blocks, **launch}


def _compile_key(call: AttentionCall, constants: dict[str, Any]) -> tuple:
    """Return the key of calls that need the same kernels; Triton specialises on integers that 16 divides, and on 1."""
    integers = (*call.q.shape[1:3], *call.k.shape[1:3], call.offset, call.left, call.right, call.parts)
    cases = [2 if n == 1 else n & 15 == 0 for n in integers]
    return (call.q.device.index, call.q.dtype, call.listed, call.alphas is None, *constants.values(), *cases)


def _plan_lists(
    call: AttentionCall, out: Tensor, t: Tensor, blocks: Tensor, dense: Tensor, lists: Tensor, p: Tensor, count: Tensor
) -> Iterator[PlannedLaunch]:
    """Yield the launches for the tiles that have few candidates; the others are flagged in ``dense``."""
    tiling, sizes = call.tiling, call.sizes
    q, k, v, mask, scalars = call.tensors
    # Where scores are products and nothing else, thresholds are divided by the scale and not products multiplied by it.
    raw = 0 if call.flags & (ALIBI | ADD) else RAW
    common: dict[str, Any] = {name: sizes[name] for name in ("DEPTH", "D", "BM")}
    common |= {**call.formula, "FLAGS": call.flags | raw, "num_stages": 3}
    most = tiling.bounds * 7 // 8
    constants = common | {"BN": tiling.bounds, "MAX_SUPPORT": most, "num_warps": tiling.bound_warps}
    tensors: tuple = (q, k, mask, scalars, t, dense)
    yield PlannedLaunch(bound_thresholds_kernel, (call.tiles * blocks.shape[0],), tensors, constants)
    marking = common | {"BN": tiling.marks, "num_warps": tiling.mark_warps}
    words = -(-call.k.shape[-2] // tiling.marks) * (tiling.marks // 32)
    at_once = max(MARK_BYTES * count.numel() // (4 * words * tiling.tile), 1)
    bits = dense.new_empty(min(at_once, dense.numel()) * tiling.tile * words, dtype=torch.int32)
    attending: dict[str, Any] = {**call.formula, "FLAGS": call.flags, "BN": tiling.marks, **sizes}
    attending |= {"LENGTH": LIST_LENGTH, "WORDS": min(256, triton.next_power_of_2(words)), "C": tiling.chunk}
    attending["num_warps"] = 1
    for first in range(0, dense.numel(), at_once):
        some = min(at_once, dense.numel() - first)
        tensors = (q, k, mask, scalars, t, bits, dense, first, call.tiles)
        yield PlannedLaunch(mark_candidates_kernel, (some,), tensors, marking)
        tensors = (q, k, v, mask, scalars, out, t, bits, dense, lists, p, count, first, call.tiles)
        yield PlannedLaunch(attend_lists_kernel, (tiling.tile * some,), tensors, attending)
