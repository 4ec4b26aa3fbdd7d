"""Entmax attention by lists, forward and backward: one program for each query, over its few candidate keys.

Tiles with queries whose lists would be long are left to `dense`. Backward, every query adds its part to the
gradients of the keys on its list.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.attention.triton.dense import solve_threshold
from omegamax.kernels.attention.triton.powers import LOG2E, alpha_slope_from_log, last_threshold, probability
from omegamax.kernels.attention.triton.scores import (
    ADD,
    ALIBI,
    BY_KEY,
    batch_and_head,
    head_view,
    part_and_head,
    visible_blocks,
)
from omegamax.kernels.triton.device import ENTMAX15, SPARSEMAX, log_accurate, row_sum


@triton.jit
def count_bits(x):
    """Return how many bits of a 32-bit word are set."""
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return (x * 0x01010101) >> 24


@triton.jit
def attend_lists_kernel(
    q,
    k,
    v,
    mask,
    extra,
    out_ptr,
    t_ptr,
    bit_ptr,
    dense_ptr,
    list_ptr,
    p_ptr,
    count_ptr,
    first_tile,
    tiles,
    KIND: tl.constexpr,
    N: tl.constexpr,
    FLAGS: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    W: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    LENGTH: tl.constexpr,
    WORDS: tl.constexpr,
    C: tl.constexpr,
):
    """Compute outputs, lists of keys ``[batch, heads, rows, LENGTH]``, their probabilities and their counts."""
    place, local_tile = part_and_head(BM)
    index_of_tile = first_tile + local_tile
    head = index_of_tile // tiles
    tile = index_of_tile - head * tiles
    row = tile * BM + place
    heads, rows, keys, offset, left, right = extra[4], extra[6], extra[7], extra[8], extra[9], extra[10]
    if row >= rows:
        return
    if tl.load(dense_ptr + index_of_tile) != 0:
        return
    b, h = batch_and_head(head, heads)
    view, e, size = head_view(b, h, k, mask, extra, FLAGS)
    low, _whole, _full, high = visible_blocks(tile * BM, size, offset, left, right, FLAGS, BM, BN)
    at = head.to(tl.int64) * rows + row
    list_ptr += at * LENGTH
    p_ptr += at * LENGTH
    bit_ptr += (local_tile.to(tl.int64) * BM + place) * (tl.cdiv(keys, BN) * (BN // 32))
    count = bits_to_list(list_ptr, bit_ptr, low // 32, tl.cdiv(high, 32), LENGTH, WORDS)
    if count > LENGTH:
        tl.store(dense_ptr + index_of_tile, 1)
        return
    tl.store(count_ptr + at, count)
    query = load_vector(q[0] + b * q[1] + h * q[2] + row.to(tl.int64) * q[3], DEPTH, D)
    t = tl.load(t_ptr + at)
    v_ptr = v[0] + b * v[1] + (h // extra[5]) * v[2]
    tl.debug_barrier()
    for start in range(0, count, C):
        item = start + tl.arange(0, C)
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        products = tl.sum(load_vectors(view[0], view[1], key, item < count, DEPTH, D) * query, 1)
        w = list_scores(products, view, row, key, item < count, FLAGS)
        tl.store(p_ptr + item, w, mask=item < count)
    tl.debug_barrier()
    exact: tl.constexpr = k[0].dtype.element_ty == tl.float32
    if count <= LENGTH // 4:
        t = solve_list(p_ptr, count, t, e, KIND, N, exact, LENGTH // 4)
    else:
        t = solve_list(p_ptr, count, t, e, KIND, N, exact, LENGTH)
    tl.store(t_ptr + at, t)
    tl.debug_barrier()
    out = tl.zeros([W], tl.float32)
    for start in range(0, count, C):
        item = start + tl.arange(0, C)
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        p = tl.load(p_ptr + item, mask=item < count, other=0.0)
        out += tl.sum(load_vectors(v_ptr, v[3], key, p > 0.0, WIDTH, W) * p[:, None], 0)
    wide = tl.arange(0, W)
    tl.store(out_ptr + at * WIDTH + wide, out, mask=wide < WIDTH)


@triton.jit
def bits_to_list(list_ptr, bit_ptr, begin, end, LENGTH: tl.constexpr, WORDS: tl.constexpr):
    """List the indices of the keys whose bits are set, in order, and return their count, which may exceed LENGTH."""
    count = begin * 0
    for first in range(begin, end, WORDS):
        column = first + tl.arange(0, WORDS)
        word = tl.load(bit_ptr + column, mask=column < end, other=0).to(tl.uint32)
        inside = count_bits(word).to(tl.int32)
        position = count + tl.cumsum(inside, 0) - inside
        count += tl.sum(inside, 0)
        go = tl.max(inside, 0) > 0
        while go:
            rest = word & (word - 1)
            lowest = count_bits((word ^ rest) - 1).to(tl.int32)
            tl.store(list_ptr + position, column * 32 + lowest, mask=(word != 0) & (position < LENGTH))
            word = rest
            position += 1
            go = tl.max((word != 0).to(tl.int32), 0) > 0
    return count


@triton.jit
def solve_list(p_ptr, count, t, e, KIND: tl.constexpr, N: tl.constexpr, EXACT: tl.constexpr, LENGTH: tl.constexpr):
    """Replace listed scores by probabilities, and return their threshold, searched from a lower bound ``t``."""
    item = tl.arange(0, LENGTH)[None, :]
    w = tl.load(p_ptr + item, mask=item < count, other=float("-inf"))
    top = tl.max(w, 1, keep_dims=True)
    last = last_threshold(tl.where(top > float("-inf"), top, 0.0), e, LENGTH, KIND)
    thresholds = solve_threshold(w, t + tl.zeros_like(top), last, e, KIND, N, EXACT, not EXACT)
    p = probability(w, thresholds, e, KIND, N, EXACT)
    total = row_sum(p)
    tl.debug_barrier()
    tl.store(p_ptr + item, p / tl.where(total > 0.0, total, 1.0), mask=item < count)
    return tl.max(thresholds)


@triton.jit
def load_vector(ptr, DEPTH: tl.constexpr, D: tl.constexpr):
    """Load a vector of ``DEPTH`` entries as ``[1, D]`` in float32."""
    d = tl.arange(0, D)[None, :]
    return tl.load(ptr + d, mask=d < DEPTH, other=0.0).to(tl.float32)


@triton.jit
def load_vectors(ptr, stride, index, mask, DEPTH: tl.constexpr, D: tl.constexpr):
    """Load rows ``index [C]`` of a matrix in float32, ``[C, D]``; zeros where the mask is false."""
    d = tl.arange(0, D)[None, :]
    mask = mask[:, None] if DEPTH == D else mask[:, None] & (d < DEPTH)
    return tl.load(ptr + index.to(tl.int64)[:, None] * stride + d, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def list_scores(products, view, row, key, mask, FLAGS: tl.constexpr):
    """Return scores ``w [C]`` from the products of a query and listed keys, which are all visible."""
    mask_ptr, mask_row, mask_column = view[3], view[4], view[5]
    slope, e, gain, offset = view[7], view[8], view[9], view[10]
    w = products * gain
    if ALIBI & FLAGS:
        w -= slope * tl.abs(key - row - offset).to(tl.float32)
    if ADD & FLAGS:
        at = mask_ptr + key.to(tl.int64) * mask_column
        if not BY_KEY & FLAGS:
            at += row.to(tl.int64) * mask_row
        w += e * tl.load(at, mask=mask, other=0.0).to(tl.float32)
    return w


@triton.jit
def lists_vjp_kernel(
    q,
    k,
    v,
    extra,
    g,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    dalpha_ptr,
    dense_ptr,
    list_ptr,
    p_ptr,
    count_ptr,
    tiles,
    KIND: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    W: tl.constexpr,
    BM: tl.constexpr,
    LENGTH: tl.constexpr,
    C: tl.constexpr,
):
    """Compute ``dq``, add to ``dk`` and ``dv``, and compute a query's part of the derivative in alpha, if wanted."""
    heads, group, rows, keys = extra[4], extra[5], extra[6], extra[7]
    row, index = part_and_head(rows)
    head = index.to(tl.int64)
    b, h = batch_and_head(index, heads)
    if tl.load(dense_ptr + head * tiles + row // BM) != 0:
        return
    alpha, alpha_ptr = extra[0], extra[1]
    if alpha_ptr is not None:
        alpha = tl.load(alpha_ptr + h)
    e = tl.maximum(alpha - 1.0, 1.0 / 4096)
    at = head * rows + row
    list_ptr += at * LENGTH
    p_ptr += at * LENGTH
    count = tl.load(count_ptr + at)
    incoming = load_vector(g[0] + b * g[1] + h * g[2] + row.to(tl.int64) * g[3], WIDTH, W)
    query = load_vector(q[0] + b * q[1] + h * q[2] + row.to(tl.int64) * q[3], DEPTH, D) * extra[11]
    key_head = h // group
    v_ptr = v[0] + b * v[1] + key_head * v[2]
    k_ptr = k[0] + b * k[1] + key_head * k[2]
    slot = (b * (heads // group) + key_head) * keys
    dk_ptr += slot * DEPTH
    dv_ptr += slot * WIDTH
    weight = 0.0
    moved = 0.0
    for start in range(0, count, C):
        item = start + tl.arange(0, C)
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        p = tl.load(p_ptr + item, mask=item < count, other=0.0)
        dp = tl.sum(load_vectors(v_ptr, v[3], key, p > 0.0, WIDTH, W) * incoming, 1)
        s = jacobian_weight(p, e, KIND)
        weight += tl.sum(s, 0)
        moved += tl.sum(s * dp, 0)
    mean = moved / tl.where(weight > 0.0, weight, 1.0)
    dq = tl.zeros([D], tl.float32)
    change = 0.0
    for start in range(0, count, C):
        item = start + tl.arange(0, C)
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        p = tl.load(p_ptr + item, mask=item < count, other=0.0)
        dp = tl.sum(load_vectors(v_ptr, v[3], key, p > 0.0, WIDTH, W) * incoming, 1)
        ds = jacobian_weight(p, e, KIND) * (dp - mean)
        if dalpha_ptr is not None:
            change += tl.sum(ds * alpha_slope_of_probability(p, e), 0)
        dq += tl.sum(load_vectors(k_ptr, k[3], key, p > 0.0, DEPTH, D) * ds[:, None], 0)
        atomic_add_rows(dk_ptr, key, p > 0.0, ds[:, None] * query, DEPTH, D)
        atomic_add_rows(dv_ptr, key, p > 0.0, p[:, None] * incoming, WIDTH, W)
    deep = tl.arange(0, D)
    tl.store(dq_ptr + at * DEPTH + deep, dq * extra[11], mask=deep < DEPTH)
    if dalpha_ptr is not None:
        tl.store(dalpha_ptr + at, change)


@triton.jit
def atomic_add_rows(ptr, index, mask, vectors, DEPTH: tl.constexpr, D: tl.constexpr):
    """Add vectors ``[C, D]`` to rows ``index [C]`` of a matrix to which other programs add, too."""
    d = tl.arange(0, D)[None, :]
    mask = mask[:, None] & (d < DEPTH)
    tl.atomic_add(ptr + index.to(tl.int64)[:, None] * DEPTH + d, vectors, mask, sem="relaxed")


@triton.jit
def jacobian_weight(p, e, KIND: tl.constexpr):
    """Return ``p^(2 - alpha)`` on the support, 0 off it."""
    if KIND == SPARSEMAX:
        return (p > 0.0).to(tl.float32)
    if KIND == ENTMAX15:
        return tl.sqrt(p)
    return tl.where(p > 0.0, tl.exp2((1.0 - e) * tl.log2(tl.where(p > 0.0, p, 1.0))), 0.0)


@triton.jit
def alpha_slope_of_probability(p, e):
    """Return the change of a score that moves ``p`` as a change of alpha does."""
    on = p > 0.0
    logarithm = e * log_accurate(tl.where(on, p, 1.0), tl.where(on, p - 1.0, 0.0)) * LOG2E
    return alpha_slope_from_log(logarithm, tl.exp2(logarithm), e)
