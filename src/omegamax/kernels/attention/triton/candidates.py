"""Candidates of each query, one bit for each key: those whose score is above a lower bound of the threshold.

One pass over the keys finds the lower bounds, another bits the keys above them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.attention import call
from omegamax.kernels.attention.triton.dense import top_and_threshold
from omegamax.kernels.attention.triton.powers import probability
from omegamax.kernels.attention.triton.scores import (
    LEFT,
    RAW,
    batch_and_head,
    head_view,
    load_rows,
    mask_invisible,
    part_and_head,
    scores_of_products,
    visible_blocks,
)
from omegamax.kernels.triton.device import ENTMAX

MIN_LISTED_ALPHA = tl.constexpr(call.MIN_LISTED_ALPHA)
MARGIN = tl.constexpr(1e-4)  # subtracted from the bounds, which are rounded
ROUNDING = tl.constexpr(1e-6)  # the same, relative to their size


@triton.jit
def bound_thresholds_kernel(
    q,
    k,
    mask,
    extra,
    t_ptr,
    dense_ptr,
    KIND: tl.constexpr,
    N: tl.constexpr,
    FLAGS: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    MAX_SUPPORT: tl.constexpr,
):
    """Compute lower bounds ``t [batch, heads, rows]`` of the thresholds, and flag the tiles that are not for lists.

    ``MAX_SUPPORT``: entries of a tile row in the support, beyond which a list would overflow.
    """
    tiles = tl.cdiv(extra[6], BM)
    tile, head = part_and_head(tiles)
    tile = tiles - 1 - tile  # causal: those with the most work first
    heads, rows, offset, left, right = extra[4], extra[6], extra[8], extra[9], extra[10]
    b, h = batch_and_head(head, heads)
    view, e, size = head_view(b, h, k, mask, extra, FLAGS)
    if extra[1] is not None:
        if e < MIN_LISTED_ALPHA - 1.0:
            tl.store(dense_ptr + head * tiles + tile, 1)
            return
    first = tile * BM
    index = first + tl.arange(0, BM)
    row = index[:, None]
    queries = load_rows(q[0] + b * q[1] + h * q[2], q[3], index, rows, True, DEPTH, D)
    first_key, full_from, full_to, last_key = visible_blocks(first, size, offset, left, right, FLAGS, BM, BN)
    # The maxima over keys that are BN apart: a subset of the keys, whose threshold is at most that of all.
    peaks = tl.full([BM, BN], float("-inf"), tl.float32)
    if LEFT & FLAGS:
        peaks = column_maxima(peaks, queries, view, row, first_key, full_from, FLAGS, True, DEPTH, D, BN)
    peaks = column_maxima(peaks, queries, view, row, full_from, full_to, FLAGS, False, DEPTH, D, BN)
    peaks = column_maxima(peaks, queries, view, row, full_to, last_key, FLAGS, True, DEPTH, D, BN)
    if RAW & FLAGS:
        peaks *= view[9]
    top, t = top_and_threshold(peaks, e, KIND, N, False, False)
    # If most of the subset is in the support, so are more keys than a list holds. NaN and infinity are not for lists.
    support = tl.sum((probability(peaks, t, e, KIND, N, False) > 0.0).to(tl.int32), 1)
    unlisted = ((support > MAX_SUPPORT) | ~(tl.max(top, 1) < float("inf"))) & (index < rows)
    tl.store(dense_ptr + head * tiles + tile, tl.max(unlisted.to(tl.int8)))
    tl.store(t_ptr + head.to(tl.int64) * rows + row, t - MARGIN - ROUNDING * tl.abs(t), mask=row < rows)


@triton.jit
def mark_candidates_kernel(
    q,
    k,
    mask,
    extra,
    t_ptr,
    bit_ptr,
    dense_ptr,
    first_tile,
    tiles,
    KIND: tl.constexpr,
    N: tl.constexpr,
    FLAGS: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """Store bits ``[tiles of this launch, BM, blocks * BN / 32]`` of the keys above the bounds."""
    index_of_tile = first_tile + tl.num_programs(0) - 1 - tl.program_id(0)
    if tl.load(dense_ptr + index_of_tile) != 0:
        return
    head = index_of_tile // tiles
    tile = index_of_tile % tiles
    heads, rows, keys, offset, left, right = extra[4], extra[6], extra[7], extra[8], extra[9], extra[10]
    b, h = batch_and_head(head, heads)
    view, _e, size = head_view(b, h, k, mask, extra, FLAGS)
    first = tile * BM
    index = first + tl.arange(0, BM)
    row = index[:, None]
    queries = load_rows(q[0] + b * q[1] + h * q[2], q[3], index, rows, True, DEPTH, D)
    first_key, full_from, full_to, last_key = visible_blocks(first, size, offset, left, right, FLAGS, BM, BN)
    t = tl.load(t_ptr + head.to(tl.int64) * rows + row, mask=row < rows, other=float("inf"))
    if KIND == ENTMAX:
        t -= 1.0
    if RAW & FLAGS:
        t /= view[9]
    words = tl.cdiv(keys, BN) * (BN // 32)
    row_bit_ptr = bit_ptr + ((index_of_tile - first_tile).to(tl.int64) * BM + tl.arange(0, BM)[:, None]) * words
    if LEFT & FLAGS:
        store_candidate_bits(row_bit_ptr, queries, view, row, t, first_key, full_from, FLAGS, True, DEPTH, D, BN)
    store_candidate_bits(row_bit_ptr, queries, view, row, t, full_from, full_to, FLAGS, False, DEPTH, D, BN)
    store_candidate_bits(row_bit_ptr, queries, view, row, t, full_to, last_key, FLAGS, True, DEPTH, D, BN)


@triton.jit
def candidate_scores(
    queries,
    view,
    row,
    start,
    FLAGS: tl.constexpr,
    EDGE: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    BN: tl.constexpr,
):
    """Return scores of a block of keys; ``EDGE``: some of them are missing or invisible, which costs operations."""
    k = load_rows(view[0], view[1], start + tl.arange(0, BN), view[2], EDGE, DEPTH, D)
    w = scores_of_products(tl.dot(queries, tl.trans(k), input_precision="tf32x3"), view, row, start, FLAGS)
    return mask_invisible(w, view, row, start, FLAGS) if EDGE else w


@triton.jit
def column_maxima(
    peaks,
    queries,
    view,
    row,
    begin,
    end,
    FLAGS: tl.constexpr,
    EDGE: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    BN: tl.constexpr,
):
    for start in range(begin, end, BN):
        w = candidate_scores(queries, view, row, start, FLAGS, EDGE, DEPTH, D, BN)
        peaks = tl.maximum(peaks, w, propagate_nan=tl.PropagateNan.ALL)
    return peaks


@triton.jit
def store_candidate_bits(
    row_bit_ptr,
    queries,
    view,
    row,
    t,
    begin,
    end,
    FLAGS: tl.constexpr,
    EDGE: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    BN: tl.constexpr,
):
    bit = (1 << (tl.arange(0, BN) % 32))[None, :]
    word = tl.arange(0, BN // 32)[None, :]
    for start in range(begin, end, BN):
        w = candidate_scores(queries, view, row, start, FLAGS, EDGE, DEPTH, D, BN)
        bits = tl.where(w > t, bit, 0)
        packed = tl.sum(tl.reshape(bits, [bits.shape[0], BN // 32, 32]), 2)
        tl.store(row_bit_ptr + start // 32 + word, packed)
