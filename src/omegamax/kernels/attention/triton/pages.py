"""Reading a cache in pages: bounds of all pages, one page of each chunk, then every key that may matter.

A page may matter by the coordinate-wise extremes of its keys; of such pages the codes are read, and of these keys those
that may matter by their codes, see :mod:`omegamax.kernels.attention.reference`. Scores are kept as ``w = (alpha - 1)
z``. The queries that share a head of keys are read for together.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from omegamax.kernels.attention import reference
from omegamax.kernels.attention.reference import find_floor
from omegamax.kernels.attention.triton.scores import load_rows
from omegamax.kernels.triton.device import INF, max_or_nan, row_max

EPSILON = tl.constexpr(2.0**-23)  # of float32
FLOOR = tl.constexpr(find_floor(torch.float32))
LEVELS = tl.constexpr(reference.LEVELS)
# Of a step: half of it, and what rounding may add; a step is multiplied in two parts of eight bits each.
ROUNDED = tl.constexpr(0.51)


@triton.jit(do_not_specialize=["size", "pages", "chunk_size"])
def bound_pages_kernel(
    q_ptr,
    k,
    low,
    high,
    limit_ptr,
    alpha,
    alpha_ptr,
    scale,
    bound_ptr,
    early_ptr,
    first_ptr,
    rows,
    size,
    pages,
    chunk_size,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    BN: tl.constexpr,
    NP: tl.constexpr,
):
    """Compute bounds ``[texts, pages, rows]`` of the scores in each page, and scores of one page of each chunk.

    That is the page with the largest bound: ``early [texts, rows, chunks, PAGE]`` is what its scores are at least, and
    ``first [texts, rows, chunks]`` its index, -1 where no page of the chunk is seen.
    """
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    text = row // rows
    limit = tl.load(limit_ptr + row)
    gain = load_exponents(alpha, alpha_ptr, row + tl.zeros([1], tl.int64), True) * scale
    d = tl.arange(0, D)
    query = tl.load(q_ptr + row * DEPTH + d, mask=d < DEPTH, other=0.0).to(tl.float32) * gain
    query = query[None, :]
    best = float("-inf")
    best_slack = 0.0
    best_page = -1
    for start in range(chunk * chunk_size, tl.minimum((chunk + 1) * chunk_size, pages), NP):
        page = start + tl.arange(0, NP)
        lows = load_rows(low[0] + text * low[1], low[2], page, pages, True, DEPTH, D)
        highs = load_rows(high[0] + text * high[1], high[2], page, pages, True, DEPTH, D)
        box = tl.sum(tl.maximum(query * lows, query * highs), 1)
        # The sums of either side, and those of the scores, are off by at most so much.
        slack = tl.sum(tl.abs(query) * tl.maximum(tl.abs(lows), tl.abs(highs)), 1) * (6 * (DEPTH + 4) * EPSILON)
        bound = box + slack
        bound = tl.where(bound == bound, bound, INF)  # of NaN it cannot be said that it does not matter
        bound = tl.where(page * PAGE < limit, bound, float("-inf"))
        tl.store(bound_ptr + (text * pages + page) * rows + row % rows, bound, mask=page < pages)
        highest = tl.max(bound, 0)
        chosen = tl.argmax(bound, 0)
        better = highest > best
        best_slack = tl.where(better, tl.sum(tl.where(page == start + chosen, slack, 0.0), 0), best_slack)
        best_page = tl.where(better, start + chosen, best_page)
        best = tl.where(better, highest, best)
    at = row * tl.num_programs(1) + chunk
    tl.store(first_ptr + at, best_page)
    # A page with NaN that this query does not see has no slack that could be computed.
    best_slack = tl.where(best_slack == best_slack, best_slack, INF)
    end = tl.where(best_page < 0, 0, tl.minimum(tl.minimum(best_page * PAGE + PAGE, size), limit))
    first_key = tl.maximum(best_page, 0) * PAGE
    for part in range(0, PAGE, BN):
        local = part + tl.arange(0, BN)
        block = load_rows(k[0] + text * k[1], k[2], first_key + local, end, True, DEPTH, D)
        w = tl.sum(block.to(tl.float32) * query, 1) - best_slack
        w = tl.where(first_key + local < end, w, float("-inf"))
        tl.store(early_ptr + at * PAGE + local, w, mask=local < PAGE)


@triton.jit(do_not_specialize=["size", "pages", "chunks", "chunk_size", "share"])
def read_pages_kernel(
    q_ptr,
    k,
    codes,
    low,
    high,
    limit_ptr,
    alpha,
    alpha_ptr,
    scale,
    bound_ptr,
    first_ptr,
    edge_ptr,
    list_ptr,
    score_ptr,
    index_ptr,
    found,
    rows,
    size,
    pages,
    tiles,
    chunks,
    chunk_size,
    share,
    SPLITS: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    NP: tl.constexpr,
):
    """Read every key whose bounds are above ``edge [texts, rows]`` for one of its queries; list those with such scores.

    Lists of scores and indices are ``[texts, rows, SPLITS, share PAGE]``. ``found`` are the counts of each, the largest
    score, the largest bound of a key that was not read, and how many pages were read, all ``[texts, rows, SPLITS]``.
    The pages in ``first`` were read before, by ``bound_pages_kernel``.
    """
    count_ptr, top_ptr, unread_ptr, read_ptr = found
    split = tl.program_id(1)
    text = (tl.program_id(0) // tiles).to(tl.int64)
    index = tl.program_id(0) % tiles * BM + tl.arange(0, BM)
    there = index < rows
    row = text * rows + index
    gain = load_exponents(alpha, alpha_ptr, row, there)[:, None] * scale
    limit = tl.load(limit_ptr + row, mask=there, other=0)[:, None]
    queries = load_rows(q_ptr + text * rows * DEPTH, DEPTH, index, rows, True, DEPTH, D)
    edge = tl.load(edge_ptr + row, mask=there, other=INF)[:, None]
    list_ptr += (tl.program_id(0).to(tl.int64) * SPLITS + split) * share
    unread = tl.full([1, BM], float("-inf"), tl.float32)
    count = split * 0
    read = tl.zeros([1, BM], tl.int32)
    for first in range(0, tl.cdiv(pages - split, SPLITS), NP):
        page = split + (first + tl.arange(0, NP)) * SPLITS
        at = (text * pages + page)[:, None] * rows + index[None, :]
        inside = (page < pages)[:, None] & there[None, :]
        bound = tl.load(bound_ptr + at, mask=inside, other=float("-inf"))
        wanted = tl.max((bound > tl.trans(edge)).to(tl.int32), 1)
        first_of_chunk = first_ptr + row[None, :] * chunks + (page // chunk_size)[:, None]
        known = tl.max((tl.load(first_of_chunk, mask=inside, other=-1) == page[:, None]).to(tl.int32), 1)
        read += tl.sum(tl.where(bound > float("-inf"), known[:, None], 0), 0, keep_dims=True)  # of those it sees
        left = tl.where((known | wanted)[:, None] != 0, float("-inf"), bound)
        unread = tl.maximum(unread, tl.max(left, 0, keep_dims=True))
        # What was read before is told by the last bit.
        tl.store(list_ptr + count + tl.cumsum(wanted, 0) - wanted, 2 * page + known, mask=wanted != 0)
        count += tl.sum(wanted, 0)
    tl.debug_barrier()

    at = row[:, None] * SPLITS + split
    score_ptr += at * share * PAGE
    index_ptr += at * share * PAGE
    listed = tl.zeros([BM, 1], tl.int32)
    top = tl.where(edge == edge, float("-inf"), float("nan"))
    unread = tl.trans(unread)
    read = tl.trans(read)
    scaled = queries.to(tl.float32) * gain
    for i in range(0, count):
        entry = tl.load(list_ptr + i)
        page = entry // 2
        step, most, base = measure_page(scaled, low, high, text, page, DEPTH, D)
        touched = split * 0
        for part in range(0, PAGE, BN):
            local = part + tl.arange(0, BN)
            key = page * PAGE + local
            end = tl.minimum(page * PAGE + PAGE, size)
            seen = key[None, :] < tl.minimum(limit, end)
            bound = sum_codes(step, codes, text, page, local, DEPTH, D, PAGE) + (base + most)
            bound = tl.where(bound == bound, bound, INF)  # of NaN it cannot be said that it does not matter
            bound = tl.where(seen, bound, float("-inf"))
            needed = tl.max((bound > edge).to(tl.int32), 0)
            unread = tl.maximum(unread, row_max(tl.where(needed[None, :] != 0, float("-inf"), bound)))
            touched = tl.maximum(touched, tl.max(needed, 0))
            block = load_rows(k[0] + text * k[1], k[2], tl.where(needed != 0, key, end), end, True, DEPTH, D)
            w = tl.dot(queries, tl.trans(block), input_precision="ieee") * gain
            w = tl.where(seen & (needed[None, :] != 0), w, float("-inf"))
            top = max_or_nan(top, row_max(w))
            kept = (~(w <= edge) & (edge == edge)).to(tl.int32)  # NaN is kept, and found at the end
            place = listed + tl.cumsum(kept, 1) - kept
            tl.store(score_ptr + place, w, mask=kept != 0)
            tl.store(index_ptr + place, tl.zeros_like(place) + key[None, :], mask=kept != 0)
            listed += tl.sum(kept, 1, keep_dims=True)
        read += tl.where(page * PAGE < limit, touched & (1 - entry % 2), 0)
    mine = there[:, None]
    tl.store(count_ptr + at, listed, mask=mine)
    tl.store(top_ptr + at, top, mask=mine)
    tl.store(unread_ptr + at, unread, mask=mine)
    tl.store(read_ptr + at, read, mask=mine)


@triton.jit
def measure_page(scaled, low, high, text, page, DEPTH: tl.constexpr, D: tl.constexpr):
    """Return, of queries ``scaled [BM, D]``, their products with the steps of a page's codes, the most by which its
    scores may differ from those of the codes, and the products with its lower extremes.
    """
    d = tl.arange(0, D)
    at = page.to(tl.int64)
    lows = tl.load(low[0] + text * low[1] + at * low[2] + d, mask=d < DEPTH, other=0.0).to(tl.float32)[None, :]
    highs = tl.load(high[0] + text * high[1] + at * high[2] + d, mask=d < DEPTH, other=0.0).to(tl.float32)[None, :]
    spread = highs - lows
    coded = spread > FLOOR
    step = tl.where(coded, spread / LEVELS, 0.0)
    size = tl.abs(scaled)
    off = tl.sum(size * tl.where(coded, ROUNDED * step, spread), 1, keep_dims=True)
    # The sums of either side, and those of the scores, are off by at most so much.
    reach = tl.sum(size * tl.maximum(tl.abs(lows), tl.abs(highs)), 1, keep_dims=True)
    return scaled * step, off + reach * (6 * (DEPTH + 4) * EPSILON), tl.sum(scaled * lows, 1, keep_dims=True)


@triton.jit
def sum_codes(step, codes, text, page, local, DEPTH: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr):
    """Return the sums ``[BM, BN]`` of steps times codes, of keys ``local`` of a page.

    A code is an integer of eight bits, which bfloat16 holds; a step is the sum of two such numbers, nearly.
    """
    d = tl.arange(0, D)[:, None]
    at = codes[0] + text * codes[1] + page.to(tl.int64) * codes[2] + d * PAGE + local[None, :]
    code = tl.load(at, mask=(d < DEPTH) & (local < PAGE)[None, :], other=0).to(tl.float32).to(tl.bfloat16)
    large = step.to(tl.bfloat16)
    small = (step - large.to(tl.float32)).to(tl.bfloat16)
    return tl.dot(large, code) + tl.dot(small, code)


@triton.jit
def load_exponents(alpha, alpha_ptr, row, there):
    """Return ``alpha - 1`` of each row: from memory, or the scalar."""
    if alpha_ptr is not None:
        alphas = tl.load(alpha_ptr + row, mask=there, other=2.0)
    else:
        alphas = tl.zeros(row.shape, tl.float32) + alpha
    return tl.maximum(alphas - 1.0, 1.0 / 4096)  # nearer to 1 the exponent would be too large to be exact
