"""Scores of a tile of queries and a block of keys, and which keys are visible to a tile.

Scores are kept as ``w = (alpha - 1) z``. A query at position ``i + offset`` sees keys from ``left`` before it to
``right`` after it; causal attention is ``right = 0``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.attention import call

LOCAL = tl.constexpr(call.LOCAL)
LEFT = tl.constexpr(call.LEFT)
KEEP = tl.constexpr(call.KEEP)
ADD = tl.constexpr(call.ADD)
BY_KEY = tl.constexpr(call.BY_KEY)
ALIBI = tl.constexpr(call.ALIBI)
RAW = tl.constexpr(call.RAW)
DROPOUT = tl.constexpr(call.DROPOUT)


@triton.jit
def visible_blocks(first, size, offset, left, right, FLAGS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Return the range of keys visible to queries ``first`` to ``first + BM``, and that of blocks visible to all.

    In the order: first visible key, from where and up to where blocks are visible to all, end of the visible keys.
    """
    first_key = first * 0
    full_from = first * 0
    last_key = size
    full_to = size // BN * BN
    if LOCAL & FLAGS:
        last_key = tl.maximum(tl.minimum(size, first + BM + offset + right), 0)
        full_to = tl.minimum(size, tl.maximum(first + offset + right + 1, 0)) // BN * BN
        if LEFT & FLAGS:
            first_key = tl.maximum(first + offset - left, 0) // BN * BN
            full_from = (tl.maximum(first + BM - 1 + offset - left, 0) + BN - 1) // BN * BN
    last_key = tl.maximum(last_key, first_key)  # where there are none, both are where a block begins
    full_from = tl.maximum(tl.minimum(full_from, full_to), first_key)
    full_to = tl.maximum(full_to, full_from)
    return first_key, full_from, full_to, last_key


@triton.jit
def score_block(q, view, row, start, edge, FLAGS: tl.constexpr, DEPTH: tl.constexpr, D: tl.constexpr, BN: tl.constexpr):
    """Return ``w [BM, BN]`` of queries ``q [BM, D]`` in rows ``row [BM, 1]`` and the keys from ``start``.

    ``edge``: not all of these keys exist, or are visible to all of these queries.
    """
    k = load_rows(view[0], view[1], start + tl.arange(0, BN), view[2], True, DEPTH, D)
    product = tl.dot(q, tl.trans(k), input_precision="tf32x3")
    if edge:  # before the scale, which may then be fused with what follows
        product = mask_invisible(product, view, row, start, FLAGS)
    return scores_of_products(product, view, row, start, FLAGS)


@triton.jit
def scores_of_products(product, view, row, start, FLAGS: tl.constexpr):
    """Return ``w`` from products of queries and keys, of which invisible ones may already be -inf."""
    size, mask_ptr, mask_row, mask_column, rows = view[2], view[3], view[4], view[5], view[6]
    slope, e, gain, offset = view[7], view[8], view[9], view[10]
    w = product if (RAW & FLAGS) and not ((ADD | ALIBI) & FLAGS) else product * gain
    column = start + tl.arange(0, product.shape[1])[None, :]
    if ALIBI & FLAGS:
        w -= slope * tl.abs(column - row - offset).to(tl.float32)
    if (KEEP | ADD) & FLAGS:
        at = mask_ptr + column.to(tl.int64) * mask_column
        mask_visible = column < size
        if not BY_KEY & FLAGS:
            at += row.to(tl.int64) * mask_row
            mask_visible &= row < rows
        if KEEP & FLAGS:
            w = tl.where(tl.load(at, mask=mask_visible, other=0) != 0, w, float("-inf"))
        else:
            w += e * tl.load(at, mask=mask_visible, other=0.0).to(tl.float32)
    return w


@triton.jit
def mask_invisible(w, view, row, start, FLAGS: tl.constexpr):
    """Return products or scores with ``-inf`` for keys that do not exist or are invisible."""
    size, offset, left, right = view[2], view[10], view[11], view[12]
    # Each row has its own limits: what is compared with them does not change from block to block.
    local = tl.arange(0, w.shape[1])[None, :]
    end = size - start
    if LOCAL & FLAGS:
        end = tl.minimum(end, row + (offset + right + 1 - start))
    seen = local < end
    if LEFT & FLAGS:
        seen &= local >= row + (offset - left - start)
    return tl.where(seen, w, float("-inf"))


@triton.jit
def load_rows(ptr, stride, index, size, EDGE: tl.constexpr, DEPTH: tl.constexpr, D: tl.constexpr):
    """Load rows ``index`` of a matrix ``[size, DEPTH]`` as ``[BN, D]``; zeros outside it."""
    d = tl.arange(0, D)[None, :]
    at = ptr + index.to(tl.int64)[:, None] * stride + d
    if EDGE:
        if DEPTH == D:
            return tl.load(at, mask=index[:, None] < size, other=0.0)
        return tl.load(at, mask=(index[:, None] < size) & (d < DEPTH), other=0.0)
    if DEPTH == D:
        return tl.load(at)
    return tl.load(at, mask=d < DEPTH, other=0.0)


@triton.jit
def head_view(b, h, k, mask, extra, FLAGS: tl.constexpr):
    """Return what :func:`score_block` reads for head ``h`` of batch ``b``, alpha - 1, and the index of keys.

    ``k`` is the keys' pointer and their strides of batch, head and key; ``mask`` likewise, with a stride of queries
    before that of keys; ``extra`` is alpha (one for each head, if there is a pointer), slopes, lengths, query heads in
    all and for each key head, queries, keys, offset, left, right and scale.
    """
    k_ptr, k_batch, k_head, k_stride = k
    mask_ptr, mask_batch, mask_head, mask_row, mask_column = mask
    alpha, alpha_ptr, slope_ptr, length_ptr, _heads, group, rows, size, offset, left, right, scale = extra
    if alpha_ptr is not None:
        alpha = tl.load(alpha_ptr + h)
    e = tl.maximum(alpha - 1.0, 1.0 / 4096)  # nearer to 1 the exponent would be too large to be exact
    if length_ptr is not None:
        size = tl.minimum(tl.load(length_ptr + b), size)
    slope = 0.0
    if ALIBI & FLAGS:
        slope = e * tl.load(slope_ptr + h)
    if (KEEP | ADD) & FLAGS:
        mask_ptr += b * mask_batch + h * mask_head
    k_ptr += b * k_batch + (h // group) * k_head
    view = (k_ptr, k_stride, size, mask_ptr, mask_row, mask_column, rows, slope, e, e * scale, offset, left, right)
    return view, e, size


@triton.jit
def batch_and_head(index, heads):
    """Return batch and head from the index of both, in 64 bits: tensors may be large."""
    return (index // heads).to(tl.int64), (index % heads).to(tl.int64)


@triton.jit
def part_and_head(parts):
    """Return which of the parts of a head this program computes, and which head, from one axis of programs.

    The other axes of a grid end at 65535, which batch times heads may exceed.
    """
    return tl.program_id(0) % parts, tl.program_id(0) // parts
