"""Entmax attention over all keys in blocks: right for any support, also one of nearly all keys."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton._numbers import any_row, largest, sum1, sum3
from omegamax.kernels.triton._powers import end_of, power, powers, start_of, step_of, unsettled
from omegamax.kernels.triton._scores import block_of, head_of, scores, seen_by, view_of
from omegamax.kernels.triton._threshold import FAR, straight

ROUNDS = tl.constexpr(64)  # 2 to 4 are needed; for what nobody thought of


@triton.jit
def forward(
    q,
    k,
    v,
    mask,
    extra,
    out_ptr,
    t_ptr,
    block_ptr,
    dense_ptr,
    KIND: tl.constexpr,
    FLAGS: tl.constexpr,
    EXACT: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    W: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """Outputs ``[batch, heads, rows, WIDTH]``, thresholds ``[batch, heads, rows]``, and which blocks have support.

    The last, ``[batch, heads, tiles, blocks]``, also tells the backward passes what to skip. Where ``dense_ptr`` is
    given, only the tiles it names are done.
    """
    tiles = tl.num_programs(0)
    tile = tiles - 1 - tl.program_id(0)  # causal: those with the most work first
    head = tl.program_id(1)
    if dense_ptr is not None:
        if tl.load(dense_ptr + head * tiles + tile) == 0:
            return
    heads, rows, keys, offset, left, right = extra[4], extra[6], extra[7], extra[8], extra[9], extra[10]
    b, h = head_of(head, heads)
    view, e, size = view_of(b, h, k, mask, extra, FLAGS)
    first = tile * BM
    index = first + tl.arange(0, BM)
    row = index[:, None]
    queries = block_of(q[0] + b * q[1] + h * q[2], q[3], index, rows, True, DEPTH, D)
    low, whole, full, high = seen_by(first, size, offset, left, right, FLAGS, BM, BN)
    block_ptr += (head.to(tl.int64) * tiles + tile) * tl.cdiv(keys, BN)

    # The largest scores of columns that are BN apart: some of the keys, whose threshold is at most that of all.
    peaks = tl.full([BM, BN], float("-inf"), tl.float32)
    for start in range(low, high, BN):
        w = scores(queries, view, row, start, (start < whole) | (start >= full), FLAGS, DEPTH, D, BN)
        peaks = tl.maximum(peaks, w, propagate_nan=tl.PropagateNan.ALL)
    top, t = threshold_of(peaks, e, KIND, EXACT)
    last = end_of(tl.where(top > float("-inf"), top, 0.0), e, tl.maximum(high - low, 1), KIND)

    past = tl.zeros([BM, 1], tl.float32)
    rounds = 0
    go = True
    while go:
        mass = tl.zeros([BM, 1], tl.float32)
        slope = tl.zeros([BM, 1], tl.float32)
        bend = tl.zeros([BM, 1], tl.float32)
        for start in range(low, high, BN):
            w = scores(queries, view, row, start, (start < whole) | (start >= full), FLAGS, DEPTH, D, BN)
            s, r, u = powers(w, t, e, KIND, EXACT)
            s, r, u = sum3(s, r, u)
            tl.store(block_ptr + start // BN, (tl.max(s) > 0.0).to(tl.int8))
            mass += s
            slope += r
            bend += u
        past = tl.where(mass < FAR, 1.0, past)
        step = step_of(mass, slope, straight(mass, slope, bend, past), e, KIND, EXACT)
        moving = unsettled(mass, step, t, e, KIND, EXACT)
        t = tl.minimum(t + step, last)
        rounds += 1
        go = (tl.max(moving.to(tl.int32)) > 0) & (rounds < ROUNDS)

    v_ptr = v[0] + b * v[1] + (h // extra[5]) * v[2]
    out = tl.zeros([BM, W], tl.float32)
    total = tl.zeros([BM, 1], tl.float32)
    for start in range(low, high, BN):
        if tl.load(block_ptr + start // BN) > 0:
            w = scores(queries, view, row, start, (start < whole) | (start >= full), FLAGS, DEPTH, D, BN)
            p = power(w, t, e, KIND, EXACT)
            values = block_of(v_ptr, v[3], start + tl.arange(0, BN), size, True, WIDTH, W)
            out = tl.dot(p.to(values.dtype), values, out, input_precision="tf32x3")
            total += sum1(p)
    out = out / tl.where(total > 0.0, total, 1.0)
    out = tl.where(top < float("inf"), out, float("nan"))
    column = tl.arange(0, W)[None, :]
    at = head.to(tl.int64) * rows + row
    tl.store(out_ptr + at * WIDTH + column, out, mask=(row < rows) & (column < WIDTH))
    tl.store(t_ptr + at, tl.where(top < float("inf"), t, float("nan")), mask=row < rows)


@triton.jit
def threshold_of(w, e, KIND: tl.constexpr, EXACT: tl.constexpr):
    """Largest score and threshold of each row of a tile ``[BM, BN]``; any where there is no score."""
    top = largest(w)
    some = tl.where(top > float("-inf"), top, 0.0)
    return top, settled(w, start_of(some, KIND), end_of(some, e, w.shape[1], KIND), e, KIND, EXACT)


@triton.jit
def settled(w, t, last, e, KIND: tl.constexpr, EXACT: tl.constexpr):
    """The threshold of each row of a tile, from a start ``t`` to ``last`` at most."""
    past = tl.zeros_like(t)
    rounds = 0
    go = True
    while go:
        s, r, u = powers(w, t, e, KIND, EXACT)
        s, r, u = sum3(s, r, u)
        past = tl.where(s < FAR, 1.0, past)
        step = step_of(s, r, straight(s, r, u, past), e, KIND, EXACT)
        moving = unsettled(s, step, t, e, KIND, EXACT)
        t = tl.minimum(t + step, last)
        rounds += 1
        go = any_row(moving, w) & (rounds < ROUNDS)
    return t
