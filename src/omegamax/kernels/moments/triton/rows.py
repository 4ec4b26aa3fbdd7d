"""One program takes one row of weights, in blocks, which it reads again for each moment: they stay in the cache.

See ``../__init__.py`` for the formulas. Coordinates are tiles ``[A, 1, BLOCK]`` and ``[1, A, BLOCK]``, so that all
products of two of them are one tile; A is the number of axes N, or the power of two above it.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def find_present(present_ptr, place, L, MASKED: tl.constexpr):
    """Return which of these places are in the row, and which of them count."""
    there = place < L
    if MASKED:
        return there, there & (tl.load(present_ptr + place, mask=there, other=0) != 0)
    else:
        return there, there


@triton.jit
def load_probabilities(w_ptr, present_ptr, place, L, divisor, lost, all_absent, MASKED: tl.constexpr):
    """Return the weights of a block over the divisor, equal ones in a row that is lost, and which places there are."""
    there, present = find_present(present_ptr, place, L, MASKED)
    w = tl.load(w_ptr + place, mask=present, other=0.0).to(divisor.dtype)
    w = tl.where(lost, tl.where(all_absent, there, present).to(divisor.dtype), w)
    return w / divisor, there, present


@triton.jit
def load_points(x_ptr, axis, place, there, along, step, N: tl.constexpr):
    """Return one coordinate of points for each entry of a tile, 0 where there is none."""
    return tl.load(x_ptr + axis * along + place * step, mask=there & (axis < N), other=0.0)


@triton.jit
def sum_weights(
    w_ptr, present_ptr, L, zero, TINY: tl.constexpr, HUGE: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr
):
    """Return the sum of a row, what its weights are divided by, whether it is lost, and whether nothing is present.

    ``zero`` is a block of zeros of the working dtype.
    """
    block = tl.arange(0, BLOCK)
    total, count = zero, zero
    for start in range(0, L, BLOCK):
        _, present = find_present(present_ptr, start + block, L, MASKED)
        total += tl.load(w_ptr + start + block, mask=present, other=0.0).to(zero.dtype)
        count += present.to(zero.dtype)
    total, count = tl.sum(total, 0), tl.sum(count, 0)
    kept = (total >= TINY) & (total <= HUGE)
    all_absent = count == 0.0
    divisor = tl.where(kept, total, tl.where(all_absent, 0.0 * count + L, count))
    return total, divisor, kept == 0, all_absent


@triton.jit
def find_moments(
    w_ptr,
    present_ptr,
    x_ptr,
    floor_ptr,
    L,
    divisor,
    lost,
    all_absent,
    x_axis,
    x_step,
    floor_axis,
    MASKED: tl.constexpr,
    N: tl.constexpr,
    A: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Return mean ``[A, 1, 1]`` and covariance ``[A, A, 1]`` of a row, the floor on its diagonal."""
    i, j = tl.arange(0, A)[:, None, None], tl.arange(0, A)[None, :, None]
    wide = tl.arange(0, BLOCK)[None, None, :]
    sums = tl.zeros((A, 1, BLOCK), divisor.dtype)
    for start in range(0, L, BLOCK):
        place = start + wide
        p, there, _ = load_probabilities(w_ptr, present_ptr, place, L, divisor, lost, all_absent, MASKED)
        sums += p * load_points(x_ptr, i, place, there, x_axis, x_step, N)
    mean = tl.sum(sums, 2, keep_dims=True)
    other_mean = tl.permute(mean, (1, 0, 2))
    products = tl.zeros((A, A, BLOCK), divisor.dtype)
    for start in range(0, L, BLOCK):
        place = start + wide
        p, there, _ = load_probabilities(w_ptr, present_ptr, place, L, divisor, lost, all_absent, MASKED)
        centred = load_points(x_ptr, i, place, there, x_axis, x_step, N) - mean
        other = load_points(x_ptr, j, place, there, x_axis, x_step, N) - other_mean
        products += p * (centred * other)  # the same in either order, to the last bit
    covariance = tl.sum(products, 2, keep_dims=True)
    diagonal = (i == j) & (i < N)
    return mean, covariance + tl.load(floor_ptr + i * floor_axis + 0 * j, mask=diagonal, other=0.0)


@triton.jit
def moments_kernel(
    w_ptr,
    present_ptr,
    x_ptr,
    floor_ptr,
    sums_ptr,
    lost_ptr,
    p_ptr,
    mean_ptr,
    covariance_ptr,
    w_row,
    present_row,
    x_row,
    x_axis,
    x_step,
    floor_row,
    floor_axis,
    rows,
    L,
    TINY: tl.constexpr,
    HUGE: tl.constexpr,
    MASKED: tl.constexpr,
    NORMALISED: tl.constexpr,
    N: tl.constexpr,
    A: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write sums, and zero times sums, ``[2, rows]``, and which rows are lost; ``NORMALISED``: weights that sum to one.

    With N > 0 axes, mean ``[rows, N]`` and covariance ``[rows, N, N]`` with the floor on its diagonal.
    """
    row = tl.program_id(0).to(tl.int64)
    w_ptr += row * w_row
    present_ptr += row * present_row
    block = tl.arange(0, BLOCK)
    zero = tl.zeros((BLOCK,), sums_ptr.dtype.element_ty)
    total, divisor, lost, all_absent = sum_weights(w_ptr, present_ptr, L, zero, TINY, HUGE, MASKED, BLOCK)
    tl.store(sums_ptr + row, total)
    tl.store(sums_ptr + rows + row, 0.0 * total)
    tl.store(lost_ptr + row, lost.to(tl.int8))
    if NORMALISED:
        p_ptr += row * L
        for start in range(0, L, BLOCK):
            place = start + block
            p, there, _ = load_probabilities(w_ptr, present_ptr, place, L, divisor, lost, all_absent, MASKED)
            tl.store(p_ptr + place, p, mask=there)
    if N > 0:
        x_ptr += row * x_row
        floor_ptr += row * floor_row
        i, j = tl.arange(0, A)[:, None, None], tl.arange(0, A)[None, :, None]
        mean, covariance = find_moments(
            w_ptr,
            present_ptr,
            x_ptr,
            floor_ptr,
            L,
            divisor,
            lost,
            all_absent,
            x_axis,
            x_step,
            floor_axis,
            MASKED,
            N,
            A,
            BLOCK,
        )
        tl.store(mean_ptr + row * N + i, mean, mask=i < N)
        tl.store(covariance_ptr + row * N * N + i * N + j, covariance, mask=(i < N) & (j < N))


@triton.jit
def differentiate(
    g_ptr,
    x_ptr,
    place,
    there,
    i,
    j,
    mean,
    other_mean,
    of_mean,
    of_covariance,
    x_axis,
    x_step,
    NORMALISED: tl.constexpr,
    N: tl.constexpr,
):
    """Return what the gradient says of a block of weights that need not sum to one, ``[1, 1, BLOCK]``."""
    h = 0.0
    if NORMALISED:
        h += tl.load(g_ptr + place, mask=there, other=0.0)
    if N > 0:
        centred = load_points(x_ptr, i, place, there, x_axis, x_step, N) - mean
        other = load_points(x_ptr, j, place, there, x_axis, x_step, N) - other_mean
        h += tl.sum(tl.sum(of_covariance * (centred * other), 0, keep_dims=True), 1, keep_dims=True)
        h += tl.sum(of_mean * centred, 0, keep_dims=True)
    return h


@triton.jit
def pull_back(
    w_ptr,
    present_ptr,
    x_ptr,
    g_ptr,
    out_ptr,
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
    TINY: tl.constexpr,
    HUGE: tl.constexpr,
    MASKED: tl.constexpr,
    NORMALISED: tl.constexpr,
    N: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the gradient in the weights of a row that sums to ``total``: 0 where they are absent, or it is lost."""
    kept = (total >= TINY) & (total <= HUGE)
    lost = kept == 0
    divisor = tl.where(lost, 1.0, total)
    block = tl.arange(0, BLOCK)[None, None, :]
    sums = tl.zeros((1, 1, BLOCK), divisor.dtype)
    for start in range(0, L, BLOCK):
        place = start + block
        p, there, _ = load_probabilities(w_ptr, present_ptr, place, L, divisor, lost, lost, MASKED)
        sums += p * differentiate(
            g_ptr, x_ptr, place, there, i, j, mean, other_mean, of_mean, of_covariance, x_axis, x_step, NORMALISED, N
        )
    centre = tl.sum(sums, 2, keep_dims=True)
    for start in range(0, L, BLOCK):
        place = start + block
        there, present = find_present(present_ptr, place, L, MASKED)
        h = differentiate(
            g_ptr, x_ptr, place, there, i, j, mean, other_mean, of_mean, of_covariance, x_axis, x_step, NORMALISED, N
        )
        gradient = tl.where(lost, 0.0, (h - centre) / divisor)
        tl.store(out_ptr + place, tl.where(present, gradient, 0.0), mask=there)


@triton.jit
def moments_vjp_kernel(
    w_ptr,
    present_ptr,
    x_ptr,
    sums_ptr,
    mean_ptr,
    g_ptr,
    of_mean_ptr,
    of_covariance_ptr,
    out_ptr,
    w_row,
    present_row,
    x_row,
    x_axis,
    x_step,
    L,
    TINY: tl.constexpr,
    HUGE: tl.constexpr,
    MASKED: tl.constexpr,
    NORMALISED: tl.constexpr,
    N: tl.constexpr,
    A: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the gradient in the weights ``[rows, L]``: 0 where they are absent, and in rows that are lost."""
    row = tl.program_id(0).to(tl.int64)
    w_ptr += row * w_row
    present_ptr += row * present_row
    x_ptr += row * x_row
    g_ptr += row * L
    out_ptr += row * L
    i, j = tl.arange(0, A)[:, None, None], tl.arange(0, A)[None, :, None]
    total = tl.load(sums_ptr + row)
    mean, other_mean, of_mean, of_covariance = total, total, total, total
    if N > 0:
        mean = tl.load(mean_ptr + row * N + i, mask=i < N, other=0.0)
        other_mean = tl.load(mean_ptr + row * N + j, mask=j < N, other=0.0)
        of_mean = tl.load(of_mean_ptr + row * N + i, mask=i < N, other=0.0)
        at = of_covariance_ptr + row * N * N + i * N + j
        of_covariance = tl.load(at, mask=(i < N) & (j < N), other=0.0)
    pull_back(
        w_ptr,
        present_ptr,
        x_ptr,
        g_ptr,
        out_ptr,
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
        MASKED,
        NORMALISED,
        N,
        BLOCK,
    )
