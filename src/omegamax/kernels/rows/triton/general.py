"""Kernels of every map of rows, for alphas that have no faster one: softmax, entmax below 1, normmax.

They solve for the level of a deformed exponential, see :mod:`omegamax.kernels.triton.deformed`: of rows that fit into a
plain tile in registers, of longer ones with one pass over the row for each step.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.above_two import above_two_probabilities
from omegamax.kernels.rows.triton.normmax import normmax_probabilities
from omegamax.kernels.triton.deformed import (
    exp_e_probabilities,
    exp_e_step,
    exp_e_terms,
    level_of_ties,
    log_exp_e,
    newton_curvature,
)
from omegamax.kernels.triton.device import (
    ENTMAX,
    MAX_STEPS,
    NORMMAX,
    OVERSHOT,
    SOFTMAX,
    block_indices,
    exp,
    load_alpha,
    load_shifted,
    load_tile,
    row_max,
    row_sum,
    row_sum3,
    store_tile,
    tile_indices,
)


@triton.jit(do_not_specialize=["rows"])
def general_kernel(
    z_ptr,
    p_ptr,
    alpha_ptr,
    alpha,
    rows,
    K,
    z_stride,
    KIND: tl.constexpr,
    PER_ROW: tl.constexpr,
    UNMASKED: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute probabilities ``p [rows, K]`` of scores ``z``; empty rows give zeros, NaN and ``+inf`` give NaN."""
    row, column, mask = tile_indices(rows, K, R, BLOCK)
    z = load_tile(z_ptr + row * z_stride, column, mask, float("-inf"), UNMASKED)
    top = row_max(z)
    shift = tl.where(top == float("-inf"), 0.0, top)
    x = z - shift
    if KIND == SOFTMAX:
        p = exp(x)
        s = row_sum(p)
        p = p / tl.where(s > 0.0, s, 1.0)
    else:
        a = load_alpha(alpha, alpha_ptr, row, rows, PER_ROW, R)
        if KIND == NORMMAX:
            p = normmax_probabilities(z, x, shift, a)
        else:
            e = a - 1.0
            v = tl.where(x > float("-inf"), e * x, x)
            p = exp_e_probabilities(x, v, e)
    p = tl.where(top < float("inf"), p, float("nan"))
    store_tile(p_ptr + row * K, column, mask, p, UNMASKED)


@triton.jit(do_not_specialize=["rows"])
def entmax_outside_kernel(
    z_ptr,
    p_ptr,
    alpha_ptr,
    rows,
    K,
    z_stride,
    TILES: tl.constexpr,
    R: tl.constexpr,
    C: tl.constexpr,
    L: tl.constexpr,
):
    """Compute the rows whose own alpha is below 1, above 2 or NaN, after ``entmax_any_alpha_kernel`` did the others.

    Mostly there are none, so that a program looks at ``TILES`` tiles of ``R`` rows. They are far from each other, since
    the alphas of neighbouring rows may be alike.
    """
    first = tl.program_id(0).to(tl.int64) * R
    apart = tl.num_programs(0).to(tl.int64) * R
    row = first + tl.arange(0, TILES)[:, None] * apart + tl.arange(0, R)[None, :]
    a = tl.load(alpha_ptr + row, mask=row < rows, other=2.0)
    if tl.max(((a >= 1.0) & (a <= 2.0)).to(tl.int32) ^ 1) > 0:
        tile = 0
        while tile < TILES:
            start = first + tile * apart
            solve_tile_below_one(z_ptr, p_ptr, alpha_ptr, start, rows, K, z_stride, R, C * L)
            solve_tile_above_two(z_ptr, p_ptr, alpha_ptr, start, rows, K, z_stride, R, C, L)
            tile += 1


@triton.jit
def solve_tile_below_one(z_ptr, p_ptr, alpha_ptr, first, rows, K, z_stride, R: tl.constexpr, BLOCK: tl.constexpr):
    """Solve those of the ``R`` rows from ``first`` on whose alpha is below 1 or NaN."""
    row = first + tl.arange(0, R)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    a = load_alpha(2.0, alpha_ptr, row, rows, True, R)
    below = (a >= 1.0) == 0
    if tl.max(below.to(tl.int32)) > 0:
        x = tl.load(z_ptr + row * z_stride + column, mask=below & (column < K), other=float("-inf")).to(tl.float32)
        top = row_max(x)
        x -= tl.where(top == float("-inf"), 0.0, top)
        e = tl.where(a < 1.0, a - 1.0, 1.0)
        v = tl.where(x > float("-inf"), e * x, x)
        p = tl.where((a < 1.0) & (top < float("inf")), exp_e_probabilities(x, v, e), float("nan"))
        tl.store(p_ptr + row * K + column, p, mask=below & (column < K))


@triton.jit
def solve_tile_above_two(
    z_ptr, p_ptr, alpha_ptr, first, rows, K, z_stride, R: tl.constexpr, C: tl.constexpr, L: tl.constexpr
):
    """Solve those of the ``R`` rows from ``first`` on whose alpha is above 2."""
    row = first + tl.arange(0, R)[:, None, None]
    column = tl.arange(0, C)[None, :, None] * L + tl.arange(0, L)[None, None, :]
    a = tl.load(alpha_ptr + row, mask=row < rows, other=2.0)
    above = a > 2.0
    if tl.max(above.to(tl.int32)) > 0:
        mask = above & (column < K)  # other rows are empty, and end no search later
        x = tl.load(z_ptr + row * z_stride + column, mask=mask, other=float("-inf")).to(tl.float32)
        top = row_max(x)
        x -= tl.where(top == float("-inf"), 0.0, top)
        tl.store(p_ptr + row * K + column, above_two_probabilities(x, top, tl.where(above, a, 3.0)), mask=mask)


@triton.jit(do_not_specialize=["rows"])
def general_long_kernel(
    z_ptr,
    p_ptr,
    alpha_ptr,
    alpha,
    rows,
    K,
    z_stride,
    KIND: tl.constexpr,
    PER_ROW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute probabilities of long rows, one row for each program; of entmax with an alpha per row those below 1."""
    row = tl.program_id(0).to(tl.int64)
    a = load_alpha(alpha, alpha_ptr, row + tl.zeros([1, 1], tl.int64), rows, PER_ROW, 1)
    if PER_ROW and KIND == ENTMAX:
        if tl.max((a < 1.0).to(tl.int32)) > 0:
            solve_general_long(z_ptr + row * z_stride, p_ptr + row * K, a, K, KIND, BLOCK)
    else:
        solve_general_long(z_ptr + row * z_stride, p_ptr + row * K, a, K, KIND, BLOCK)


@triton.jit
def solve_general_long(z_ptr, p_ptr, a, K, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Solve the row at ``z_ptr``: one pass for its maximum, one for each step, two for the probabilities."""
    peak = tl.full([1, BLOCK], float("-inf"), tl.float32)
    for start in range(0, K, BLOCK):
        x = load_shifted(z_ptr, start, K, 0.0, BLOCK)
        peak = tl.maximum(peak, x, propagate_nan=tl.PropagateNan.ALL)
    top = row_max(peak)
    shift = tl.where(top == float("-inf"), 0.0, top)
    zero = tl.zeros([1, 1], tl.float32)
    e = a - 1.0
    if KIND == NORMMAX:
        e = 1.0 - 1.0 / a
    t = zero
    highest = level_of_ties(e, K)
    step = zero
    overshot = zero
    steps = 0
    go = True
    while go:
        s = tl.zeros([1, BLOCK], tl.float32)
        r = tl.zeros([1, BLOCK], tl.float32)
        u = tl.zeros([1, BLOCK], tl.float32)
        for start in range(0, K, BLOCK):
            x = load_shifted(z_ptr, start, K, shift, BLOCK)
            ds, dr, du = exp_e_terms(x, scale_scores(x, e, KIND), e, t)
            s += ds
            r += dr
            u += du
        mass, slope, curvature = row_sum3(s, r, u)
        overshot = tl.where(mass < OVERSHOT, 1.0, overshot)
        curvature = newton_curvature(mass, slope, curvature, overshot)
        step, moving = exp_e_step(mass, slope, curvature, e, t)
        t = tl.where(moving, tl.minimum(t + step, highest), t)
        steps += 1
        go = (tl.max(moving.to(tl.int32)) > 0) & (steps < MAX_STEPS)
    s = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        x = load_shifted(z_ptr, start, K, shift, BLOCK)
        s += unnormalised_probabilities(x, t, step, e, a, KIND)
    total = row_sum(s)
    total = tl.where(total > 0.0, total, 1.0)
    for start in range(0, K, BLOCK):
        column, mask = block_indices(start, K, BLOCK)
        x = load_shifted(z_ptr, start, K, shift, BLOCK)
        p = unnormalised_probabilities(x, t, step, e, a, KIND) / total
        p = tl.where(top < float("inf"), p, float("nan"))
        tl.store(p_ptr + column, p, mask=mask)


@triton.jit
def scale_scores(x, e, KIND: tl.constexpr):
    """Return ``e`` times the scores; the entmax that has the threshold of normmax takes ``x / e``, so that is ``x``."""
    if KIND == NORMMAX:
        return x
    return tl.where(x > float("-inf"), e * x, x)


@triton.jit
def unnormalised_probabilities(x, t, step, e, a, KIND: tl.constexpr):
    """Return probabilities at the level ``t + step``, before they are normalised."""
    log_p, _, inside = log_exp_e(x, scale_scores(x, e, KIND), e, t, step)
    if KIND == NORMMAX:
        log_p = log_p / a
    return tl.where(inside, exp(log_p), 0.0)
