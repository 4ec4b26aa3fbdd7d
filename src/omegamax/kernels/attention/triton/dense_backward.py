"""Gradients of entmax attention in queries, keys and values, over the blocks of keys that have support."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.attention.triton.dropout import keep_factors, row_words
from omegamax.kernels.attention.triton.powers import alpha_slope, probability_and_slope
from omegamax.kernels.attention.triton.scores import (
    DROPOUT,
    LOCAL,
    batch_and_head,
    head_view,
    load_rows,
    mask_invisible,
    part_and_head,
    scores_of_products,
    visible_blocks,
)
from omegamax.kernels.triton.device import row_sum2


@triton.jit
def dense_queries_vjp_kernel(
    q,
    k,
    v,
    mask,
    extra,
    g,
    t_ptr,
    mean_ptr,
    dq_ptr,
    dalpha_ptr,
    block_ptr,
    dense_ptr,
    wanted_ptr,
    drop,
    KIND: tl.constexpr,
    N: tl.constexpr,
    FLAGS: tl.constexpr,
    EXACT: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    W: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    PART: tl.constexpr,
):
    """Compute ``dq``, and ``mean [batch, heads, rows]`` of the weights' gradients ``dp`` weighted by ``p^(2 - alpha)``.

    Where ``dalpha_ptr`` is given, also each row's part of the derivative in alpha.
    """
    tiles = tl.cdiv(extra[6], BM)
    tile, head = part_and_head(tiles)
    tile = tiles - 1 - tile
    if dense_ptr is not None:
        if tl.load(dense_ptr + head * tl.cdiv(tiles, PART) + tile // PART) == 0:
            return
    heads, rows, keys, offset, left, right = extra[4], extra[6], extra[7], extra[8], extra[9], extra[10]
    b, h = batch_and_head(head, heads)
    view, e, size = head_view(b, h, k, mask, extra, FLAGS)
    first = tile * BM
    index = first + tl.arange(0, BM)
    row = index[:, None]
    queries = load_rows(q[0] + b * q[1] + h * q[2], q[3], index, rows, True, DEPTH, D)
    incoming = load_rows(g[0] + b * g[1] + h * g[2], g[3], index, rows, True, WIDTH, W)
    at = head.to(tl.int64) * rows + row
    t = tl.load(t_ptr + at, mask=row < rows, other=0.0)
    first_key, full_from, full_to, last_key = visible_blocks(first, size, offset, left, right, FLAGS, BM, BN)
    block_ptr += (head.to(tl.int64) * tiles + tile) * tl.cdiv(keys, BN)
    v_ptr = v[0] + b * v[1] + (h // extra[5]) * v[2]

    # dq is the sum of s (dp - mean) k. The mean is known at the end: until then it is that of the keys so far, and a
    # running sum of s k corrects what was added with another mean.
    mean = tl.zeros([BM, 1], tl.float32)
    weight = tl.zeros([BM, 1], tl.float32)
    moved = tl.zeros([BM, 1], tl.float32)
    bend_sum = tl.zeros([BM, 1], tl.float32)
    change = tl.zeros([BM, 1], tl.float32)
    dq = tl.zeros([BM, D], tl.float32)
    weighted_keys = tl.zeros([BM, D], tl.float32)
    wanted_ptr += (head.to(tl.int64) * tiles + tile) * tl.cdiv(keys, BN)
    if DROPOUT & FLAGS:
        words = row_words(drop, head, row)
    count = list_nonzero(wanted_ptr, block_ptr, 1, first_key // BN, tl.cdiv(last_key, BN), None, PART)
    for i in range(0, count):
        start = tl.load(wanted_ptr + i) * BN
        block = load_rows(view[0], view[1], start + tl.arange(0, BN), size, True, DEPTH, D)
        product = tl.dot(queries, tl.trans(block), input_precision="tf32x3")
        if (start < full_from) | (start >= full_to):
            product = mask_invisible(product, view, row, start, FLAGS)
        w = scores_of_products(product, view, row, start, FLAGS)
        s = probability_and_slope(w, t, e, KIND, N, EXACT)[1]
        values = load_rows(v_ptr, v[3], start + tl.arange(0, BN), size, True, WIDTH, W)
        dp = tl.dot(incoming, tl.trans(values), input_precision="tf32x3")
        if DROPOUT & FLAGS:
            dp *= keep_factors(drop, words, start, BN)
        a, c = row_sum2(s, s * dp)
        weight += a
        moved += c
        if dalpha_ptr is not None:
            bend = s * alpha_slope(w, t, e, EXACT)
            a, c = row_sum2(bend, bend * dp)
            bend_sum += a
            change += c
        now = moved / tl.where(weight > 0.0, weight, 1.0)
        dq += (mean - now) * weighted_keys
        mean = now
        dq = tl.dot((s * (dp - mean)).to(block.dtype), block, dq, input_precision="tf32x3")
        weighted_keys = tl.dot(s.to(block.dtype), block, weighted_keys, input_precision="tf32x3")
    tl.store(mean_ptr + at, mean, mask=row < rows)
    if dalpha_ptr is not None:
        tl.store(dalpha_ptr + at, change - bend_sum * mean, mask=row < rows)
    column = tl.arange(0, D)[None, :]
    tl.store(dq_ptr + at * DEPTH + column, dq * extra[11], mask=(row < rows) & (column < DEPTH))


@triton.jit
def dense_keys_vjp_kernel(
    q,
    k,
    v,
    mask,
    extra,
    g,
    t_ptr,
    mean_ptr,
    dk_ptr,
    dv_ptr,
    block_ptr,
    dense_ptr,
    tiles,
    wanted_ptr,
    drop,
    KIND: tl.constexpr,
    N: tl.constexpr,
    FLAGS: tl.constexpr,
    EXACT: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    W: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    PART: tl.constexpr,
):
    """Compute ``dk`` and ``dv`` of a block of keys; added to those of lists where there is ``dense_ptr``."""
    blocks = tl.cdiv(extra[7], BN)
    block, shared_head = part_and_head(blocks)
    heads, group, rows, keys = extra[4], extra[5], extra[6], extra[7]
    offset, left, right = extra[8], extra[9], extra[10]
    b, key_head = batch_and_head(shared_head, heads // group)
    start = block * BN
    index = start + tl.arange(0, BN)
    begin = 0
    end = tiles
    if LOCAL & FLAGS:
        begin = tl.maximum(start - right - offset, 0) // BM
        end = tl.minimum(tl.maximum(start + BN - 1 + left - offset + BM, 0) // BM, tiles)
    k_block = load_rows(k[0] + b * k[1] + key_head * k[2], k[3], index, keys, True, DEPTH, D)
    v_block = load_rows(v[0] + b * v[1] + key_head * v[2], v[3], index, keys, True, WIDTH, W)
    wanted_ptr += (shared_head.to(tl.int64) * blocks + block) * tiles
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, W], tl.float32)
    if dense_ptr is not None:
        parts = tl.cdiv(tiles, PART)
        if not any_nonzero(dense_ptr + (b * heads + key_head * group) * parts, group * parts):
            return
    for member in range(0, group):
        h = key_head * group + member
        view, e, size = head_view(b, h, k, mask, extra, FLAGS)
        head = b * heads + h
        only = None
        if dense_ptr is not None:
            only = dense_ptr + head * tl.cdiv(tiles, PART)
        flags = block_ptr + head * tiles * blocks + block
        count = list_nonzero(wanted_ptr, flags, blocks, begin, tl.where(start < size, end, begin), only, PART)
        for i in range(0, count):
            tile = tl.load(wanted_ptr + i)
            query = tile * BM + tl.arange(0, BM)
            row = query[:, None]
            queries = load_rows(q[0] + b * q[1] + h * q[2], q[3], query, rows, True, DEPTH, D)
            incoming = load_rows(g[0] + b * g[1] + h * g[2], g[3], query, rows, True, WIDTH, W)
            t = tl.load(t_ptr + head * rows + row, mask=row < rows, other=float("inf"))
            mean = tl.load(mean_ptr + head * rows + row, mask=row < rows, other=0.0)
            product = tl.dot(queries, tl.trans(k_block), input_precision="tf32x3")
            _low, full_from, full_to, _high = visible_blocks(tile * BM, size, offset, left, right, FLAGS, BM, BN)
            if (start < full_from) | (start >= full_to):
                product = mask_invisible(product, view, row, start, FLAGS)
            w = scores_of_products(product, view, row, start, FLAGS)
            p, s = probability_and_slope(w, t, e, KIND, N, EXACT)
            dp = tl.dot(incoming, tl.trans(v_block), input_precision="tf32x3")
            if DROPOUT & FLAGS:
                kept = keep_factors(drop, row_words(drop, head, row), start, BN)
                p *= kept
                dp *= kept
            ds = s * (dp - mean)
            dv = tl.dot(tl.trans(p.to(incoming.dtype)), incoming, dv, input_precision="tf32x3")
            dk = tl.dot(tl.trans(ds.to(queries.dtype)), queries, dk, input_precision="tf32x3")
    dk *= extra[11]
    at = (b * (heads // group) + key_head) * keys + index.to(tl.int64)[:, None]
    there = index[:, None] < keys
    column = tl.arange(0, D)[None, :]
    k_at, k_there = dk_ptr + at * DEPTH + column, there & (column < DEPTH)
    column = tl.arange(0, W)[None, :]
    v_at, v_there = dv_ptr + at * WIDTH + column, there & (column < WIDTH)
    if dense_ptr is not None:
        dk += tl.load(k_at, mask=k_there, other=0.0)
        dv += tl.load(v_at, mask=v_there, other=0.0)
    tl.store(k_at, dk, mask=k_there)
    tl.store(v_at, dv, mask=v_there)


@triton.jit
def list_nonzero(list_ptr, ptr, stride, begin, end, dense_ptr, PART: tl.constexpr):
    """List the indices from ``begin`` to ``end`` whose bytes are not zero, and return their count.

    A loop over a list is pipelined, which one that tests each byte cannot be.
    """
    tl.debug_barrier()  # other threads may still read the list before
    count = begin * 0
    for first in range(begin, end, 128):
        index = first + tl.arange(0, 128)
        there = index < end
        found = (tl.load(ptr + index.to(tl.int64) * stride, mask=there, other=0) != 0).to(tl.int32)
        if dense_ptr is not None:
            found &= (tl.load(dense_ptr + index // PART, mask=there, other=0) != 0).to(tl.int32)
        tl.store(list_ptr + count + tl.cumsum(found, 0) - found, index, mask=found != 0)
        count += tl.sum(found, 0)
    tl.debug_barrier()
    return count


@triton.jit
def any_nonzero(ptr, size):
    """Return whether one of ``size`` bytes is not zero."""
    found = tl.zeros([256], tl.int8)
    for start in range(0, size, 256):
        index = start + tl.arange(0, 256)
        found |= tl.load(ptr + index, mask=index < size, other=0)
    return tl.max(found, 0) != 0
