"""Which of several starts counts: for each number of components the likeliest, and of these the best."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.mixtures.triton.frame import INF

SLACK = tl.constexpr(1e-9)  # of equal ones, but for rounding, the first counts


@triton.jit
def find_likeliest(values_ptr, begin, count, stride, example, there, BLOCK: tl.constexpr):
    """Return which of ``count`` starts has the largest value, and this value; the first, if one is not a number."""
    top, lost = tl.full((BLOCK,), -INF, tl.float64), tl.zeros((BLOCK,), tl.int32)
    for i in range(count):
        value = tl.load(values_ptr + (begin + i) * stride + example, mask=there, other=0.0)
        lost |= (value != value).to(tl.int32)
        top = tl.maximum(top, value)
    bound = tl.where(lost == 0, top - SLACK * tl.maximum(tl.abs(top), 1.0), INF)
    chosen = tl.zeros((BLOCK,), tl.int32) + count
    for i in range(count):
        value = tl.load(values_ptr + (begin + i) * stride + example, mask=there, other=0.0)
        chosen = tl.where(value >= bound, tl.minimum(chosen, i), chosen)
    chosen = begin + tl.where(chosen < count, chosen, 0)
    return chosen, tl.load(values_ptr + chosen * stride + example, mask=there, other=0.0)


@triton.jit
def score_mixture(
    pi_ptr, sums_ptr, value, example, there, K, EACH, FEWER, PER_POINT: tl.constexpr, PRICE: tl.constexpr
):
    """Return ``-2 m J + PRICE (EACH count - FEWER)`` of mixtures with ``count`` components, for m points or one.

    An infinite price is the logarithm of their number.
    """
    count = 0.0 * value
    for k in range(K):
        count += (tl.load(pi_ptr + k, mask=there, other=0.0) > 0.0).to(tl.float64)
    size = tl.load(sums_ptr + 2 * example + 1, mask=there, other=1.0)
    price = tl.full((), PRICE, tl.float64)  # a plain number would be rounded
    if PRICE == INF:
        price = tl.log(size)
    return -2.0 * (size * value if PER_POINT else value) + price * (EACH * count - FEWER)


@triton.jit
def copy_entries(from_ptr, to_ptr, width, there):
    """Copy ``width`` numbers for each example."""
    for i in range(width):
        tl.store(to_ptr + i, tl.load(from_ptr + i, mask=there), mask=there)


@triton.jit(do_not_specialize=["examples", "candidates", "first", "restarts"])
def choose_kernel(
    values_ptr,
    scores_ptr,
    sums_ptr,
    pi_ptr,
    mean_ptr,
    cov_ptr,
    index_ptr,
    table_ptr,
    chosen_ptr,
    new_pi_ptr,
    new_mean_ptr,
    new_cov_ptr,
    examples,
    candidates,
    first,
    restarts,
    N: tl.constexpr,
    K: tl.constexpr,
    EACH: tl.constexpr,
    FEWER: tl.constexpr,
    PER_POINT: tl.constexpr,
    PRICE: tl.constexpr,
    SCORED: tl.constexpr,
    COPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the start to take, the score ``[candidates, examples]`` of each candidate, and a copy of the mixture.

    The first candidate has ``first`` starts, the others ``restarts``. A score that is no number chooses the first.
    """
    example = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = example < examples
    stride = examples.to(tl.int64)
    least, spoilt = tl.full((BLOCK,), INF, tl.float64), tl.zeros((BLOCK,), tl.int32)
    for k in range(candidates):
        count = tl.where(k == 0, first, restarts)
        begin = tl.where(k == 0, 0, first + (k - 1) * restarts)
        chosen, value = find_likeliest(values_ptr, begin, count, stride, example, there, BLOCK)
        at = chosen * stride + example
        if SCORED:
            score = tl.load(scores_ptr + at, mask=there, other=0.0)
            score = tl.where(value == value, score, float("nan"))
        else:
            score = score_mixture(pi_ptr + at * K, sums_ptr, value, example, there, K, EACH, FEWER, PER_POINT, PRICE)
        spoilt |= (score != score).to(tl.int32)
        least = tl.minimum(least, score)
        tl.store(table_ptr + k * stride + example, score, mask=there)
        tl.store(chosen_ptr + k * stride + example, chosen, mask=there)
    tl.debug_barrier()  # what other threads have stored is read from here on
    bound = least + SLACK * tl.maximum(tl.abs(least), 1.0)
    taken = tl.load(chosen_ptr + example, mask=there, other=0)
    found = spoilt
    for k in range(candidates):
        score = tl.load(table_ptr + k * stride + example, mask=there, other=INF)
        chosen = tl.load(chosen_ptr + k * stride + example, mask=there, other=0)
        fits = (found == 0) & (score <= bound)
        taken, found = tl.where(fits, chosen, taken), tl.where(fits, 1, found)
    tl.store(index_ptr + example, taken, mask=there)
    if COPY:
        at = (taken * stride + example) * K
        copy_entries(pi_ptr + at, new_pi_ptr + example * K, K, there)
        copy_entries(mean_ptr + at * N, new_mean_ptr + example * K * N, K * N, there)
        copy_entries(cov_ptr + at * N * N, new_cov_ptr + example * K * N * N, K * N * N, there)
