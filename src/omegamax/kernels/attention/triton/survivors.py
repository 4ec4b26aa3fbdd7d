"""From the keys of a paged cache that may have weight to the output: threshold, weighted values, certificate."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.attention.triton.candidates import MARGIN, ROUNDING
from omegamax.kernels.attention.triton.pages import load_exponents
from omegamax.kernels.attention.triton.powers import (
    first_threshold,
    halley_step,
    is_unsettled,
    last_threshold,
    power_terms,
    probability,
)
from omegamax.kernels.attention.triton.scores import load_rows
from omegamax.kernels.triton.deformed import newton_curvature
from omegamax.kernels.triton.device import ENTMAX, MAX_STEPS, OVERSHOT, any_row, max_or_nan, row_max, row_sum3

ABSOLUTE = tl.constexpr(1e-5)  # subtracted from a threshold that is promised, which is rounded
RELATIVE = tl.constexpr(5e-7)


@triton.jit(do_not_specialize=["count"])
def bound_edges_kernel(
    alpha, alpha_ptr, early_ptr, edge_ptr, count, KIND: tl.constexpr, N: tl.constexpr, C: tl.constexpr
):
    """Compute ``edge [rows]``, below which no score has weight, from ``count`` scores of each row, or less than these.

    It is -inf in rows of which nothing is known, and NaN in those that NaN or infinity spoils.
    """
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, C)[None, :]
    early_ptr += row * count + place
    top = tl.full([1, 1], float("-inf"), tl.float32)
    for first in range(0, count, C):
        w = tl.load(early_ptr + first, mask=first + place < count, other=float("-inf"))
        top = max_or_nan(top, row_max(w))
    e = load_exponents(alpha, alpha_ptr, row + tl.zeros([1, 1], tl.int64), True)
    visible = tl.where((top > float("-inf")) & (top < float("inf")), top, 0.0)
    last = last_threshold(visible, e, count, KIND)
    t = first_threshold(visible, KIND)
    t = search_threshold(early_ptr, place, count + 0 * place, count, t, last, e, KIND, N, C)
    edge = t - 1.0 if KIND == ENTMAX else t
    edge -= MARGIN + ROUNDING * tl.abs(edge)
    edge = tl.where(top < float("inf"), tl.where(top > float("-inf"), edge, float("-inf")), float("nan"))
    tl.store(edge_ptr + row + tl.zeros([1, 1], tl.int64), edge)


@triton.jit(do_not_specialize=["length"])
def solve_survivors_kernel(
    alpha,
    alpha_ptr,
    score_ptr,
    found,
    edge_ptr,
    t_ptr,
    length,
    KIND: tl.constexpr,
    N: tl.constexpr,
    SPLITS: tl.constexpr,
    C: tl.constexpr,
):
    """Compute the threshold ``t [rows]`` of the scores on all lists of a row, ``[rows, SPLITS, length]``.

    ``found`` is that of ``read_pages_kernel``. Lists are read side by side, C scores of each at a time.
    """
    count_ptr, top_ptr, _unread_ptr, _read_ptr = found
    row = tl.program_id(0).to(tl.int64)
    splits = row * SPLITS + tl.arange(0, SPLITS)[None, :]
    counts = tl.load(count_ptr + splits)
    top = tl.reduce(tl.load(top_ptr + splits), 1, max_or_nan, keep_dims=True)
    e = load_exponents(alpha, alpha_ptr, row + tl.zeros([1, 1], tl.int64), True)
    edge = tl.load(edge_ptr + row)
    edge = edge + 1.0 if KIND == ENTMAX else edge
    visible = tl.where((top > float("-inf")) & (top < float("inf")), top, 0.0)
    t = tl.maximum(first_threshold(visible, KIND), edge)
    last = last_threshold(visible, e, tl.maximum(tl.sum(counts), 1), KIND)
    item = tl.arange(0, SPLITS * C)[None, :]
    count = tl.load(count_ptr + row * SPLITS + item // C)
    score_ptr += (row * SPLITS + item // C) * length + item % C
    t = search_threshold(score_ptr, item % C, count, tl.max(counts), t, last, e, KIND, N, C)
    tl.store(t_ptr + row + tl.zeros([1, 1], tl.int64), t)


@triton.jit
def search_threshold(ptr, place, count, longest, t, last, e, KIND: tl.constexpr, N: tl.constexpr, C: tl.constexpr):
    """Return the threshold of scores in memory, searched from a lower bound ``t [1, 1]`` up to ``last``.

    ``ptr``, ``place`` and ``count``, of shape ``[1, *]``, are where a lane begins to read, its place in a list, and how
    many scores that has; it reads every C-th one, up to the end of the longest list.
    """
    overshot = tl.zeros_like(t)
    steps = 0
    go = True
    while go:
        masses = tl.zeros(place.shape, tl.float32)
        slopes = tl.zeros(place.shape, tl.float32)
        curvatures = tl.zeros(place.shape, tl.float32)
        for first in range(0, longest, C):
            w = tl.load(ptr + first, mask=first + place < count, other=float("-inf"))
            s, r, u = power_terms(w, t, e, KIND, N, True)
            masses += s
            slopes += r
            curvatures += u
        mass, slope, curvature = row_sum3(masses, slopes, curvatures)
        overshot = tl.where(mass < OVERSHOT, 1.0, overshot)
        step = halley_step(mass, slope, newton_curvature(mass, slope, curvature, overshot), e, KIND, True)
        moving = is_unsettled(mass, step, t, e, KIND, True)
        t = tl.minimum(t + step, last)
        steps += 1
        go = any_row(moving, place) & (steps < MAX_STEPS)
    return t


@triton.jit(do_not_specialize=["length", "size"])
def weigh_survivors_kernel(
    v,
    alpha,
    alpha_ptr,
    score_ptr,
    index_ptr,
    found,
    t_ptr,
    part_ptr,
    mass_ptr,
    rows,
    size,
    length,
    KIND: tl.constexpr,
    N: tl.constexpr,
    SPLITS: tl.constexpr,
    C: tl.constexpr,
    WIDTH: tl.constexpr,
    W: tl.constexpr,
):
    """Sum the values of one list by their weights, ``part [texts * rows, SPLITS, WIDTH]``, and the weights, ``mass``.

    Values without weight are not read.
    """
    row = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    at = row * SPLITS + split
    count = tl.load(found[0] + at)
    t = tl.load(t_ptr + row)
    e = load_exponents(alpha, alpha_ptr, row + tl.zeros([C], tl.int64), True)
    v_ptr = v[0] + row // rows * v[1]
    out = tl.zeros([W], tl.float32)
    mass = tl.zeros([C], tl.float32)
    for first in range(0, count, C):
        place = first + tl.arange(0, C)
        w = tl.load(score_ptr + at * length + place, mask=place < count, other=float("-inf"))
        p = probability(w, t, e, KIND, N, True)
        key = tl.load(index_ptr + at * length + place, mask=place < count, other=0)
        values = load_rows(v_ptr, v[2], tl.where(p > 0.0, key, size), size, True, WIDTH, W).to(tl.float32)
        out += tl.sum(values * p[:, None], 0)
        mass += p
    column = tl.arange(0, W)
    tl.store(part_ptr + at * WIDTH + column, out, mask=column < WIDTH)
    tl.store(mass_ptr + at, tl.sum(mass))


@triton.jit
def combine_splits_kernel(
    alpha,
    alpha_ptr,
    found,
    edge_ptr,
    t_ptr,
    part_ptr,
    mass_ptr,
    out_ptr,
    certificate,
    KIND: tl.constexpr,
    SPLITS: tl.constexpr,
    WIDTH: tl.constexpr,
    W: tl.constexpr,
):
    """Combine the sums of all lists of a row into its output ``[rows, WIDTH]``, and write its certificate.

    That is how many pages were read, the largest bound of a score in the others, and the threshold of scores, less
    what rounding may make of it.
    """
    _count_ptr, top_ptr, unread_ptr, read_ptr = found
    read_out_ptr, bound_out_ptr, threshold_out_ptr = certificate
    row = tl.program_id(0).to(tl.int64)
    split = row * SPLITS + tl.arange(0, SPLITS)
    column = tl.arange(0, W)
    there = (tl.zeros([SPLITS], tl.int32)[:, None] + column[None, :]) < WIDTH
    parts = tl.load(part_ptr + split[:, None] * WIDTH + column[None, :], mask=there, other=0.0)
    mass = tl.sum(tl.load(mass_ptr + split))
    top = tl.max(tl.reduce(tl.load(top_ptr + split), 0, max_or_nan, keep_dims=True))
    fine = top < float("inf")
    out = tl.sum(parts, 0) / tl.where(mass > 0.0, mass, 1.0)
    out = tl.where(fine, out, float("nan"))
    tl.store(out_ptr + row * WIDTH + column, out, mask=column < WIDTH)

    e = tl.max(load_exponents(alpha, alpha_ptr, row + tl.zeros([1], tl.int64), True))
    edge = tl.load(t_ptr + row)
    if KIND == ENTMAX:
        edge -= 1.0
    edge = tl.maximum(edge - ABSOLUTE - RELATIVE * tl.abs(edge), tl.load(edge_ptr + row))
    edge = tl.where(top > float("-inf"), edge, float("-inf"))
    tl.store(read_out_ptr + row, tl.sum(tl.load(read_ptr + split)).to(tl.int64))
    tl.store(bound_out_ptr + row, tl.max(tl.load(unread_ptr + split)) / e)
    tl.store(threshold_out_ptr + row, tl.where(fine, edge / e, float("nan")))
