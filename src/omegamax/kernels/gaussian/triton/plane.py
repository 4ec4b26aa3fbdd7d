"""One program integrates a block of functions under one density; another takes the way back to one density.

See ``../reference.py`` for the formulas.
"""

from __future__ import annotations

import triton
import triton.language as tl

INVERSE_2_PI = tl.constexpr(0.15915494309189535)


@triton.jit
def integrate(x, y, a, b, c, centers_ptr, spread_ptr, out_ptr, j, J, ROUND: tl.constexpr):
    """Write the derivatives of functions j under a density at (x, y), all of it float64; return their values."""
    kept = j < J
    x = tl.load(centers_ptr + 2 * j, mask=kept, other=0.0).to(tl.float64) - x
    y = tl.load(centers_ptr + 2 * j + 1, mask=kept, other=0.0).to(tl.float64) - y
    if ROUND:
        width = tl.load(spread_ptr + j, mask=kept, other=1.0).to(tl.float64)
        a, b, c = a + width, b + 0.0 * width, c + width
    else:
        a += tl.load(spread_ptr + 4 * j, mask=kept, other=1.0).to(tl.float64)
        b += tl.load(spread_ptr + 4 * j + 2, mask=kept, other=0.0).to(tl.float64)
        c += tl.load(spread_ptr + 4 * j + 3, mask=kept, other=1.0).to(tl.float64)
    share = b / a
    upper = 1.0 / a
    lower = 1.0 / (c - share * b)
    rest = y - share * x
    v = rest * lower
    u = x * upper - share * v
    value = tl.exp(-0.5 * (x * x * upper + rest * v)) * tl.sqrt(upper * lower) * INVERSE_2_PI
    half = 0.5 * value
    mixed = half * (u * v + share * lower)
    out = out_ptr + j
    tl.store(out + J, value * u, mask=kept)
    tl.store(out + 2 * J, value * v, mask=kept)
    tl.store(out + 3 * J, half * (u * u - upper - share * share * lower), mask=kept)
    tl.store(out + 4 * J, mixed, mask=kept)
    tl.store(out + 5 * J, mixed, mask=kept)
    tl.store(out + 6 * J, half * (v * v - lower), mask=kept)
    return value


@triton.jit
def gaussian_in_plane_kernel(
    loc_ptr, sigma_ptr, centers_ptr, spread_ptr, out_ptr, J, blocks, ROUND: tl.constexpr, BLOCK: tl.constexpr
):
    """Write ``[7, J]`` for each density. ``ROUND``: spreads are multiples of the identity, one number each."""
    row = (tl.program_id(0) // blocks).to(tl.int64)
    j = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(loc_ptr + 2 * row).to(tl.float64)
    y = tl.load(loc_ptr + 2 * row + 1).to(tl.float64)
    a = tl.load(sigma_ptr + 4 * row).to(tl.float64)
    b = tl.load(sigma_ptr + 4 * row + 2).to(tl.float64)
    c = tl.load(sigma_ptr + 4 * row + 3).to(tl.float64)
    out_ptr += 7 * J * row
    value = integrate(x, y, a, b, c, centers_ptr, spread_ptr, out_ptr, j, J, ROUND)
    tl.store(out_ptr + j, value, mask=j < J)


@triton.jit
def sum_slopes(both_ptr, g_ptr, zero, J, BLOCK: tl.constexpr):
    """Return the gradients in a location and in a matrix, ``[8]`` with two zeros behind them.

    They are sums over the functions; ``zero [8, BLOCK]`` is of the dtype in which they are added up.
    """
    k = tl.arange(0, 8)
    sums = zero
    for start in range(0, J, BLOCK):
        j = start + tl.arange(0, BLOCK)
        g = tl.load(g_ptr + j, mask=j < J, other=0.0)
        slopes = tl.load(
            both_ptr + (k[:, None] + 1) * J + j[None, :], mask=(k < 6)[:, None] & (j < J)[None, :], other=0.0
        )
        sums += slopes * g[None, :]
    return tl.sum(sums, 1)


@triton.jit
def plane_vjp_kernel(both_ptr, g_ptr, loc_ptr, matrix_ptr, J, BLOCK: tl.constexpr):
    """Write the gradients in a location and in a matrix: sums over the functions of each density."""
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, 8)
    zero = tl.zeros((8, BLOCK), loc_ptr.dtype.element_ty)
    moved = sum_slopes(both_ptr + 7 * J * row, g_ptr + J * row, zero, J, BLOCK)
    tl.store(loc_ptr + 2 * row + k, moved, mask=k < 2)
    tl.store(matrix_ptr + 4 * row + k - 2, moved, mask=(k >= 2) & (k < 6))
