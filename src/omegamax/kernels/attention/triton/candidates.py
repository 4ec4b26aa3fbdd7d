"""Which keys a query may give weight to, one bit each: those above a lower bound of its threshold.

One pass over the keys finds the bounds, another marks the keys above them.
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
    scores_of_products,
    visible_blocks,
)
from omegamax.kernels.triton.device import ENTMAX

MIN_LISTED_ALPHA = tl.constexpr(call.MIN_LISTED_ALPHA)
MARGIN = tl.constexpr(1e-4)  # of the bounds, which are found with rounding,
ROUNDING = tl.constexpr(1e-6)  # the more, the larger they are


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
    """Lower bounds ``t [batch, heads, rows]`` of the thresholds, and which tiles are not for lists."""
    tiles = tl.num_programs(0)
    tile = tiles - 1 - tl.program_id(0)  # causal: those with the most work first
    head = tl.program_id(1)
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
    low, whole, full, high = visible_blocks(first, size, offset, left, right, FLAGS, BM, BN)
    # The largest scores of columns that are BN apart: some of the keys, whose threshold is at most that of all.
    peaks = tl.full([BM, BN], float("-inf"), tl.float32)
    if LEFT & FLAGS:
        peaks = column_maxima(peaks, queries, view, row, low, whole, FLAGS, True, DEPTH, D, BN)
    peaks = column_maxima(peaks, queries, view, row, whole, full, FLAGS, False, DEPTH, D, BN)
    peaks = column_maxima(peaks, queries, view, row, full, high, FLAGS, True, DEPTH, D, BN)
    if RAW & FLAGS:
        peaks *= view[9]
    top, t = top_and_threshold(peaks, e, KIND, N, False, False)
    # If most of these few are in the support, so are more than a list holds. NaN and infinity are not for lists either.
    crowd = tl.sum((probability(peaks, t, e, KIND, N, False) > 0.0).to(tl.int32), 1)
    odd = ((crowd > MAX_SUPPORT) | ~(tl.max(top, 1) < float("inf"))) & (index < rows)
    tl.store(dense_ptr + head * tiles + tile, tl.max(odd.to(tl.int8)))
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
    """Bits ``[tiles of this call, BM, blocks * BN / 32]`` of the keys above the bounds."""
    number = first_tile + tl.num_programs(0) - 1 - tl.program_id(0)
    if tl.load(dense_ptr + number) != 0:
        return
    head = number // tiles
    tile = number % tiles
    heads, rows, keys, offset, left, right = extra[4], extra[6], extra[7], extra[8], extra[9], extra[10]
    b, h = batch_and_head(head, heads)
    view, _e, size = head_view(b, h, k, mask, extra, FLAGS)
    first = tile * BM
    index = first + tl.arange(0, BM)
    row = index[:, None]
    queries = load_rows(q[0] + b * q[1] + h * q[2], q[3], index, rows, True, DEPTH, D)
    low, whole, full, high = visible_blocks(first, size, offset, left, right, FLAGS, BM, BN)
    t = tl.load(t_ptr + head.to(tl.int64) * rows + row, mask=row < rows, other=float("inf"))
    if KIND == ENTMAX:
        t -= 1.0
    if RAW & FLAGS:
        t /= view[9]
    words = tl.cdiv(keys, BN) * (BN // 32)
    place = bit_ptr + ((number - first_tile).to(tl.int64) * BM + tl.arange(0, BM)[:, None]) * words
    if LEFT & FLAGS:
        store_candidate_bits(place, queries, view, row, t, low, whole, FLAGS, True, DEPTH, D, BN)
    store_candidate_bits(place, queries, view, row, t, whole, full, FLAGS, False, DEPTH, D, BN)
    store_candidate_bits(place, queries, view, row, t, full, high, FLAGS, True, DEPTH, D, BN)


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
    """Scores of a block, with what is needed at an edge left out elsewhere: here every operation counts."""
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
    place,
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
        marks = tl.where(w > t, bit, 0)
        packed = tl.sum(tl.reshape(marks, [marks.shape[0], BN // 32, 32]), 2)
        tl.store(place + start // 32 + word, packed)
