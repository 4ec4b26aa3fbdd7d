"""Gradients of maps with bounds at given probabilities: read once, written once.

Bounds are numbers, or tensors of any strides. What is at a bound is equal to it, rounded as probabilities are.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.bounds.triton.clip import rounded
from omegamax.kernels.triton.numerics import sum2
from omegamax.kernels.triton.tiles import read, tile_of, write


@triton.jit
def bound_of(number, ptr, place, here, like, GIVEN: tl.constexpr):
    """A number, or where ``GIVEN`` one for each entry, as probabilities ``like`` these hold it."""
    if GIVEN:
        bound = tl.load(ptr + place, mask=here, other=0.0)
    else:
        bound = tl.zeros([1, 1], tl.float32) + number
    return rounded(bound, like)


@triton.jit(do_not_specialize=["rows"])
def clipped(
    p_ptr,
    g_ptr,
    out_ptr,
    lower_ptr,
    upper_ptr,
    lower,
    upper,
    rows,
    K,
    p_stride,
    g_stride,
    lower_row,
    lower_column,
    upper_row,
    upper_column,
    GIVEN: tl.constexpr,
    EVEN: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``g`` measured from its mean over the entries that are at no bound, on those."""
    row, column, here = tile_of(rows, K, R, BLOCK)
    p = read(p_ptr + row * p_stride, column, here, 0.0, EVEN)
    g = read(g_ptr + row * g_stride, column, here, 0.0, EVEN)
    low = bound_of(lower, lower_ptr, row * lower_row + column * lower_column, here, p_ptr, GIVEN)
    high = bound_of(upper, upper_ptr, row * upper_row + column * upper_column, here, p_ptr, GIVEN)
    free = (p > 0.0) & (p != low) & (p != high)
    moved, count = sum2(tl.where(free, g, 0.0), free.to(tl.float32))
    out = tl.where(free, g - moved / tl.maximum(count, 1.0), 0.0)
    write(out_ptr + row * K, column, here, out, EVEN)


@triton.jit(do_not_specialize=["rows"])
def capped(
    p_ptr,
    g_ptr,
    out_ptr,
    upper_ptr,
    upper,
    rows,
    K,
    p_stride,
    g_stride,
    upper_row,
    upper_column,
    GIVEN: tl.constexpr,
    EVEN: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Softmax of the entries below their ceilings: ``p (g - m)``, ``m`` the mean of ``g`` by their probabilities."""
    row, column, here = tile_of(rows, K, R, BLOCK)
    p = read(p_ptr + row * p_stride, column, here, 0.0, EVEN)
    g = read(g_ptr + row * g_stride, column, here, 0.0, EVEN)
    high = bound_of(upper, upper_ptr, row * upper_row + column * upper_column, here, p_ptr, GIVEN)
    p = tl.where(p == high, 0.0, p)
    moved, mass = sum2(tl.where(p > 0.0, p * g, 0.0), p)
    out = tl.where(p > 0.0, p * (g - moved / tl.where(mass > 0.0, mass, 1.0)), 0.0)
    write(out_ptr + row * K, column, here, out, EVEN)
