"""Entmax attention by lists: the few keys that a query may give weight to, found first, then gathered.

A first pass over the keys finds a lower bound of each query's threshold, a second one marks the keys above it, one bit
each. What follows is done for each query on its list. Queries whose lists would be long are left to `_attend`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton._attend import peaks_of, threshold_of
from omegamax.kernels.triton._numbers import log_base, sum1
from omegamax.kernels.triton._powers import LOG2E, alpha_slope, power
from omegamax.kernels.triton._scores import ADD, ALIBI, BY_KEY, KEEP, LEFT, block_of, head_of, scores, seen_by, view_of

MARGIN = tl.constexpr(1e-4)  # of the lower bound, which is found with rounding


@triton.jit
def mark(
    q,
    k,
    mask,
    extra,
    bit_ptr,
    dense_ptr,
    first_tile,
    tiles,
    KIND: tl.constexpr,
    FLAGS: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    MOST: tl.constexpr,
):
    """Bits ``[tiles of this call, BM, blocks * BN / 32]`` of the keys that may have weight."""
    number = first_tile + tl.program_id(0)
    tile = number % tiles
    heads, rows, keys, offset, left, right = extra[4], extra[6], extra[7], extra[8], extra[9], extra[10]
    b, h = head_of(number // tiles, heads)
    view, e, size = view_of(b, h, k, mask, extra, FLAGS)
    first = tile * BM
    index = first + tl.arange(0, BM)
    row = index[:, None]
    queries = block_of(q[0] + b * q[1] + h * q[2], q[3], index, rows, True, DEPTH, D)
    low, whole, full, high = seen_by(first, size, offset, left, right, FLAGS, BM, BN)
    peaks = tl.full([BM, BN], float("-inf"), tl.float32)
    if LEFT & FLAGS:
        peaks = peaks_of(peaks, queries, view, row, low, whole, FLAGS, True, DEPTH, D, BN)
    peaks = peaks_of(peaks, queries, view, row, whole, full, FLAGS, False, DEPTH, D, BN)
    peaks = peaks_of(peaks, queries, view, row, full, high, FLAGS, True, DEPTH, D, BN)
    top, t = threshold_of(peaks, e, KIND, False)
    # If most of these few are in the support, so are more than a list holds. NaN and infinity are not for lists either.
    crowd = tl.sum((power(peaks, t, e, KIND, False) > 0.0).to(tl.int32), 1)
    odd = (crowd > MOST) | ~(tl.max(top, 1) < float("inf"))
    dense = tl.max(odd.to(tl.int32)) > 0
    tl.store(dense_ptr + number, dense.to(tl.int8))
    if dense:
        return
    t -= MARGIN
    if KIND == 2:
        t -= 1.0
    words = tl.cdiv(keys, BN) * (BN // 32)
    place = bit_ptr + (tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)[:, None]) * words
    if LEFT & FLAGS:
        bits_of(place, queries, view, row, t, low, whole, FLAGS, True, DEPTH, D, BN)
    bits_of(place, queries, view, row, t, whole, full, FLAGS, False, DEPTH, D, BN)
    bits_of(place, queries, view, row, t, full, high, FLAGS, True, DEPTH, D, BN)


@triton.jit
def bits_of(
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
        w = scores(queries, view, row, start, FLAGS, EDGE, DEPTH, D, BN)
        marks = tl.where(w > t, bit, 0)
        packed = tl.sum(tl.reshape(marks, [marks.shape[0], BN // 32, 32]), 2)
        tl.store(place + start // 32 + word, packed)


@triton.jit
def population(x):
    """How many bits are set."""
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return (x * 0x01010101) >> 24


@triton.jit
def gather(
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
    FLAGS: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    W: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    LENGTH: tl.constexpr,
    C: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Outputs, lists of keys ``[batch, heads, rows, LENGTH]``, their probabilities and how many; one program a query."""
    number = first_tile + tl.program_id(0) // BM
    head = number // tiles
    tile = number % tiles
    row = tile * BM + tl.program_id(0) % BM
    heads, rows, keys, offset, left, right = extra[4], extra[6], extra[7], extra[8], extra[9], extra[10]
    if row >= rows:
        return
    if tl.load(dense_ptr + number) != 0:
        return
    b, h = head_of(head, heads)
    view, e, size = view_of(b, h, k, mask, extra, FLAGS)
    low, whole, full, high = seen_by(tile * BM, size, offset, left, right, FLAGS, BM, BN)
    at = head.to(tl.int64) * rows + row
    list_ptr += at * LENGTH
    p_ptr += at * LENGTH

    bit_ptr += tl.program_id(0).to(tl.int64) * (tl.cdiv(keys, BN) * (BN // 32))
    count = row * 0
    for first in range(low // 32, tl.cdiv(high, 32), WORDS):
        column = first + tl.arange(0, WORDS)
        word = tl.load(bit_ptr + column, mask=column < tl.cdiv(high, 32), other=0).to(tl.uint32)
        inside = population(word).to(tl.int32)
        place = count + tl.cumsum(inside, 0) - inside
        count += tl.sum(inside, 0)
        go = tl.max(inside, 0) > 0
        while go:
            rest = word & (word - 1)
            lowest = population((word ^ rest) - 1).to(tl.int32)
            tl.store(list_ptr + place, column * 32 + lowest, mask=(word != 0) & (place < LENGTH))
            word = rest
            place += 1
            go = tl.max((word != 0).to(tl.int32), 0) > 0
    if count > LENGTH:
        tl.store(dense_ptr + number, 1)
        return
    tl.store(count_ptr + at, count)
    tl.debug_barrier()

    d = tl.arange(0, D)
    query = tl.load(q[0] + b * q[1] + h * q[2] + row.to(tl.int64) * q[3] + d, mask=d < DEPTH, other=0.0).to(tl.float32)
    for start in range(0, count, C):
        item = start + tl.arange(0, C)
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        block = rows_of(view[0], view[1], key, item < count, DEPTH, D)
        w = tl.sum(block * query[None, :], 1) * view[9]
        w = listed_scores(w, view, row, key, item < count, FLAGS)
        tl.store(p_ptr + item, w, mask=item < count)
    tl.debug_barrier()
    items = tl.arange(0, LENGTH)[None, :]
    listed = tl.load(p_ptr + items, mask=items < count, other=float("-inf"))
    top, t = threshold_of(listed, e, KIND, True)
    weights = power(listed, t, e, KIND, True)
    total = sum1(weights)
    weights = weights / tl.where(total > 0.0, total, 1.0)
    tl.store(p_ptr + items, weights, mask=items < count)
    tl.store(t_ptr + at + tl.zeros([1, 1], tl.int32), t)
    tl.debug_barrier()

    wide = tl.arange(0, W)
    out = tl.zeros([W], tl.float32)
    v_ptr = v[0] + b * v[1] + (h // extra[5]) * v[2]
    for start in range(0, count, C):
        item = start + tl.arange(0, C)
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        p = tl.load(p_ptr + item, mask=item < count, other=0.0)
        out += tl.sum(rows_of(v_ptr, v[3], key, p > 0.0, WIDTH, W) * p[:, None], 0)
    tl.store(out_ptr + at * WIDTH + wide, out, mask=wide < WIDTH)


@triton.jit
def rows_of(ptr, stride, index, there, DEPTH: tl.constexpr, D: tl.constexpr):
    """Rows ``index [C]`` of a matrix in float32, ``[C, D]``; zeros where ``there`` is not."""
    d = tl.arange(0, D)[None, :]
    there = there[:, None] & (d < DEPTH) if DEPTH != D else there[:, None]
    return tl.load(ptr + index.to(tl.int64)[:, None] * stride + d, mask=there, other=0.0).to(tl.float32)


@triton.jit
def listed_scores(w, view, row, key, there, FLAGS: tl.constexpr):
    """Scores ``w [C]`` of one query and listed keys, with what else they have. Keys that it does not see are not listed."""
    k_ptr, k_stride, size, mask_ptr, mask_row, mask_column, rows, slope, e, gain, offset, left, right = view
    if ALIBI & FLAGS:
        w -= slope * tl.abs(key - row - offset).to(tl.float32)
    if ADD & FLAGS:
        mask_ptr += 0 if BY_KEY & FLAGS else row.to(tl.int64) * mask_row
        w += e * tl.load(mask_ptr + key.to(tl.int64) * mask_column, mask=there, other=0.0).to(tl.float32)
    return w


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
    dp_ptr,
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
    """Gradients: ``dq``, and what this query adds to ``dk`` and ``dv``; one program a query."""
    heads, group, rows, keys = extra[4], extra[5], extra[6], extra[7]
    at = tl.program_id(0).to(tl.int64)
    row = at % rows
    head = at // rows
    if tl.load(dense_ptr + head * tiles + row // BM) != 0:
        return
    b, h = head_of(head, heads)
    alpha, alpha_ptr = extra[0], extra[1]
    if alpha_ptr is not None:
        alpha = tl.load(alpha_ptr + h)
    e = tl.maximum(alpha - 1.0, 1.0 / 4096)
    list_ptr += at * LENGTH
    p_ptr += at * LENGTH
    dp_ptr += at * LENGTH
    count = tl.load(count_ptr + at)
    wide = tl.arange(0, W)
    deep = tl.arange(0, D)
    incoming = tl.load(g[0] + b * g[1] + h * g[2] + row * g[3] + wide, mask=wide < WIDTH, other=0.0).to(tl.float32)
    query = tl.load(q[0] + b * q[1] + h * q[2] + row * q[3] + deep, mask=deep < DEPTH, other=0.0).to(tl.float32)
    v_ptr = v[0] + b * v[1] + (h // group) * v[2]
    k_ptr = k[0] + b * k[1] + (h // group) * k[2]
    slot = (b * (heads // group) + h // group) * keys
    weight = 0.0
    moved = 0.0
    bent = 0.0
    change = 0.0
    for start in range(0, count, C):
        item = start + tl.arange(0, C)
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        p = tl.load(p_ptr + item, mask=item < count, other=0.0)
        dp = tl.sum(rows_of(v_ptr, v[3], key, p > 0.0, WIDTH, W) * incoming[None, :], 1)
        s = weight_of(p, e, KIND)
        weight += tl.sum(s, 0)
        moved += tl.sum(s * dp, 0)
        tl.store(dp_ptr + item, dp, mask=item < count)
        if dalpha_ptr is not None:
            logarithm = e * log_base(tl.where(p > 0.0, p, 1.0), tl.where(p > 0.0, p - 1.0, 0.0)) * LOG2E
            bend = s * alpha_slope(logarithm, tl.exp2(logarithm), e)
            bent += tl.sum(bend, 0)
            change += tl.sum(bend * dp, 0)
    mean = moved / tl.where(weight > 0.0, weight, 1.0)
    if dalpha_ptr is not None:
        tl.store(dalpha_ptr + at, change - bent * mean)
    tl.debug_barrier()
    dq = tl.zeros([D], tl.float32)
    for start in range(0, count, C):
        item = start + tl.arange(0, C)
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        p = tl.load(p_ptr + item, mask=item < count, other=0.0)
        dp = tl.load(dp_ptr + item, mask=item < count, other=0.0)
        ds = weight_of(p, e, KIND) * (dp - mean) * extra[11]
        on = (p > 0.0)[:, None]
        dq += tl.sum(rows_of(k_ptr, k[3], key, p > 0.0, DEPTH, D) * ds[:, None], 0)
        place = (slot + key)[:, None]
        there = on & (deep < DEPTH)[None, :]
        tl.atomic_add(dk_ptr + place * DEPTH + deep[None, :], ds[:, None] * query[None, :], there, sem="relaxed")
        there = on & (wide < WIDTH)[None, :]
        tl.atomic_add(dv_ptr + place * WIDTH + wide[None, :], p[:, None] * incoming[None, :], there, sem="relaxed")
    tl.store(dq_ptr + at * DEPTH + deep, dq, mask=deep < DEPTH)


@triton.jit
def weight_of(p, e, KIND: tl.constexpr):
    """``p^(2 - alpha)`` on the support."""
    if KIND == 0:
        return (p > 0.0).to(tl.float32)
    if KIND == 1:
        return tl.sqrt(p)
    return tl.where(p > 0.0, tl.exp2((1.0 - e) * tl.log2(tl.where(p > 0.0, p, 1.0))), 0.0)
