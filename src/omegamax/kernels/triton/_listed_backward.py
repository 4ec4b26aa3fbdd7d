"""Gradients of entmax attention by lists: every query adds its part to the gradients of the keys on its list."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton._listed import vectors_of
from omegamax.kernels.triton._numbers import log_base
from omegamax.kernels.triton._powers import ENTMAX15, LOG2E, SPARSEMAX, alpha_slope


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
    R: tl.constexpr,
    C: tl.constexpr,
):
    """``dq``, and what R queries add to ``dk`` and ``dv``; each query's part of the derivative by alpha, if wanted."""
    heads, group, rows, keys = extra[4], extra[5], extra[6], extra[7]
    h = tl.program_id(1)
    b = tl.program_id(2).to(tl.int64)
    head = b * heads + h
    first = tl.program_id(0) * R
    if tl.load(dense_ptr + head * tiles + first // BM) != 0:
        return
    alpha, alpha_ptr = extra[0], extra[1]
    if alpha_ptr is not None:
        alpha = tl.load(alpha_ptr + h)
    e = tl.maximum(alpha - 1.0, 1.0 / 4096)
    row = first + tl.arange(0, R)[:, None]
    at = head * rows + row
    list_ptr += at * LENGTH
    p_ptr += at * LENGTH
    count = tl.load(count_ptr + at, mask=row < rows, other=0)
    most = tl.max(count)
    incoming = vectors_of(g[0] + b * g[1] + h * g[2], g[3], row, row < rows, WIDTH, W)
    query = vectors_of(q[0] + b * q[1] + h * q[2], q[3], row, row < rows, DEPTH, D) * extra[11]
    key_head = h // group
    v_ptr = v[0] + b * v[1] + key_head * v[2]
    k_ptr = k[0] + b * k[1] + key_head * k[2]
    slot = (b * (heads // group) + key_head) * keys
    dk_ptr += slot * DEPTH
    dv_ptr += slot * WIDTH
    weight = tl.zeros([R, 1], tl.float32)
    moved = tl.zeros([R, 1], tl.float32)
    for start in range(0, most, C):
        item = start + tl.arange(0, C)[None, :]
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        p = tl.load(p_ptr + item, mask=item < count, other=0.0)
        dp = tl.sum(vectors_of(v_ptr, v[3], key, p > 0.0, WIDTH, W) * incoming, 2)
        s = weight_of(p, e, KIND)
        weight += tl.sum(s, 1, keep_dims=True)
        moved += tl.sum(s * dp, 1, keep_dims=True)
    mean = moved / tl.where(weight > 0.0, weight, 1.0)
    dq = tl.zeros([R, D], tl.float32)
    change = tl.zeros([R, 1], tl.float32)
    for start in range(0, most, C):
        item = start + tl.arange(0, C)[None, :]
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        p = tl.load(p_ptr + item, mask=item < count, other=0.0)
        on = p > 0.0
        dp = tl.sum(vectors_of(v_ptr, v[3], key, on, WIDTH, W) * incoming, 2)
        ds = weight_of(p, e, KIND) * (dp - mean)
        if dalpha_ptr is not None:
            change += tl.sum(ds * bend_of(p, e), 1, keep_dims=True)
        dq += tl.sum(vectors_of(k_ptr, k[3], key, on, DEPTH, D) * ds[:, :, None], 1)
        add(dk_ptr, key, on, ds[:, :, None] * query, DEPTH, D)
        add(dv_ptr, key, on, p[:, :, None] * incoming, WIDTH, W)
    deep = tl.arange(0, D)[None, :]
    tl.store(dq_ptr + at * DEPTH + deep, dq * extra[11], mask=(row < rows) & (deep < DEPTH))
    if dalpha_ptr is not None:
        tl.store(dalpha_ptr + at, change, mask=row < rows)


@triton.jit
def add(ptr, index, there, vectors, DEPTH: tl.constexpr, D: tl.constexpr):
    """Vectors ``[R, C, D]`` added to rows ``index [R, C]`` of a matrix to which other programs add, too."""
    d = tl.arange(0, D)[None, None, :]
    there = there[:, :, None] if DEPTH == D else there[:, :, None] & (d < DEPTH)
    there = there & (d >= 0)
    tl.atomic_add(ptr + index.to(tl.int64)[:, :, None] * DEPTH + d, vectors, there, sem="relaxed")


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
