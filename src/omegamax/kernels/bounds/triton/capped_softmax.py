"""Softmax with upper bounds: ``p = min(upper, c exp(x))``, summing to one; and its vector-Jacobian product."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.bounds.triton.box import load_bound
from omegamax.kernels.bounds.triton.clip import keep_off_upper, round_like
from omegamax.kernels.triton.device import (
    INF,
    any_row,
    exp,
    load_tile,
    row_max,
    row_sum,
    row_sum2,
    store_tile,
    tile_indices,
)


@triton.jit(do_not_specialize=["rows"])
def capped_softmax_kernel(
    z_ptr,
    p_ptr,
    upper_ptr,
    upper,
    rows,
    K,
    z_stride,
    upper_row,
    upper_column,
    GIVEN: tl.constexpr,
    UNMASKED: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``p [rows, K]``; the bound is a scalar, or where ``GIVEN`` there is one for each entry, of any strides.

    Entries below their bounds are not rounded to them, so that a gradient can tell which are at a bound.
    """
    row, column, mask = tile_indices(rows, K, R, BLOCK)
    x = load_tile(z_ptr + row * z_stride, column, mask, -INF, UNMASKED)
    top = row_max(x)
    share = exp(x - tl.where(top == -INF, 0.0, top))
    mass = row_sum(share)
    scale = 1.0 / tl.where(mass > 0.0, mass, 1.0)
    if GIVEN:
        bound = tl.load(upper_ptr + row * upper_row + column * upper_column, mask=mask, other=0.0)
    else:
        bound = tl.zeros([R, 1], tl.float32) + upper
    share *= scale
    limit = round_like(bound, p_ptr)
    if GIVEN:
        over = (tl.max(((share > bound) & mask).to(tl.int32), 1, keep_dims=True) > 0) & (top < INF)
    else:
        over = (scale > bound) & (tl.abs(top) < INF)  # the share of the largest
    if any_row(over, x):
        capped, share = share_below_caps(x, share, bound)
        p = tl.where(capped, limit, keep_off_upper(share, limit, p_ptr))
    else:
        p = tl.where(share < bound, keep_off_upper(share, limit, p_ptr), limit)
    p = tl.where(top < INF, tl.where(x > -INF, p, 0.0), float("nan"))
    store_tile(p_ptr + row * K, column, mask, p, UNMASKED)


@triton.jit
def share_below_caps(x, share, upper):
    """Return which entries are at their bounds, and the shares of the others, starting from the softmax ``share``."""
    there = x > -INF
    capped = there & (share > upper)
    go = True
    while go:
        # What the entries at their bounds leave is shared by the others. More may then exceed theirs, none falls back.
        # Measured from the largest free score, shares lose no digits however large the scores are.
        free = there & ~capped
        anchor = tl.max(tl.where(free, x, -INF), 1, keep_dims=True)
        weight = tl.where(free, exp(x - tl.where(anchor > -INF, anchor, 0.0)), 0.0)
        taken, mass = row_sum2(tl.where(capped, upper, 0.0), weight)
        share = weight * (tl.maximum(1.0 - taken, 0.0) / tl.where(mass > 0.0, mass, 1.0))
        over = free & (share > upper)
        capped = capped | over
        go = tl.max(over.to(tl.int32)) > 0
    return capped, share


@triton.jit(do_not_specialize=["rows"])
def capped_softmax_vjp_kernel(
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
    UNMASKED: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``p (g - m)`` on the entries below their bounds, ``m`` the mean of ``g`` weighted by their ``p``."""
    row, column, mask = tile_indices(rows, K, R, BLOCK)
    p = load_tile(p_ptr + row * p_stride, column, mask, 0.0, UNMASKED)
    g = load_tile(g_ptr + row * g_stride, column, mask, 0.0, UNMASKED)
    high = load_bound(upper, upper_ptr, row * upper_row + column * upper_column, mask, p_ptr, GIVEN)
    p = tl.where(p == high, 0.0, p)
    moved, mass = row_sum2(tl.where(p > 0.0, p * g, 0.0), p)
    out = tl.where(p > 0.0, p * (g - moved / tl.where(mass > 0.0, mass, 1.0)), 0.0)
    store_tile(out_ptr + row * K, column, mask, out, UNMASKED)
