"""How much of entmax attention is zero, counted on the GPU from scores and thresholds."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from omegamax.kernels.attention.call import Attention, strided
from omegamax.kernels.attention.triton.powers import power
from omegamax.kernels.attention.triton.scores import block_of, head_of, scores, seen_by, view_of
from omegamax.kernels.triton.layout import on_device

BLOCK = 64  # queries and keys


def counts(call: Attention, t: Tensor) -> Tensor:
    """Pairs that are seen, those of them without weight, blocks that are seen, those without weight; ``[4, B, H]``."""
    q, k = call.q, call.k
    batch, heads, rows = q.shape[:3]
    tiles = -(-rows // BLOCK)
    found = q.new_zeros(4, batch, heads, tiles, dtype=torch.int32)
    if found.numel():
        tensors = call.tensors
        with on_device(q):
            count[(tiles, batch * heads)](
                strided(q),
                strided(k),
                tensors[3],
                tensors[4],
                t,
                found,
                found.stride(0),
                KIND=call.kind,
                FLAGS=call.flags,
                EXACT=q.dtype == torch.float32,
                DEPTH=call.sizes["DEPTH"],
                D=call.sizes["D"],
                BLOCK=BLOCK,
                BN=BLOCK // 2 if q.dtype == torch.float32 else BLOCK,  # as much as registers hold
                num_warps=4,
                num_stages=2,
            )
    return found.sum(-1)


@triton.jit
def count(
    q,
    k,
    mask,
    extra,
    t_ptr,
    found_ptr,
    found_stride,
    KIND: tl.constexpr,
    FLAGS: tl.constexpr,
    EXACT: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    BN: tl.constexpr,
):
    """The counts of one tile of queries."""
    tile = tl.program_id(0)
    head = tl.program_id(1)
    heads, rows, offset, left, right = extra[4], extra[6], extra[8], extra[9], extra[10]
    b, h = head_of(head, heads)
    view, e, size = view_of(b, h, k, mask, extra, FLAGS)
    first = tile * BLOCK
    index = first + tl.arange(0, BLOCK)
    row = index[:, None]
    queries = block_of(q[0] + b * q[1] + h * q[2], q[3], index, rows, True, DEPTH, D)
    low, _, _, high = seen_by(first, size, offset, left, right, FLAGS, BLOCK, BLOCK)
    t = tl.load(t_ptr + head.to(tl.int64) * rows + row, mask=row < rows, other=0.0)
    seen = first * 0
    empty = first * 0
    blocks = first * 0
    bare = first * 0
    for start in range(low, high, BLOCK):
        some = first * 0
        none = first * 0
        for part in tl.static_range(0, BLOCK, BN):
            w = scores(queries, view, row, start + part, True, FLAGS, DEPTH, D, BN)
            there = (w != float("-inf")) & (row < rows)
            # Where there is no threshold, there are no numbers for weights, and none of them is zero.
            zero = there & ~(power(w, t, e, KIND, EXACT) > 0.0) & (t == t)
            some += tl.sum(tl.sum(there.to(tl.int32), 1), 0)
            none += tl.sum(tl.sum(zero.to(tl.int32), 1), 0)
        seen += some
        empty += none
        blocks += (some > 0).to(tl.int32)
        bare += ((some > 0) & (some == none)).to(tl.int32)
    at = found_ptr + head * tl.num_programs(0) + tile
    tl.store(at, seen)
    tl.store(at + found_stride, empty)
    tl.store(at + 2 * found_stride, blocks)
    tl.store(at + 3 * found_stride, bare)
