"""One program integrates a block of functions under one density over the line; another takes the way back to it.

See ``../reference.py`` for the formulas.
"""

from __future__ import annotations

import triton
import triton.language as tl

INVERSE_2_PI = tl.constexpr(0.15915494309189535)
BELL = tl.constexpr(0.29920671030107454)  # 3 / 4 of the density of a standard normal at 0
THIRD = tl.constexpr(1 / 3)


@triton.jit
def gaussian_on_line_kernel(loc_ptr, scale_ptr, centers_ptr, variance_ptr, out_ptr, J, blocks, BLOCK: tl.constexpr):
    """Write ``[3, J]`` for each Gaussian: values, and derivatives in its mean and its variance."""
    row = (tl.program_id(0) // blocks).to(tl.int64)
    j = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    kept = j < J
    x = tl.load(centers_ptr + j, mask=kept, other=0.0).to(tl.float64) - tl.load(loc_ptr + row).to(tl.float64)
    wide = tl.load(variance_ptr + j, mask=kept, other=1.0).to(tl.float64) + tl.load(scale_ptr + row).to(tl.float64)
    inverse = 1.0 / wide
    z = x * inverse
    value = tl.exp(-0.5 * x * z) * tl.sqrt(inverse * INVERSE_2_PI)
    out = out_ptr + 3 * J * row + j
    tl.store(out, value, mask=kept)
    tl.store(out + J, value * z, mask=kept)
    tl.store(out + 2 * J, 0.5 * value * (z * z - inverse), mask=kept)


@triton.jit
def parabola_on_line_kernel(
    loc_ptr,
    root_ptr,
    centers_ptr,
    variance_ptr,
    nodes_ptr,
    out_ptr,
    J,
    blocks,
    NODES: tl.constexpr,
    REACH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write ``[3, J]`` for each truncated parabola: values, and derivatives in its location and the root of its scale.

    Functions have ``REACH`` deviations to each side; the rule of ``NODES`` points is for what of them the parabola has.
    """
    row = (tl.program_id(0) // blocks).to(tl.int64)
    j = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    kept = j < J
    root = tl.load(root_ptr + row).to(tl.float64)
    inverse = tl.exp(-THIRD * tl.log(1.5 * root * root))  # of the half-width a
    x = tl.load(centers_ptr + j, mask=kept, other=0.0).to(tl.float64) - tl.load(loc_ptr + row).to(tl.float64)
    deviation = tl.sqrt(tl.load(variance_ptr + j, mask=kept, other=1.0).to(tl.float64))
    middle, w = x * inverse, deviation * inverse
    k = 1.0 / w
    low = clip((-1.0 - middle) * k, REACH)
    high = clip((1.0 - middle) * k, REACH)
    start = clip(middle - REACH * w, 1.0)
    stop = clip(middle + REACH * w, 1.0)
    width = tl.where(w < 1.0, high - low, (stop - start) * k)
    mass = tl.zeros((BLOCK,), tl.float64)
    first = tl.zeros((BLOCK,), tl.float64)
    second = tl.zeros((BLOCK,), tl.float64)
    for i in range(NODES):
        u, weight = tl.load(nodes_ptr + i), tl.load(nodes_ptr + NODES + i)
        y = low + width * u
        s = start + w * width * u
        bell = weight * tl.exp(-0.5 * y * y)
        under = bell * (1.0 - s * s)
        mass += bell
        first += under
        second += under * y
    factor = width * inverse * BELL
    out = out_ptr + 3 * J * row + j
    tl.store(out, first * factor, mask=kept)
    tl.store(out + J, -second * factor / deviation, mask=kept)
    tl.store(out + 2 * J, (mass - 1.5 * first) * factor * (4.0 * THIRD) / root, mask=kept)


@triton.jit
def clip(x, most):
    """Return numbers between ``-most`` and ``most``; what is not a number stays so."""
    return tl.where(x > most, most, tl.where(x < -most, -most, x))


@triton.jit
def line_vjp_kernel(both_ptr, g_ptr, loc_ptr, scale_ptr, J, BLOCK: tl.constexpr):
    """Write the gradients in a location and in a scale: sums over the functions of each density."""
    row = tl.program_id(0).to(tl.int64)
    both_ptr += 3 * J * row
    of_loc = tl.zeros((BLOCK,), loc_ptr.dtype.element_ty)
    of_scale = tl.zeros((BLOCK,), loc_ptr.dtype.element_ty)
    for start in range(0, J, BLOCK):
        j = start + tl.arange(0, BLOCK)
        g = tl.load(g_ptr + J * row + j, mask=j < J, other=0.0)
        of_loc += tl.load(both_ptr + J + j, mask=j < J, other=0.0) * g
        of_scale += tl.load(both_ptr + 2 * J + j, mask=j < J, other=0.0) * g
    tl.store(loc_ptr + row, tl.sum(of_loc, 0))
    tl.store(scale_ptr + row, tl.sum(of_scale, 0))
