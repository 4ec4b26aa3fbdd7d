"""One program takes one row of weights, and a block of functions; on the way back, all of them."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.contour.triton.plane import integrate as integrate_contour
from omegamax.kernels.gaussian.triton.plane import integrate as integrate_gaussian
from omegamax.kernels.gaussian.triton.plane import sum_slopes
from omegamax.kernels.moments.triton.rows import find_moments, pull_back, sum_weights


@triton.jit
def take(tile, chosen):
    """Return the one entry of a tile that is chosen, float64."""
    return tl.sum(tl.where(chosen, tile, 0.0)).to(tl.float64)


@triton.jit
def match_density(
    w_ptr,
    x_ptr,
    floor_ptr,
    mean_ptr,
    covariance_ptr,
    x_axis,
    x_step,
    floor_axis,
    L,
    first,
    TINY: tl.constexpr,
    HUGE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Return mean and lower triangle of the covariance of a row, written if ``first``, and what a lost row expects."""
    zero = tl.zeros((BLOCK,), mean_ptr.dtype.element_ty)
    total, divisor, lost, absent = sum_weights(w_ptr, w_ptr, L, zero, TINY, HUGE, False, BLOCK)
    mean, covariance = find_moments(
        w_ptr, w_ptr, x_ptr, floor_ptr, L, divisor, lost, absent, x_axis, x_step, floor_axis, False, 2, 2, BLOCK
    )
    i, j = tl.arange(0, 2)[:, None, None], tl.arange(0, 2)[None, :, None]
    tl.store(mean_ptr + i, mean, mask=(i < 2) & first)
    tl.store(covariance_ptr + 2 * i + j, covariance, mask=(i < 2) & (j < 2) & first)
    x, y = take(mean, i == 0), take(mean, i == 1)
    a, b, c = take(covariance, i + j == 0), take(covariance, (i == 1) & (j == 0)), take(covariance, i + j == 2)
    return x, y, a, b, c, lost, (0.0 * total).to(tl.float64)


@triton.jit
def gaussian_of_weights_kernel(
    w_ptr,
    x_ptr,
    floor_ptr,
    centers_ptr,
    spread_ptr,
    mean_ptr,
    covariance_ptr,
    out_ptr,
    w_row,
    x_axis,
    x_step,
    floor_axis,
    L,
    J,
    blocks,
    TINY: tl.constexpr,
    HUGE: tl.constexpr,
    ROUND: tl.constexpr,
    POINTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write mean, covariance, and expectations with their derivatives ``[7, J]`` of each row; POINTS are in a block."""
    row = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    j = block * BLOCK + tl.arange(0, BLOCK)
    mean_ptr += 2 * row
    covariance_ptr += 4 * row
    out_ptr += 7 * J * row
    w_ptr += row * w_row
    x, y, a, b, c, lost, nothing = match_density(
        w_ptr,
        x_ptr,
        floor_ptr,
        mean_ptr,
        covariance_ptr,
        x_axis,
        x_step,
        floor_axis,
        L,
        block == 0,
        TINY,
        HUGE,
        POINTS,
    )
    value = integrate_gaussian(x, y, a, b, c, centers_ptr, spread_ptr, out_ptr, j, J, ROUND)
    tl.store(out_ptr + j, tl.where(lost, nothing, value), mask=j < J)


@triton.jit
def contour_of_weights_kernel(
    w_ptr,
    x_ptr,
    floor_ptr,
    centers_ptr,
    variance_ptr,
    mean_ptr,
    covariance_ptr,
    out_ptr,
    w_row,
    x_axis,
    x_step,
    floor_axis,
    L,
    J,
    blocks,
    TINY: tl.constexpr,
    HUGE: tl.constexpr,
    POINTS: tl.constexpr,
    ALPHA: tl.constexpr,
    M: tl.constexpr,
    LOG_ALPHA: tl.constexpr,
    LOG_GAMMA_SCALE: tl.constexpr,
    LOG_STRETCH: tl.constexpr,
    FORM: tl.constexpr,
    NODES: tl.constexpr,
    STEP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the same under compact densities."""
    row = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    j = block * BLOCK + tl.arange(0, BLOCK)
    mean_ptr += 2 * row
    covariance_ptr += 4 * row
    out_ptr += 7 * J * row
    w_ptr += row * w_row
    x, y, first, below, last, lost, nothing = match_density(
        w_ptr,
        x_ptr,
        floor_ptr,
        mean_ptr,
        covariance_ptr,
        x_axis,
        x_step,
        floor_axis,
        L,
        block == 0,
        TINY,
        HUGE,
        POINTS,
    )
    value = integrate_contour(
        x,
        y,
        first,
        below,
        last,
        centers_ptr,
        variance_ptr,
        out_ptr,
        j,
        J,
        ALPHA,
        M,
        LOG_ALPHA,
        LOG_GAMMA_SCALE,
        LOG_STRETCH,
        FORM,
        NODES,
        STEP,
    )
    tl.store(out_ptr + j, tl.where(lost, nothing, value), mask=j < J)


@triton.jit
def weights_vjp_kernel(
    w_ptr,
    x_ptr,
    mean_ptr,
    both_ptr,
    g_ptr,
    in_mean_ptr,
    in_covariance_ptr,
    out_ptr,
    w_row,
    x_axis,
    x_step,
    L,
    J,
    TINY: tl.constexpr,
    HUGE: tl.constexpr,
    EXPECTED: tl.constexpr,
    LOCATED: tl.constexpr,
    SPREAD: tl.constexpr,
    POINTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the gradient in the weights ``[rows, L]``, from those in expectations, in the mean and in the covariance.

    ``EXPECTED``, ``LOCATED`` and ``SPREAD`` say which of these there are.
    """
    row = tl.program_id(0).to(tl.int64)
    w_ptr += row * w_row
    i, j = tl.arange(0, 2)[:, None, None], tl.arange(0, 2)[None, :, None]
    mean = tl.load(mean_ptr + 2 * row + i)
    other_mean = tl.load(mean_ptr + 2 * row + j)
    of_mean, of_covariance = tl.zeros((2, 1, 1), mean.dtype), tl.zeros((2, 2, 1), mean.dtype)
    if EXPECTED:
        zero = tl.zeros((8, BLOCK), mean.dtype)
        moved = sum_slopes(both_ptr + 7 * J * row, g_ptr + J * row, zero, J, BLOCK)
        moved = moved[None, None, :]
        k = tl.arange(0, 8)[None, None, :]
        of_mean += tl.sum(tl.where(k == i, moved, 0.0), 2, keep_dims=True)
        of_covariance += tl.sum(tl.where(k == 2 + 2 * i + j, moved, 0.0), 2, keep_dims=True)
    if LOCATED:
        of_mean += tl.load(in_mean_ptr + 2 * row + i)
    if SPREAD:
        of_covariance += tl.load(in_covariance_ptr + 4 * row + 2 * i + j)
    total, _, _, _ = sum_weights(w_ptr, w_ptr, L, tl.zeros((POINTS,), mean.dtype), TINY, HUGE, False, POINTS)
    pull_back(
        w_ptr,
        w_ptr,
        x_ptr,
        w_ptr,
        out_ptr + row * L,
        L,
        total,
        i,
        j,
        mean,
        other_mean,
        of_mean,
        of_covariance,
        x_axis,
        x_step,
        TINY,
        HUGE,
        False,
        False,
        2,
        POINTS,
    )
