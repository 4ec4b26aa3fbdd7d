"""One program integrates a block of functions under one compact density; see ``../plane.py`` for the formulas."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.contour.plane import Form
from omegamax.kernels.contour.triton.path import PI, find_saddle, improve, log1p, weigh

FACTOR = tl.constexpr(Form.FACTOR.value)
COVARIANCE = tl.constexpr(Form.COVARIANCE.value)
NAN = tl.constexpr(float("nan"))
LOG_2_PI = tl.constexpr(1.8378770664093454836)


@triton.jit
def factorise(first, below, last):
    """Return the lower triangle of the factor of a matrix, from that of the matrix, float64; NaN if there is none."""
    positive = first > 0.0
    first = tl.sqrt(tl.where(positive, first, 1.0))
    below = tl.where(positive, below, 0.0) / first
    rest = last - below * below
    positive = positive & (rest > 0.0)
    return first, below, tl.where(positive, tl.sqrt(tl.where(positive, rest, 1.0)), NAN)


@triton.jit
def find_axes(first, below, last):
    """Return cosine and sine of the rotation to the axes of Sigma, and its diagonal there."""
    product = first * below
    apart = product == 0.0
    ratio = (below * below + last * last - first * first) / (2.0 * tl.where(apart, 1.0, product))
    size = tl.abs(ratio)
    # hypot(ratio, 1), of which a square would overflow.
    large = size > 1.0
    share = tl.where(large, 1.0 / tl.where(large, size, 1.0), size)
    hypot = tl.sqrt(1.0 + share * share) * tl.where(large, size, 1.0)
    tangent = tl.where(ratio < 0.0, -1.0, 1.0) / (size + hypot)
    tangent = tl.where(apart, 0.0, tangent)
    cos = 1.0 / tl.sqrt(1.0 + tangent * tangent)
    sin = cos * tangent
    u, v = cos * first - sin * below, sin * last
    s, t = sin * first + cos * below, cos * last
    return cos, sin, u * u + v * v, s * s + t * t


@triton.jit
def integrate(
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
    ALPHA: tl.constexpr,
    M: tl.constexpr,
    LOG_ALPHA: tl.constexpr,
    LOG_GAMMA_SCALE: tl.constexpr,
    LOG_STRETCH: tl.constexpr,
    FORM: tl.constexpr,
    NODES: tl.constexpr,
    STEP: tl.constexpr,
):
    """Write the derivatives of functions j under a density at (x, y), all of it float64; return their values.

    ``first``, ``below`` and ``last`` are the lower triangle of the matrix that says how wide it is.
    """
    kept = j < J
    if FORM != FACTOR:
        first, below, last = factorise(first, below, last)
    stretch = 1.0 + 0.0 * first
    if FORM == COVARIANCE:
        stretch = tl.exp(LOG_STRETCH + (ALPHA - 1.0) * (tl.log(first) + tl.log(last)))
        unit_stretch = tl.sqrt(stretch)
        first, below, last = unit_stretch * first, unit_stretch * below, unit_stretch * last
    B = (LOG_ALPHA - LOG_2_PI - tl.log(first) - tl.log(last)) / ALPHA
    h = tl.exp((ALPHA - 1.0) * B) / (ALPHA - 1.0)
    cos, sin, d0, d1 = find_axes(first, below, last)
    x = tl.load(centers_ptr + 2 * j, mask=kept, other=0.0).to(tl.float64) - x
    y = tl.load(centers_ptr + 2 * j + 1, mask=kept, other=0.0).to(tl.float64) - y
    spread = tl.load(variance_ptr + j, mask=kept, other=1.0).to(tl.float64)
    x, y = cos * x - sin * y, sin * x + cos * y
    width0, width1 = 2.0 * h * d0, 2.0 * h * d1
    a0, a1, b0, b1 = spread / width0, spread / width1, x * x / width0, y * y / width1
    s0 = find_saddle(M, a0, a1, b0, b1)
    i0, i1 = 1.0 / (1.0 + 2.0 * a0 * s0), 1.0 / (1.0 + 2.0 * a1 * s0)
    g0, g1 = 1.0 - i0, 1.0 - i1
    c0, c1 = b0 * s0 * i0 * i0 * g0, b1 * s0 * i1 * i1 * g1
    # s0 / M - 1, from what the saddle point says of it: accurate also where it is next to nothing.
    lead = ((a0 + b0 * i0) * i0 + (a1 + b1 * i1) * i1) * s0 / M
    # The first derivatives of K at 0, and the beginning of zeta as a power series in the place on the path.
    p0, p1 = g0 * g0, g1 * g1
    curvature = M + 0.5 * (p0 + p1) + 2.0 * (c0 + c1)
    bend = -(2.0 * M + g0 * (p0 + 6.0 * c0) + g1 * (p1 + 6.0 * c1)) / (6.0 * curvature)
    twist = (6.0 * M + p0 * (3.0 * p0 + 24.0 * c0) + p1 * (3.0 * p1 + 24.0 * c1)) / (24.0 * curvature)
    twist -= 2.5 * bend * bend
    unit = 1.0 / tl.sqrt(curvature)

    place = 0.5 * STEP + 0.0 * unit
    near = place * unit
    z, zi = bend * near * near, near + twist * near * near * near
    for _ in tl.static_range(3):
        z, zi = improve(z, zi, 0.5 * place * place, M, g0, g1, c0, c1)
    rate, rate_i, total, one0, one1, two0, two1, cross = weigh(z, zi, place, M, g0, g1, c0, c1, i0, i1, s0)
    place = 1.5 * STEP + 0.0 * unit
    near = place * unit
    next_z, next_zi = bend * near * near, near + twist * near * near * near
    for _ in tl.static_range(3):
        next_z, next_zi = improve(next_z, next_zi, 0.5 * place * place, M, g0, g1, c0, c1)
    for _ in range(1, NODES):
        last_z, last_zi, last_rate, last_rate_i = z, zi, rate, rate_i
        z, zi = next_z, next_zi
        rate, rate_i, w, f0, f1, t0, t1, f = weigh(z, zi, place, M, g0, g1, c0, c1, i0, i1, s0)
        total, one0, one1, two0, two1, cross = total + w, one0 + f0, one1 + f1, two0 + t0, two1 + t1, cross + f
        place += STEP
        # The cubic through the last two nodes with their slopes, carried on.
        next_z = 5.0 * last_z - 4.0 * z + STEP * (4.0 * rate + 2.0 * last_rate)
        next_zi = 5.0 * last_zi - 4.0 * zi + STEP * (4.0 * rate_i + 2.0 * last_rate_i)
        next_z, next_zi = improve(next_z, next_zi, 0.5 * place * place, M, g0, g1, c0, c1)

    start = B + LOG_GAMMA_SCALE + M * (lead - log1p(lead))
    start += 0.5 * (tl.log(i0) + tl.log(i1)) - s0 * (b0 * i0 + b1 * i1)
    scale = tl.exp(start) * s0 * (STEP / PI)
    value = scale * total
    in_b0, in_b1 = -scale * one0, -scale * one1
    in_a0, in_a1 = in_b0 + 2.0 * b0 * scale * two0, in_b1 + 2.0 * b1 * scale * two1
    turn0, turn1 = a0 * in_a0 + b0 * in_b0, a1 * in_a1 + b1 * in_b1
    in_x, in_y = in_b0 * x / (h * d0), in_b1 * y / (h * d1)
    mixed = 0.5 * scale * cross * x * y / (h * d0 * d1)
    # What comes through the normaliser: h in_h is -(turn0 + turn1).
    through = (value - (ALPHA - 1.0) * (turn0 + turn1)) * (-0.5 / ALPHA)
    if FORM == COVARIANCE:
        through += 0.5 * (ALPHA - 1.0) * (2.0 * through - turn0 - turn1)
    along, across, mixed = stretch * (through - turn0) / d0, stretch * (through - turn1) / d1, stretch * mixed
    slant = 2.0 * cos * sin * mixed
    off = cos * sin * (across - along) + (cos * cos - sin * sin) * mixed
    out = out_ptr + j
    tl.store(out + J, -cos * in_x - sin * in_y, mask=kept)
    tl.store(out + 2 * J, sin * in_x - cos * in_y, mask=kept)
    tl.store(out + 3 * J, cos * cos * along + slant + sin * sin * across, mask=kept)
    tl.store(out + 4 * J, off, mask=kept)
    tl.store(out + 5 * J, off, mask=kept)
    tl.store(out + 6 * J, sin * sin * along - slant + cos * cos * across, mask=kept)
    return value


@triton.jit
def contour_in_plane_kernel(
    loc_ptr,
    matrix_ptr,
    centers_ptr,
    variance_ptr,
    out_ptr,
    J,
    blocks,
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
    """Write ``[7, J]`` for each density."""
    row = (tl.program_id(0) // blocks).to(tl.int64)
    j = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    value = integrate(
        tl.load(loc_ptr + 2 * row).to(tl.float64),
        tl.load(loc_ptr + 2 * row + 1).to(tl.float64),
        tl.load(matrix_ptr + 4 * row).to(tl.float64),
        tl.load(matrix_ptr + 4 * row + 2).to(tl.float64),
        tl.load(matrix_ptr + 4 * row + 3).to(tl.float64),
        centers_ptr,
        variance_ptr,
        out_ptr + 7 * J * row,
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
    tl.store(out_ptr + 7 * J * row + j, value, mask=j < J)
