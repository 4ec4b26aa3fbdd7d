"""Entmax attention over all keys in blocks, for any support; and a count of its zeros."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.attention.triton.dropout import keep_factors, row_words
from omegamax.kernels.attention.triton.powers import (
    exceeds_rounding,
    first_threshold,
    halley_step,
    is_distant,
    is_unsettled,
    last_threshold,
    power_terms,
    probability,
)
from omegamax.kernels.attention.triton.scores import (
    ADD,
    ALIBI,
    DROPOUT,
    RAW,
    batch_and_head,
    head_view,
    load_rows,
    part_and_head,
    score_block,
    visible_blocks,
)
from omegamax.kernels.triton.deformed import newton_curvature
from omegamax.kernels.triton.device import MAX_STEPS, OVERSHOT, any_row, row_max, row_sum, row_sum3


@triton.jit
def attention_dense_kernel(
    q,
    k,
    v,
    mask,
    extra,
    out_ptr,
    t_ptr,
    block_ptr,
    dense_ptr,
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
    WIDE: tl.constexpr,
):
    """Compute outputs ``[batch, heads, rows, WIDTH]``, thresholds ``[batch, heads, rows]``, and flags of blocks.

    The flags ``[batch, heads, tiles, blocks]`` say which blocks have support, found for ``WIDE`` blocks at a time, so
    that the backward passes skip the others. Where ``dense_ptr`` is given, only tiles that it flags are computed,
    ``PART`` of them by one flag.
    """
    tiles = tl.cdiv(extra[6], BM)
    tile, head = part_and_head(tiles)
    tile = tiles - 1 - tile  # causal: those with the most work first
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
    first_key, full_from, full_to, last_key = visible_blocks(first, size, offset, left, right, FLAGS, BM, BN)
    blocks = tl.cdiv(keys, BN // WIDE)
    block_ptr += (head.to(tl.int64) * tiles + tile) * blocks

    # The maxima over keys that are BN apart: a subset of the keys, whose threshold is at most that of all.
    peaks = tl.full([BM, BN], float("-inf"), tl.float32)
    for start in range(first_key, last_key, BN):
        edge = (start < full_from) | (start >= full_to)
        w = score_block(queries, view, row, start, edge, RAW | FLAGS, DEPTH, D, BN)
        peaks = tl.maximum(peaks, w, propagate_nan=tl.PropagateNan.ALL)
    if not (ADD | ALIBI) & FLAGS:
        peaks *= view[9]
    top, t = top_and_threshold(peaks, e, KIND, N, EXACT, not EXACT)
    last = last_threshold(tl.where(top > float("-inf"), top, 0.0), e, tl.maximum(last_key - first_key, 1), KIND)

    v_ptr = v[0] + b * v[1] + (h // extra[5]) * v[2]
    if DROPOUT & FLAGS:
        words = row_words(drop, head, row)
    out = tl.zeros([BM, W], tl.float32)
    total = tl.zeros([BM, 1], tl.float32)
    overshot = tl.zeros([BM, 1], tl.float32)
    tolerance = 1e-4 if EXACT else (5e-3 if v[0].dtype.element_ty == tl.bfloat16 else 2e-3)  # mass that may be missing
    steps = 0
    go = True
    while go:
        slope = tl.zeros([BM, 1], tl.float32)
        searching = True
        while searching:
            mass = tl.zeros([BM, 1], tl.float32)
            slope = tl.zeros([BM, 1], tl.float32)
            curvature = tl.zeros([BM, 1], tl.float32)
            for start in range(first_key, last_key, BN):
                edge = (start < full_from) | (start >= full_to)
                w = score_block(queries, view, row, start, edge, FLAGS, DEPTH, D, BN)
                s, r, u = power_terms(w, t, e, KIND, N, EXACT)
                s, r, u = row_sum3(s, r, u)
                mass += s
                slope += r
                curvature += u
            overshot = tl.where(mass < OVERSHOT, 1.0, overshot)
            step = halley_step(mass, slope, newton_curvature(mass, slope, curvature, overshot), e, KIND, EXACT)
            moving = is_unsettled(mass, step, t, e, KIND, EXACT) if EXACT else is_distant(mass, step, t, e)
            t = tl.minimum(t + step, last)
            steps += 1
            searching = (tl.max(moving.to(tl.int32)) > 0) & (steps < MAX_STEPS)

        out = tl.zeros([BM, W], tl.float32)
        total = tl.zeros([BM, 1], tl.float32)
        for start in range(first_key, last_key, BN):
            edge = (start < full_from) | (start >= full_to)
            w = score_block(queries, view, row, start, edge, FLAGS, DEPTH, D, BN)
            p = probability(w, t, e, KIND, N, EXACT)
            values = load_rows(v_ptr, v[3], start + tl.arange(0, BN), size, True, WIDTH, W)
            s = row_sum(p)
            if DROPOUT & FLAGS:
                p *= keep_factors(drop, words, start, BN)
            out = tl.dot(p.to(values.dtype), values, out, input_precision="tf32x3")
            these = start // BN * WIDE + tl.arange(0, WIDE)
            tl.store(block_ptr + these, (tl.max(s) > 0.0).to(tl.int8), mask=these < blocks)
            total += s
        # The rest of the last step, to first order: to see whether it matters, and for the backward pass.
        rest = tl.where(total > 0.0, e * (total - 1.0) / tl.where(slope > 0.0, slope, 1.0), 0.0)
        off = (tl.abs(total - 1.0) > tolerance) & exceeds_rounding(rest, t)
        if not EXACT:
            t = tl.minimum(t + rest, last)
        go = (tl.max(off.to(tl.int32)) > 0) & (steps < MAX_STEPS)
    out = out / tl.where(total > 0.0, total, 1.0)
    out = tl.where(top < float("inf"), out, float("nan"))
    column = tl.arange(0, W)[None, :]
    at = head.to(tl.int64) * rows + row
    tl.store(out_ptr + at * WIDTH + column, out, mask=(row < rows) & (column < WIDTH))
    tl.store(t_ptr + at, tl.where(top < float("inf"), t, float("nan")), mask=row < rows)


@triton.jit
def top_and_threshold(w, e, KIND: tl.constexpr, N: tl.constexpr, EXACT: tl.constexpr, ROUGH: tl.constexpr):
    """Return maximum and threshold of each row of scores ``[BM, BN]``; undefined for rows without scores."""
    top = row_max(w)
    visible = tl.where(top > float("-inf"), top, 0.0)
    return top, solve_threshold(
        w, first_threshold(visible, KIND), last_threshold(visible, e, w.shape[1], KIND), e, KIND, N, EXACT, ROUGH
    )


@triton.jit
def solve_threshold(w, t, last, e, KIND: tl.constexpr, N: tl.constexpr, EXACT: tl.constexpr, ROUGH: tl.constexpr):
    """Return the threshold of each row, searched from ``t`` up to ``last``; ``ROUGH``: to a few thousandths of mass."""
    overshot = tl.zeros_like(t)
    steps = 0
    go = True
    while go:
        s, r, u = power_terms(w, t, e, KIND, N, EXACT)
        s, r, u = row_sum3(s, r, u)
        overshot = tl.where(s < OVERSHOT, 1.0, overshot)
        step = halley_step(s, r, newton_curvature(s, r, u, overshot), e, KIND, EXACT)
        moving = is_distant(s, step, t, e) if ROUGH else is_unsettled(s, step, t, e, KIND, EXACT)
        t = tl.minimum(t + step, last)
        steps += 1
        go = any_row(moving, w) & (steps < MAX_STEPS)
    return t


@triton.jit
def count_zeros_kernel(
    q,
    k,
    mask,
    extra,
    t_ptr,
    found_ptr,
    found_stride,
    KIND: tl.constexpr,
    N: tl.constexpr,
    FLAGS: tl.constexpr,
    EXACT: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    BN: tl.constexpr,
):
    """Count visible pairs and blocks of a tile, and those of weight zero: ``found [4, batch, heads, tiles]``."""
    tiles = tl.cdiv(extra[6], BLOCK)
    tile, head = part_and_head(tiles)
    heads, rows, offset, left, right = extra[4], extra[6], extra[8], extra[9], extra[10]
    b, h = batch_and_head(head, heads)
    view, e, size = head_view(b, h, k, mask, extra, FLAGS)
    first = tile * BLOCK
    index = first + tl.arange(0, BLOCK)
    row = index[:, None]
    queries = load_rows(q[0] + b * q[1] + h * q[2], q[3], index, rows, True, DEPTH, D)
    first_key, _, _, last_key = visible_blocks(first, size, offset, left, right, FLAGS, BLOCK, BLOCK)
    t = tl.load(t_ptr + head.to(tl.int64) * rows + row, mask=row < rows, other=0.0)
    seen = first * 0
    zero_pairs = first * 0
    blocks = first * 0
    empty_blocks = first * 0
    for start in range(first_key, last_key, BLOCK):
        visible = first * 0
        zeros = first * 0
        for part in tl.static_range(0, BLOCK, BN):
            w = score_block(queries, view, row, start + part, True, FLAGS, DEPTH, D, BN)
            there = (w != float("-inf")) & (row < rows)
            # Where the threshold is NaN, so are the weights, and none of them is zero.
            zero = there & ~(probability(w, t, e, KIND, N, EXACT) > 0.0) & (t == t)
            visible += tl.sum(tl.sum(there.to(tl.int32), 1), 0)
            zeros += tl.sum(tl.sum(zero.to(tl.int32), 1), 0)
        seen += visible
        zero_pairs += zeros
        blocks += (visible > 0).to(tl.int32)
        empty_blocks += ((visible > 0) & (visible == zeros)).to(tl.int32)
    at = found_ptr + head * tiles + tile
    tl.store(at, seen)
    tl.store(at + found_stride, zero_pairs)
    tl.store(at + 2 * found_stride, blocks)
    tl.store(at + 3 * found_stride, empty_blocks)
