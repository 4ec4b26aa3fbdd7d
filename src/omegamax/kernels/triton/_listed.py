"""Entmax attention by lists: the few keys that a query may give weight to, found first, then gathered.

A first pass over the keys finds a lower bound of each query's threshold, a second one marks the keys above it, one bit
each. What follows is done for each query on its list. Queries whose lists would be long are left to `_attend`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton._attend import peaks_of, settled, threshold_of
from omegamax.kernels.triton._numbers import log_base, sum1
from omegamax.kernels.triton._powers import LOG2E, alpha_slope, end_of, power
from omegamax.kernels.triton._scores import ADD, ALIBI, BY_KEY, LEFT, RAW, block_of, head_of, scores, seen_by, view_of

MARGIN = tl.constexpr(1e-4)  # of the lower bound, which is found with rounding


@triton.jit
def mark(
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
    FLAGS: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    MOST: tl.constexpr,
):
    """Lower bounds ``t`` of the thresholds, and bits ``[tiles of this call, BM, blocks * BN / 32]`` of the keys above."""
    number = first_tile + tl.program_id(0)
    head = number // tiles
    tile = number % tiles
    heads, rows, keys, offset, left, right = extra[4], extra[6], extra[7], extra[8], extra[9], extra[10]
    b, h = head_of(head, heads)
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
    if RAW & FLAGS:
        peaks *= view[9]
    top, t = threshold_of(peaks, e, KIND, False)
    # If most of these few are in the support, so are more than a list holds. NaN and infinity are not for lists either.
    crowd = tl.sum((power(peaks, t, e, KIND, False) > 0.0).to(tl.int32), 1)
    odd = (crowd > MOST) | ~(tl.max(top, 1) < float("inf"))
    dense = tl.max(odd.to(tl.int32)) > 0
    tl.store(dense_ptr + number, dense.to(tl.int8))
    if dense:
        return
    t -= MARGIN
    tl.store(t_ptr + head.to(tl.int64) * rows + row, t, mask=row < rows)
    if KIND == 2:
        t -= 1.0
    if RAW & FLAGS:
        t /= view[9]
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
    """Outputs, lists of keys ``[batch, heads, rows, LENGTH]``, their probabilities, and how many; a program a query."""
    number = first_tile + tl.program_id(1)
    head = number // tiles
    tile = number - head * tiles
    row = tile * BM + tl.program_id(0)
    heads, rows, keys, offset, left, right = extra[4], extra[6], extra[7], extra[8], extra[9], extra[10]
    if row >= rows:
        return
    if tl.load(dense_ptr + number) != 0:
        return
    b, h = head_of(head, heads)
    view, e, size = view_of(b, h, k, mask, extra, FLAGS)
    low, _, _, high = seen_by(tile * BM, size, offset, left, right, FLAGS, BM, BN)
    at = head.to(tl.int64) * rows + row
    list_ptr += at * LENGTH
    p_ptr += at * LENGTH
    bit_ptr += (tl.program_id(1).to(tl.int64) * BM + tl.program_id(0)) * (tl.cdiv(keys, BN) * (BN // 32))
    count = list_of(list_ptr, bit_ptr, low // 32, tl.cdiv(high, 32), LENGTH, WORDS)
    if count > LENGTH:
        tl.store(dense_ptr + number, 1)
        return
    tl.store(count_ptr + at, count)
    d = tl.arange(0, D)
    query = tl.load(q[0] + b * q[1] + h * q[2] + row.to(tl.int64) * q[3] + d, mask=d < DEPTH, other=0.0).to(tl.float32)
    t = tl.load(t_ptr + at)
    v_ptr = v[0] + b * v[1] + (h // extra[5]) * v[2]
    tl.debug_barrier()
    out = tl.zeros([W], tl.float32)
    if count <= C:  # most queries: nothing leaves the registers
        item = tl.arange(0, C)
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        block = rows_of(view[0], view[1], key, item < count, DEPTH, D)
        values = rows_of(v_ptr, v[3], key, item < count, WIDTH, W)
        w = listed_scores(tl.sum(block * query[None, :], 1), view, row, key, item < count, FLAGS)
        w = tl.where(item < count, w, float("-inf"))
        t, p = listed_weights(w[None, :], t, e, KIND)
        p = tl.reshape(p, [C])
        tl.store(p_ptr + item, p, mask=item < count)
        out = tl.sum(values * p[:, None], 0)
    else:
        for start in range(0, count, C):
            item = start + tl.arange(0, C)
            key = tl.load(list_ptr + item, mask=item < count, other=0)
            block = rows_of(view[0], view[1], key, item < count, DEPTH, D)
            w = listed_scores(tl.sum(block * query[None, :], 1), view, row, key, item < count, FLAGS)
            tl.store(p_ptr + item, w, mask=item < count)
        tl.debug_barrier()
        items = tl.arange(0, LENGTH)[None, :]
        t, weights = listed_weights(tl.load(p_ptr + items, mask=items < count, other=float("-inf")), t, e, KIND)
        tl.debug_barrier()
        tl.store(p_ptr + items, weights, mask=items < count)
        tl.debug_barrier()
        for start in range(0, count, C):
            item = start + tl.arange(0, C)
            key = tl.load(list_ptr + item, mask=item < count, other=0)
            p = tl.load(p_ptr + item, mask=item < count, other=0.0)
            out += tl.sum(rows_of(v_ptr, v[3], key, p > 0.0, WIDTH, W) * p[:, None], 0)
    wide = tl.arange(0, W)
    tl.store(out_ptr + at * WIDTH + wide, out, mask=wide < WIDTH)
    tl.store(t_ptr + at, t)


@triton.jit
def list_of(list_ptr, bit_ptr, begin, end, LENGTH: tl.constexpr, WORDS: tl.constexpr):
    """Numbers of the keys whose bits are set, in order; returns how many there are, also beyond ``LENGTH``."""
    count = begin * 0
    for first in range(begin, end, WORDS):
        column = first + tl.arange(0, WORDS)
        word = tl.load(bit_ptr + column, mask=column < end, other=0).to(tl.uint32)
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
    return count


@triton.jit
def listed_weights(w, t, e, KIND: tl.constexpr):
    """The threshold as one number, from a lower bound of it, and the probabilities of scores ``w [1, C]``."""
    top = tl.max(w, 1, keep_dims=True)
    last = end_of(tl.where(top > float("-inf"), top, 0.0), e, w.shape[1], KIND)
    t = settled(w, t + tl.zeros_like(top), last, e, KIND, True)
    p = power(w, t, e, KIND, True)
    total = sum1(p)
    return tl.max(tl.max(t, 1), 0), p / tl.where(total > 0.0, total, 1.0)


@triton.jit
def rows_of(ptr, stride, index, there, DEPTH: tl.constexpr, D: tl.constexpr):
    """Rows ``index [C]`` of a matrix in float32, ``[C, D]``; zeros where ``there`` is not."""
    d = tl.arange(0, D)[None, :]
    there = there[:, None] & (d < DEPTH) if DEPTH != D else there[:, None]
    return tl.load(ptr + index.to(tl.int64)[:, None] * stride + d, mask=there, other=0.0).to(tl.float32)


@triton.jit
def listed_scores(products, view, row, key, there, FLAGS: tl.constexpr):
    """``w [C]`` of the products of one query and listed keys. Keys that it does not see are not listed."""
    _, _, _, mask_ptr, mask_row, mask_column, _, slope, e, gain, offset, _, _ = view
    w = products * gain
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
    wide = tl.arange(0, W)
    deep = tl.arange(0, D)
    incoming = tl.load(g[0] + b * g[1] + h * g[2] + row.to(tl.int64) * g[3] + wide, mask=wide < WIDTH, other=0.0)
    incoming = incoming.to(tl.float32)
    query = tl.load(q[0] + b * q[1] + h * q[2] + row.to(tl.int64) * q[3] + deep, mask=deep < DEPTH, other=0.0)
    query = query.to(tl.float32) * extra[11]
    key_head = h // group
    v_ptr = v[0] + b * v[1] + key_head * v[2]
    k_ptr = k[0] + b * k[1] + key_head * k[2]
    slot = (b * (heads // group) + key_head) * keys
    to = (dk_ptr + slot * DEPTH, dv_ptr + slot * WIDTH)
    dq = tl.zeros([D], tl.float32)
    change = 0.0
    if count <= C:
        item = tl.arange(0, C)
        key = tl.load(list_ptr + item, mask=item < count, other=0)
        p = tl.load(p_ptr + item, mask=item < count, other=0.0)
        block = rows_of(k_ptr, k[3], key, p > 0.0, DEPTH, D)
        dp = tl.sum(rows_of(v_ptr, v[3], key, p > 0.0, WIDTH, W) * incoming[None, :], 1)
        s = weight_of(p, e, KIND)
        weight = tl.sum(s, 0)
        mean = tl.sum(s * dp, 0) / tl.where(weight > 0.0, weight, 1.0)
        if dalpha_ptr is not None:
            change = tl.sum(s * (dp - mean) * bend_of(p, e), 0)
        ds = s * (dp - mean)
        dq = tl.sum(block * ds[:, None], 0)
        add_to(to, key, p, ds, query, incoming, DEPTH, D, WIDTH, W)
    else:
        weight = 0.0
        moved = 0.0
        for start in range(0, count, C):
            item = start + tl.arange(0, C)
            key = tl.load(list_ptr + item, mask=item < count, other=0)
            p = tl.load(p_ptr + item, mask=item < count, other=0.0)
            dp = tl.sum(rows_of(v_ptr, v[3], key, p > 0.0, WIDTH, W) * incoming[None, :], 1)
            s = weight_of(p, e, KIND)
            weight += tl.sum(s, 0)
            moved += tl.sum(s * dp, 0)
        mean = moved / tl.where(weight > 0.0, weight, 1.0)
        for start in range(0, count, C):
            item = start + tl.arange(0, C)
            key = tl.load(list_ptr + item, mask=item < count, other=0)
            p = tl.load(p_ptr + item, mask=item < count, other=0.0)
            dp = tl.sum(rows_of(v_ptr, v[3], key, p > 0.0, WIDTH, W) * incoming[None, :], 1)
            ds = weight_of(p, e, KIND) * (dp - mean)
            if dalpha_ptr is not None:
                change += tl.sum(ds * bend_of(p, e), 0)
            dq += tl.sum(rows_of(k_ptr, k[3], key, p > 0.0, DEPTH, D) * ds[:, None], 0)
            add_to(to, key, p, ds, query, incoming, DEPTH, D, WIDTH, W)
    tl.store(dq_ptr + at * DEPTH + deep, dq * extra[11], mask=deep < DEPTH)
    if dalpha_ptr is not None:
        tl.store(dalpha_ptr + at, change)


@triton.jit
def add_to(
    to,
    key,
    p,
    ds,
    query,
    incoming,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    W: tl.constexpr,
):
    """What listed keys and values get from one query, added to sums that many queries add to at once."""
    on = (p > 0.0)[:, None]
    key = key.to(tl.int64)[:, None]
    column = tl.arange(0, D)[None, :]
    there = on if DEPTH == D else on & (column < DEPTH)
    tl.atomic_add(to[0] + key * DEPTH + column, ds[:, None] * query[None, :], there, sem="relaxed")
    column = tl.arange(0, W)[None, :]
    there = on if WIDTH == W else on & (column < WIDTH)
    tl.atomic_add(to[1] + key * WIDTH + column, p[:, None] * incoming[None, :], there, sem="relaxed")


@triton.jit
def bend_of(p, e):
    """What the derivative of ``p`` with respect to alpha has in place of a change of the scores."""
    on = p > 0.0
    logarithm = e * log_base(tl.where(on, p, 1.0), tl.where(on, p - 1.0, 0.0)) * LOG2E
    return alpha_slope(logarithm, tl.exp2(logarithm), e)


@triton.jit
def weight_of(p, e, KIND: tl.constexpr):
    """``p^(2 - alpha)`` on the support."""
    if KIND == 0:
        return (p > 0.0).to(tl.float32)
    if KIND == 1:
        return tl.sqrt(p)
    return tl.where(p > 0.0, tl.exp2((1.0 - e) * tl.log2(tl.where(p > 0.0, p, 1.0))), 0.0)
