"""Total variation on images: the proximal operator by flows that level them, and means over the regions of its result.

A program takes an image, from memory and back, and computes in float64.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.taut_string import EPS
from omegamax.kernels.variation.triton.flow import solve_image
from omegamax.kernels.variation.triton.regions import average, find_neighbour, label_regions


@triton.jit
def keep_joined(cell, x, neighbour):
    """Return the neighbours of one colour where both ends are there: absent cells are ``-inf``."""
    return tl.where((x > -float("inf")) & (tl.gather(x, neighbour, 0) > -float("inf")), neighbour, cell)


@triton.jit
def part_far(cell, x, reach, neighbour, limit):
    """Return the neighbours of one colour that may come out level, and the flow to the others, which is the limit."""
    fall = x - tl.gather(x, neighbour, 0)
    far = tl.abs(fall) > (reach + tl.gather(reach, neighbour, 0)) * (1.0 + 1e-12)
    return tl.where(far, cell, neighbour), tl.where(far, tl.where(fall > 0.0, limit, -limit), 0.0)


@triton.jit
def power_of_two_below(x):
    """Return the largest power of two that is not above ``x >= 0``; the least normal number where there is none."""
    bits = x.to(tl.int64, bitcast=True) & 0x7FF0000000000000
    return tl.maximum(bits.to(tl.float64, bitcast=True), 2.2250738585072014e-308)


@triton.jit(do_not_specialize=["strength", "sweeps"])
def grid_kernel(
    x_ptr,
    w_ptr,
    undone_ptr,
    strength_ptr,
    strength,
    height,
    width,
    sweeps,
    PER_IMAGE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``w [images, height, width]`` of ``x``; ``-inf`` cells stay, with no edges, NaN and ``+inf`` give NaN.

    ``strength`` is the bits of a float64, for an argument would be rounded to float32; or ``strength_ptr [images]`` is.
    ``undone [images]``: where values are not proved to be the solution, after ``sweeps``.
    """
    image = tl.program_id(0).to(tl.int64)
    cell = tl.arange(0, BLOCK)
    inside = cell < height * width
    offset = image * (height * width) + cell
    x = tl.load(x_ptr + offset, mask=inside, other=-float("inf")).to(tl.float64)
    if PER_IMAGE:
        limit = tl.load(strength_ptr + image + tl.arange(0, 1))
    else:
        limit = (tl.zeros([1], tl.int64) + strength).to(tl.float64, bitcast=True)
    spoilt = tl.max(((x < float("inf")) == 0).to(tl.int32), 0, keep_dims=True)
    sound = (limit >= 0.0) & (spoilt == 0)
    there = (x > -float("inf")) & sound
    z = tl.where(there, x, 0.0)
    # A power of two, so that no sum of scores or limits is infinite.
    factor = tl.where(tl.max(tl.abs(z), 0, keep_dims=True) < 1e290, 1.0, 2.0**-128)
    z *= factor
    limit = tl.where(sound, limit, 0.0) * factor
    tied = limit > 0.0
    joined = tl.where(there & tied, z, -float("inf"))
    n0 = keep_joined(cell, joined, find_neighbour(cell, height, width, 0))
    n1 = keep_joined(cell, joined, find_neighbour(cell, height, width, 1))
    n2 = keep_joined(cell, joined, find_neighbour(cell, height, width, 2))
    n3 = keep_joined(cell, joined, find_neighbour(cell, height, width, 3))
    # A cell moves by no more than the limits of its edges. Two that are farther apart stay so: their edge is full, and
    # scores of 1e9 below the others, by which some mask, do not take away the digits of the rest.
    reach = tl.where(n0 != cell, limit, 0.0) + tl.where(n1 != cell, limit, 0.0)
    reach += tl.where(n2 != cell, limit, 0.0) + tl.where(n3 != cell, limit, 0.0) + 16.0 * EPS * tl.abs(z)
    n0, p0 = part_far(cell, z, reach, n0, limit)
    n1, p1 = part_far(cell, z, reach, n1, limit)
    n2, p2 = part_far(cell, z, reach, n2, limit)
    n3, p3 = part_far(cell, z, reach, n3, limit)
    # Measured from a cell of what is still connected, and in units of a power of two, which rounds nothing. No flow is
    # larger than all there is to be levelled, and infinite limits would not compute.
    origin = tl.gather(z, label_regions(cell, n0, n1, n2, n3), 0)
    z = (z - origin) - ((p0 + p1) + (p2 + p3))
    unit = power_of_two_below(tl.max(tl.abs(z), 0, keep_dims=True))
    limit = tl.minimum(limit / unit, 4.0 * BLOCK)
    value, proved = solve_image(z / unit, cell, height * width, n0, n1, n2, n3, limit, sweeps)
    w = tl.where(tied & there, (origin + unit * value) / factor, x)
    tl.store(w_ptr + offset, tl.where(sound, w, float("nan")), mask=inside)
    tl.store(undone_ptr + image, 1 - proved)


@triton.jit
def grid_vjp_kernel(w_ptr, g_ptr, out_ptr, strength_ptr, height, width, PER_IMAGE: tl.constexpr, BLOCK: tl.constexpr):
    """Average ``g`` over regions of equal ``w``, 0 where that is ``-inf``; images of strength 0 stay as they are."""
    image = tl.program_id(0).to(tl.int64)
    cell = tl.arange(0, BLOCK)
    inside = cell < height * width
    offset = image * (height * width) + cell
    w = tl.load(w_ptr + offset, mask=inside, other=0.0).to(tl.float64)
    g = tl.load(g_ptr + offset, mask=inside, other=0.0).to(tl.float64)
    n0 = keep_equal(cell, w, find_neighbour(cell, height, width, 0))
    n1 = keep_equal(cell, w, find_neighbour(cell, height, width, 1))
    n2 = keep_equal(cell, w, find_neighbour(cell, height, width, 2))
    n3 = keep_equal(cell, w, find_neighbour(cell, height, width, 3))
    label = label_regions(cell, n0, n1, n2, n3)
    if PER_IMAGE:
        label = tl.where(tl.load(strength_ptr + image + tl.arange(0, 1)) > 0.0, label, cell)
    mean = average(tl.where(w == -float("inf"), 0.0, g), label, height * width)
    tl.store(out_ptr + offset, mean, mask=inside)


@triton.jit
def keep_equal(cell, w, neighbour):
    """Return the neighbours of one colour with the same value."""
    return tl.where(w == tl.gather(w, neighbour, 0), neighbour, cell)
