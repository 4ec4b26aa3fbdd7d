"""One program integrates a block of functions under one density; see ``../reference.py`` for the formulas."""

from __future__ import annotations

import triton
import triton.language as tl

INVERSE_2_PI = tl.constexpr(0.15915494309189535)


@triton.jit
def gaussian_in_plane_kernel(
    loc_ptr, sigma_ptr, centers_ptr, spread_ptr, out_ptr, J, blocks, ROUND: tl.constexpr, BLOCK: tl.constexpr
):
    """Write ``[7, J]`` for each density. ``ROUND``: spreads are multiples of the identity, one number each."""
    row = (tl.program_id(0) // blocks).to(tl.int64)
    j = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    kept = j < J
    x = tl.load(centers_ptr + 2 * j, mask=kept, other=0.0).to(tl.float64) - tl.load(loc_ptr + 2 * row).to(tl.float64)
    y = tl.load(centers_ptr + 2 * j + 1, mask=kept, other=0.0).to(tl.float64)
    y -= tl.load(loc_ptr + 2 * row + 1).to(tl.float64)
    a = tl.load(sigma_ptr + 4 * row).to(tl.float64)
    b = tl.load(sigma_ptr + 4 * row + 2).to(tl.float64)
    c = tl.load(sigma_ptr + 4 * row + 3).to(tl.float64)
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
    out = out_ptr + 7 * J * row + j
    tl.store(out, value, mask=kept)
    tl.store(out + J, value * u, mask=kept)
    tl.store(out + 2 * J, value * v, mask=kept)
    tl.store(out + 3 * J, half * (u * u - upper - share * share * lower), mask=kept)
    tl.store(out + 4 * J, mixed, mask=kept)
    tl.store(out + 5 * J, mixed, mask=kept)
    tl.store(out + 6 * J, half * (v * v - lower), mask=kept)
