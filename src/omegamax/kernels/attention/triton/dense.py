"""Entmax attention over all keys in blocks: right for any support, also one of nearly all keys."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.attention.triton.powers import distant, end_of, moves, power, powers, start_of, step_of, unsettled
from omegamax.kernels.attention.triton.scores import ADD, ALIBI, RAW, block_of, head_of, scores, seen_by, view_of
from omegamax.kernels.triton.deformed import FAR, straight
from omegamax.kernels.triton.numerics import any_row, largest, sum1, sum3

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
    PART: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Outputs ``[batch, heads, rows, WIDTH]``, thresholds ``[batch, heads, rows]``, and which blocks have support.

    The last, ``[batch, heads, tiles, blocks]``, found for WIDE blocks at a time, tells the backward passes what to
    skip. Where ``dense_ptr`` is given, only what it names is done, PART tiles by one number.
    """
    tiles = tl.num_programs(0)
    tile = tiles - 1 - tl.program_id(0)  # causal: those with the most work first
    head = tl.program_id(1)
    if dense_ptr is not None:
        if tl.load(dense_ptr + head * tl.cdiv(tiles, PART) + tile // PART) == 0:
            return
    heads, rows, keys, offset, left, right = extra[4], extra[6], extra[7], extra[8], extra[9], extra[10]
    b, h = head_of(head, heads)
    view, e, size = view_of(b, h, k, mask, extra, FLAGS)
    first = tile * BM
    index = first + tl.arange(0, BM)
    row = index[:, None]
    queries = block_of(q[0] + b * q[1] + h * q[2], q[3], index, rows, True, DEPTH, D)
    low, whole, full, high = seen_by(first, size, offset, left, right, FLAGS, BM, BN)
    blocks = tl.cdiv(keys, BN // WIDE)
    block_ptr += (head.to(tl.int64) * tiles + tile) * blocks

    # The largest scores of columns that are BN apart: some of the keys, whose threshold is at most that of all.
    peaks = tl.full([BM, BN], float("-inf"), tl.float32)
    for start in range(low, high, BN):
        w = scores(queries, view, row, start, (start < whole) | (start >= full), RAW | FLAGS, DEPTH, D, BN)
        peaks = tl.maximum(peaks, w, propagate_nan=tl.PropagateNan.ALL)
    if not (ADD | ALIBI) & FLAGS:
        peaks *= view[9]
    top, t = threshold_of(peaks, e, KIND, EXACT, not EXACT)
    last = end_of(tl.where(top > float("-inf"), top, 0.0), e, tl.maximum(high - low, 1), KIND)

    v_ptr = v[0] + b * v[1] + (h // extra[5]) * v[2]
    out = tl.zeros([BM, W], tl.float32)
    total = tl.zeros([BM, 1], tl.float32)
    past = tl.zeros([BM, 1], tl.float32)
    enough = 1e-4 if EXACT else (5e-3 if v[0].dtype.element_ty == tl.bfloat16 else 2e-3)  # of the mass may be missing
    rounds = 0
    go = True
    while go:
        slope = tl.zeros([BM, 1], tl.float32)
        far = True
        while far:
            mass = tl.zeros([BM, 1], tl.float32)
            slope = tl.zeros([BM, 1], tl.float32)
            bend = tl.zeros([BM, 1], tl.float32)
            for start in range(low, high, BN):
                w = scores(queries, view, row, start, (start < whole) | (start >= full), FLAGS, DEPTH, D, BN)
                s, r, u = powers(w, t, e, KIND, EXACT)
                s, r, u = sum3(s, r, u)
                mass += s
                slope += r
                bend += u
            past = tl.where(mass < FAR, 1.0, past)
            step = step_of(mass, slope, straight(mass, slope, bend, past), e, KIND, EXACT)
            moving = unsettled(mass, step, t, e, KIND, EXACT) if EXACT else distant(mass, step, t, e)
            t = tl.minimum(t + step, last)
            rounds += 1
            far = (tl.max(moving.to(tl.int32)) > 0) & (rounds < ROUNDS)

        out = tl.zeros([BM, W], tl.float32)
        total = tl.zeros([BM, 1], tl.float32)
        for start in range(low, high, BN):
            w = scores(queries, view, row, start, (start < whole) | (start >= full), FLAGS, DEPTH, D, BN)
            p = power(w, t, e, KIND, EXACT)
            values = block_of(v_ptr, v[3], start + tl.arange(0, BN), size, True, WIDTH, W)
            out = tl.dot(p.to(values.dtype), values, out, input_precision="tf32x3")
            s = sum1(p)
            these = start // BN * WIDE + tl.arange(0, WIDE)
            tl.store(block_ptr + these, (tl.max(s) > 0.0).to(tl.int8), mask=these < blocks)
            total += s
        # What the last step left over, by the slope that it knew: to see whether it matters, and for the backward pass.
        rest = tl.where(total > 0.0, e * (total - 1.0) / tl.where(slope > 0.0, slope, 1.0), 0.0)
        off = (tl.abs(total - 1.0) > enough) & moves(rest, t)
        if not EXACT:
            t = tl.minimum(t + rest, last)
        go = (tl.max(off.to(tl.int32)) > 0) & (rounds < ROUNDS)
    out = out / tl.where(total > 0.0, total, 1.0)
    out = tl.where(top < float("inf"), out, float("nan"))
    column = tl.arange(0, W)[None, :]
    at = head.to(tl.int64) * rows + row
    tl.store(out_ptr + at * WIDTH + column, out, mask=(row < rows) & (column < WIDTH))
    tl.store(t_ptr + at, tl.where(top < float("inf"), t, float("nan")), mask=row < rows)


@triton.jit
def threshold_of(w, e, KIND: tl.constexpr, EXACT: tl.constexpr, ROUGH: tl.constexpr):
    """Largest score and threshold of each row of a tile ``[BM, BN]``; any where there is no score."""
    top = largest(w)
    some = tl.where(top > float("-inf"), top, 0.0)
    return top, settled(w, start_of(some, KIND), end_of(some, e, w.shape[1], KIND), e, KIND, EXACT, ROUGH)


@triton.jit
def settled(w, t, last, e, KIND: tl.constexpr, EXACT: tl.constexpr, ROUGH: tl.constexpr):
    """The threshold of each row of a tile, from a start ``t`` to ``last`` at most; ``ROUGH``: about so much."""
    past = tl.zeros_like(t)
    rounds = 0
    go = True
    while go:
        s, r, u = powers(w, t, e, KIND, EXACT)
        s, r, u = sum3(s, r, u)
        past = tl.where(s < FAR, 1.0, past)
        step = step_of(s, r, straight(s, r, u, past), e, KIND, EXACT)
        moving = distant(s, step, t, e) if ROUGH else unsettled(s, step, t, e, KIND, EXACT)
        t = tl.minimum(t + step, last)
        rounds += 1
        go = any_row(moving, w) & (rounds < ROUNDS)
    return t
