"""Gradients of entmax attention by lists: every query adds its part to the gradients of the keys on its list."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.attention.triton.lists import vector_of, vectors_of
from omegamax.kernels.attention.triton.powers import ENTMAX15, LOG2E, SPARSEMAX, alpha_slope
from omegamax.kernels.triton.numerics import log_base


@triton.jit
def scatter(
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
    """``dq``, and what a query adds to ``dk`` and ``dv``; its part of the derivative by alpha, if wanted."""
    heads, group, rows, keys = extra[4], extra[5], extra[6], extra[7]
    row = tl.program_id(0)
    h = tl.program_id(1)
    b = tl.program_id(2).to(tl.int64)
    head = b * heads + h
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
    incoming = vector_of(g[0] + b * g[1] + h * g[2] + row.to(tl.int64) * g[3], WIDTH, W)
    query = vector_of(q[0] + b * q[1] + h * q[2] + row.to(tl.int64) * q[3], DEPTH, D) * extra[11]
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
        dp = tl.sum(vectors_of(v_ptr, v[3], key, p > 0.0, WIDTH, W) * incoming, 1)
        s = weight_of(p, e, KIND)
        weight += tl.sum(s, 0)
        moved += tl.sum(s * dp, 0)
    mean = moved / tl.where(weight > 0.0, weight, 1.0)
    dq = tl.zeros([D], tl.float32)
    change = 0.0
    for start in range(0, count, C):
        item = start + tl.arange(0, C)
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        p = tl.load(p_ptr + item, mask=item < count, other=0.0)
        dp = tl.sum(vectors_of(v_ptr, v[3], key, p > 0.0, WIDTH, W) * incoming, 1)
        ds = weight_of(p, e, KIND) * (dp - mean)
        if dalpha_ptr is not None:
            change += tl.sum(ds * bend_of(p, e), 0)
        dq += tl.sum(vectors_of(k_ptr, k[3], key, p > 0.0, DEPTH, D) * ds[:, None], 0)
        add(dk_ptr, key, p > 0.0, ds[:, None] * query, DEPTH, D)
        add(dv_ptr, key, p > 0.0, p[:, None] * incoming, WIDTH, W)
    deep = tl.arange(0, D)
    tl.store(dq_ptr + at * DEPTH + deep, dq * extra[11], mask=deep < DEPTH)
    if dalpha_ptr is not None:
        tl.store(dalpha_ptr + at, change)


@triton.jit
def add(ptr, index, there, vectors, DEPTH: tl.constexpr, D: tl.constexpr):
    """Vectors ``[C, D]`` added to rows ``index [C]`` of a matrix to which other programs add, too."""
    d = tl.arange(0, D)[None, :]
    there = there[:, None] & (d < DEPTH)
    tl.atomic_add(ptr + index.to(tl.int64)[:, None] * DEPTH + d, vectors, there, sem="relaxed")


@triton.jit
def weight_of(p, e, KIND: tl.constexpr):
    """``p^(2 - alpha)`` on the support."""
    if KIND == SPARSEMAX:
        return (p > 0.0).to(tl.float32)
    if KIND == ENTMAX15:
        return tl.sqrt(p)
    return tl.where(p > 0.0, tl.exp2((1.0 - e) * tl.log2(tl.where(p > 0.0, p, 1.0))), 0.0)


@triton.jit
def bend_of(p, e):
    """What the derivative of ``p`` with respect to alpha has in place of a change of the scores."""
    on = p > 0.0
    logarithm = e * log_base(tl.where(on, p, 1.0), tl.where(on, p - 1.0, 0.0)) * LOG2E
    return alpha_slope(logarithm, tl.exp2(logarithm), e)
