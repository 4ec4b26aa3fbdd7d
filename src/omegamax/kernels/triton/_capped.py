"""Softmax with ceilings: ``p = min(upper, c exp(x))``, summing to one."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton._box import INF, settled
from omegamax.kernels.triton._numbers import exp, largest, sum2
from omegamax.kernels.triton._simplex import tile_of


@triton.jit(do_not_specialize=["rows"])
def capped_softmax(
    z_ptr,
    p_ptr,
    upper_ptr,
    rows,
    K,
    z_stride,
    upper_row,
    upper_column,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``p [rows, K]``; the ceilings have any strides."""
    row, column, here = tile_of(rows, K, R, BLOCK)
    x = tl.load(z_ptr + row * z_stride + column, mask=here, other=-INF).to(tl.float32)
    upper = tl.load(upper_ptr + row * upper_row + column * upper_column, mask=here, other=0.0)
    there = x > -INF
    capped = tl.zeros_like(x) > 0.0
    share = tl.zeros_like(x)
    go = True
    while go:
        # What those at their ceilings leave is shared by the others. More may then pass theirs, none falls back.
        # Measured from the largest free score, shares lose no digits however large the scores are.
        free = there & ~capped
        anchor = tl.max(tl.where(free, x, -INF), 1, keep_dims=True)
        weight = tl.where(free, exp(x - tl.where(anchor > -INF, anchor, 0.0)), 0.0)
        taken, mass = sum2(tl.where(there & capped, upper, 0.0), weight)
        share = weight * (tl.maximum(1.0 - taken, 0.0) / tl.where(mass > 0.0, mass, 1.0))
        over = free & (share > upper)
        capped = capped | over
        go = tl.max(over.to(tl.int32)) > 0
    p = tl.where(capped, tl.where(there, upper, 0.0), share)
    tl.store(p_ptr + row * K + column, settled(p, largest(x)), mask=here)
