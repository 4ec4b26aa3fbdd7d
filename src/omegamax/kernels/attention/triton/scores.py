"""Scores of a tile of queries and a block of keys, and which keys a tile sees.

Scores are kept as ``w = (alpha - 1) z``. A query at place ``i + offset`` sees keys from ``left`` before it to ``right``
after it; causal attention is ``right = 0``.
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


@triton.jit
def visible_blocks(first, size, offset, left, right, FLAGS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Blocks of keys seen by queries ``first`` to ``first + BM``: from, all seen from, all seen to, to."""
    low = first * 0
    whole = first * 0
    high = size
    full = size // BN * BN
    if LOCAL & FLAGS:
        high = tl.maximum(tl.minimum(size, first + BM + offset + right), 0)
        full = tl.minimum(size, tl.maximum(first + offset + right + 1, 0)) // BN * BN
        if LEFT & FLAGS:
            low = tl.maximum(first + offset - left, 0) // BN * BN
            whole = (tl.maximum(first + BM - 1 + offset - left, 0) + BN - 1) // BN * BN
    low = tl.minimum(low, high)
    whole = tl.maximum(tl.minimum(whole, full), low)
    full = tl.maximum(full, whole)
    return low, whole, full, high


@triton.jit
def score_block(q, view, row, start, edge, FLAGS: tl.constexpr, DEPTH: tl.constexpr, D: tl.constexpr, BN: tl.constexpr):
    """``w`` of queries ``q [BM, D]`` in rows ``row [BM, 1]`` and the keys from ``start``, ``[BM, BN]``.

    ``edge``: not all of these keys are there, or seen by all of these queries.
    """
    k = load_rows(view[0], view[1], start + tl.arange(0, BN), view[2], True, DEPTH, D)
    product = tl.dot(q, tl.trans(k), input_precision="tf32x3")
    if edge:  # before the rest, which may then be one operation with what follows
        product = mask_invisible(product, view, row, start, FLAGS)
    return scores_of_products(product, view, row, start, FLAGS)


@triton.jit
def scores_of_products(product, view, row, start, FLAGS: tl.constexpr):
    """``w`` of products of queries and keys, which may not all be seen."""
    size, mask_ptr, mask_row, mask_column, rows = view[2], view[3], view[4], view[5], view[6]
    slope, e, gain, offset = view[7], view[8], view[9], view[10]
    w = product if (RAW & FLAGS) and not ((ADD | ALIBI) & FLAGS) else product * gain
    column = start + tl.arange(0, product.shape[1])[None, :]
    if ALIBI & FLAGS:
        w -= slope * tl.abs(column - row - offset).to(tl.float32)
    if (KEEP | ADD) & FLAGS:
        at = mask_ptr + column.to(tl.int64) * mask_column
        there = column < size
        if not BY_KEY & FLAGS:
            at += row.to(tl.int64) * mask_row
            there &= row < rows
        if KEEP & FLAGS:
            w = tl.where(tl.load(at, mask=there, other=0) != 0, w, float("-inf"))
        else:
            w += e * tl.load(at, mask=there, other=0.0).to(tl.float32)
    return w


@triton.jit
def mask_invisible(w, view, row, start, FLAGS: tl.constexpr):
    """Products or scores with ``-inf`` in place of keys that are not there or not seen."""
    size, offset, left, right = view[2], view[10], view[11], view[12]
    # Limits are those of rows, one number each: what is compared with them does not change from block to block.
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
    """Rows ``index`` of a matrix of ``size`` rows of ``DEPTH`` numbers, ``[BN, D]``; zeros where there is none."""
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
    """What :func:`scores` reads for head ``h`` of the queries in batch ``b``, alpha - 1, and the number of keys.

    ``k`` is the keys' pointer and their strides of batch, head and key; ``mask`` likewise, with a stride of queries
    before that of keys; ``extra`` is alpha (for each head, if there is a pointer), slopes, lengths, heads of queries in
    all and to a head of keys, queries, keys, offset, left, right and scale.
    """
    k_ptr, k_batch, k_head, k_stride = k
    mask_ptr, mask_batch, mask_head, mask_row, mask_column = mask
    alpha, alpha_ptr, slope_ptr, length_ptr, _heads, group, rows, size, offset, left, right, scale = extra
    if alpha_ptr is not None:
        alpha = tl.load(alpha_ptr + h)
    e = tl.maximum(alpha - 1.0, 1.0 / 4096)  # nearer to 1 the power would be too large to be exact
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
def batch_and_head(number, heads):
    """Batch and head of a number that counts both, in 64 bits: tensors may be large."""
    return (number // heads).to(tl.int64), (number % heads).to(tl.int64)
