"""Entmax attention over keys that are few enough for one block: a tile's scores are computed once and kept."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.attention.triton.dense import top_and_threshold
from omegamax.kernels.attention.triton.dropout import keep_factors, row_words
from omegamax.kernels.attention.triton.powers import alpha_slope, probability, probability_and_slope
from omegamax.kernels.attention.triton.scores import (
    DROPOUT,
    batch_and_head,
    head_view,
    load_rows,
    mask_invisible,
    part_and_head,
    score_block,
    scores_of_products,
)
from omegamax.kernels.triton.device import row_sum, row_sum2


@triton.jit
def attention_short_kernel(
    q,
    k,
    v,
    mask,
    extra,
    out_ptr,
    t_ptr,
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
):
    """Compute outputs ``[batch, heads, rows, WIDTH]`` and thresholds ``[batch, heads, rows]``, of at most BN keys."""
    heads, rows = extra[4], extra[6]
    tile, head = part_and_head(tl.cdiv(rows, BM))
    b, h = batch_and_head(head, heads)
    view, e, size = head_view(b, h, k, mask, extra, FLAGS)
    index = tile * BM + tl.arange(0, BM)
    row = index[:, None]
    queries = load_rows(q[0] + b * q[1] + h * q[2], q[3], index, rows, True, DEPTH, D)
    w = score_block(queries, view, row, 0, True, FLAGS, DEPTH, D, BN)
    top, t = top_and_threshold(w, e, KIND, N, EXACT, False)
    p = probability(w, t, e, KIND, N, EXACT)
    total = row_sum(p)
    if DROPOUT & FLAGS:
        p *= keep_factors(drop, row_words(drop, head, row), 0, BN)
    v_ptr = v[0] + b * v[1] + (h // extra[5]) * v[2]
    values = load_rows(v_ptr, v[3], tl.arange(0, BN), size, True, WIDTH, W)
    out = tl.dot(p.to(values.dtype), values, input_precision="tf32x3")
    out = out / tl.where(total > 0.0, total, 1.0)
    out = tl.where(top < float("inf"), out, float("nan"))
    column = tl.arange(0, W)[None, :]
    at = head.to(tl.int64) * rows + row
    tl.store(out_ptr + at * WIDTH + column, out, mask=(row < rows) & (column < WIDTH))
    tl.store(t_ptr + at, tl.where(top < float("inf"), t, float("nan")), mask=row < rows)


@triton.jit
def short_vjp_kernel(
    q,
    k,
    v,
    mask,
    extra,
    g,
    t_ptr,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    dalpha_ptr,
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
):
    """Compute ``dq``, ``dk`` and ``dv`` of all queries that share a head of keys, each pair of them met once.

    Where ``dalpha_ptr`` is given, also each row's part of the derivative in alpha.
    """
    heads, group, rows, keys = extra[4], extra[5], extra[6], extra[7]
    b, key_head = batch_and_head(tl.program_id(0), heads // group)
    index = tl.arange(0, BN)
    k_block = load_rows(k[0] + b * k[1] + key_head * k[2], k[3], index, keys, True, DEPTH, D)
    v_block = load_rows(v[0] + b * v[1] + key_head * v[2], v[3], index, keys, True, WIDTH, W)
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, W], tl.float32)
    for member in range(0, group):
        h = key_head * group + member
        head = b * heads + h
        view, e, _size = head_view(b, h, k, mask, extra, FLAGS)
        for first in range(0, rows, BM):
            query = first + tl.arange(0, BM)
            row = query[:, None]
            queries = load_rows(q[0] + b * q[1] + h * q[2], q[3], query, rows, True, DEPTH, D)
            incoming = load_rows(g[0] + b * g[1] + h * g[2], g[3], query, rows, True, WIDTH, W)
            at = head * rows + row
            t = tl.load(t_ptr + at, mask=row < rows, other=float("inf"))
            product = tl.dot(queries, tl.trans(k_block), input_precision="tf32x3")
            product = mask_invisible(product, view, row, 0, FLAGS)
            w = scores_of_products(product, view, row, 0, FLAGS)
            p, s = probability_and_slope(w, t, e, KIND, N, EXACT)
            dp = tl.dot(incoming, tl.trans(v_block), input_precision="tf32x3")
            if DROPOUT & FLAGS:
                kept = keep_factors(drop, row_words(drop, head, row), 0, BN)
                p *= kept
                dp *= kept
            dv = tl.dot(tl.trans(p.to(incoming.dtype)), incoming, dv, input_precision="tf32x3")
            weight, moved = row_sum2(s, s * dp)
            mean = moved / tl.where(weight > 0.0, weight, 1.0)
            if dalpha_ptr is not None:
                bend = s * alpha_slope(w, t, e, EXACT)
                a, c = row_sum2(bend, bend * dp)
                tl.store(dalpha_ptr + at, c - a * mean, mask=row < rows)
            ds = (s * (dp - mean)).to(queries.dtype)
            dk = tl.dot(tl.trans(ds), queries, dk, input_precision="tf32x3")
            dq = tl.dot(ds, k_block, input_precision="tf32x3") * extra[11]
            column = tl.arange(0, D)[None, :]
            tl.store(dq_ptr + at * DEPTH + column, dq, mask=(row < rows) & (column < DEPTH))
    at = (b * (heads // group) + key_head) * keys + index.to(tl.int64)[:, None]
    there = index[:, None] < keys
    column = tl.arange(0, D)[None, :]
    tl.store(dk_ptr + at * DEPTH + column, dk * extra[11], mask=there & (column < DEPTH))
    column = tl.arange(0, W)[None, :]
    tl.store(dv_ptr + at * WIDTH + column, dv, mask=there & (column < WIDTH))
