"""The path of steepest descent, in two dimensions and float64: what a lane does for one pair of density and function.

See ``../reference.py``, the same in torch, for what these sums are. Complex numbers are pairs ``(re, im)``.
"""

from __future__ import annotations

import triton
import triton.language as tl

SADDLE_STEPS = tl.constexpr(40)
QUARTER_PI = tl.constexpr(0.78539816339744830962)
PI = tl.constexpr(3.14159265358979323846)


@triton.jit
def multiply(a, b, c, d):
    """Return ``(a + ib)(c + id)``."""
    return a * c - b * d, a * d + b * c


@triton.jit
def invert(a, b):
    """Return ``1 / (a + ib)``."""
    r = 1.0 / (a * a + b * b)
    return a * r, -b * r


@triton.jit
def log1p(y):
    """Return ``log(1 + y)``, with the digits that 1 + y has lost."""
    u = 1.0 + y
    return tl.log(u) + (y - (u - 1.0)) / u


@triton.jit
def angle(x, y):
    """Return the angle of ``x + iy`` in [0, pi], for y >= 0."""
    size = tl.abs(x)
    slanted = y > 0.41421356237309505 * size
    upright = y > 2.4142135623730950 * size
    # atan(y / size) is that of the other quotient less pi / 4, or of the inverse less pi / 2: always within pi / 8.
    v = tl.where(upright, -size, tl.where(slanted, y - size, y))
    v = v / tl.where(upright, y, tl.where(slanted, y + size, size))
    q = v * v
    # atan(u) / u as a polynomial in u^2: 1e-18.
    s = -0.01780539720541944523 * q + 0.03796525745386593624
    s = s * q - 0.05035102456601551843
    s = s * q + 0.0584687829733087252
    s = s * q - 0.06662951813629190088
    s = s * q + 0.07692045330902224952
    s = s * q - 0.09090896809064027076
    s = s * q + 0.1111111074491965824
    s = s * q - 0.1428571427925024494
    s = s * q + 0.1999999999994089146
    s = s * q - 0.3333333333333312116
    s = s * q + 0.9999999999999999987
    zero = 0.0 * v
    full = v * s + tl.where(slanted, zero + QUARTER_PI, zero) + tl.where(upright, zero + QUARTER_PI, zero)
    return tl.where(x < 0.0, PI - full, full)


@triton.jit
def log_one_plus(a, b):
    """Return ``log(1 + z)`` for ``z = a + ib`` in the upper half-plane."""
    return 0.5 * log1p(a * (2.0 + a) + b * b), angle(1.0 + a, b)


@triton.jit
def lower_bound(linear, square, M):
    """Return the positive root of ``square s^2 - linear s - M``."""
    root = tl.sqrt(linear * linear + 4.0 * square * M)
    # Each quotient where it does not cancel, and a harmless one elsewhere.
    ahead = linear > 0.0
    return tl.where(ahead, (linear + root) / (2.0 * square), 2.0 * M / tl.where(ahead, 1.0, root - linear))


@triton.jit
def find_saddle(M, a0, a1, b0, b1):
    """Find where the exponent is least on the positive axis: Newton's method from the left."""
    linear0, linear1 = a0 + b0, a1 + b1
    square0, square1 = (2.0 * a0 + 4.0 * b0) * a0, (2.0 * a1 + 4.0 * b1) * a1
    s = tl.maximum(0.0 * a0 + M, tl.maximum((tl.sqrt(b0) - 1.0) / (2.0 * a0), (tl.sqrt(b1) - 1.0) / (2.0 * a1)))
    s = tl.maximum(s, tl.maximum(lower_bound(linear0 - 1.0, square0, M), lower_bound(linear1 - 1.0, square1, M)))
    s = tl.maximum(s, lower_bound(linear0 + linear1 - 1.0, square0 + square1, M))
    step = 0
    moving = True
    while moving:
        r, w0, w1 = 1.0 / s, 1.0 / (1.0 + 2.0 * a0 * s), 1.0 / (1.0 + 2.0 * a1 * s)
        slope = 1.0 - M * r - (a0 + b0 * w0) * w0 - (a1 + b1 * w1) * w1
        curve = (2.0 * a0 + 4.0 * b0 * w0) * (a0 * w0 * w0) + (2.0 * a1 + 4.0 * b1 * w1) * (a1 * w1 * w1)
        move = slope / (M * r * r + curve)
        s -= move
        step += 1
        # The next one would be 1e-16. No comparison with NaN holds, so that a row with one ends at once.
        moving = (tl.max((tl.abs(move) > 1e-8 * s).to(tl.int32), 0) > 0) & (step < SADDLE_STEPS)
    return s


@triton.jit
def slope_at(z, y, M, g0, g1, c0, c1):
    """Return ``K' / zeta`` at ``zeta = z + iy``, and the inverses of ``1 + g_i zeta``; c are the gammas."""
    r, ri = invert(1.0 + z, y)
    p, pi = invert(1.0 + g0 * z, g0 * y)
    q, qi = invert(1.0 + g1 * z, g1 * y)
    pp, ppi = multiply(p, pi, p, pi)
    qq, qqi = multiply(q, qi, q, qi)
    half0, half1 = 0.5 * g0 * g0 + c0, 0.5 * g1 * g1 + c1
    slope = M * r + half0 * p + c0 * pp + half1 * q + c1 * qq
    slope_i = M * ri + half0 * pi + c0 * ppi + half1 * qi + c1 * qqi
    return slope, slope_i, r, ri, p, pi, pp, ppi, q, qi, qq, qqi


@triton.jit
def improve(z, y, target, M, g0, g1, c0, c1):
    """Take a step of Halley's method towards ``K(zeta) = -target``."""
    slope, slope_i, r, ri, p, pi, pp, ppi, q, qi, qq, qqi = slope_at(z, y, M, g0, g1, c0, c1)
    slope, slope_i = multiply(slope, slope_i, z, y)
    log_z, log_zi = log_one_plus(z, y)
    log_p, log_pi = log_one_plus(g0 * z, g0 * y)
    log_q, log_qi = log_one_plus(g1 * z, g1 * y)
    square, square_i = multiply(z, y, z, y)
    bend0, bend0_i = multiply(square, square_i, p, pi)
    bend1, bend1_i = multiply(square, square_i, q, qi)
    k = target + M * (z - log_z) + 0.5 * (g0 * z - log_p) + c0 * bend0 + 0.5 * (g1 * z - log_q) + c1 * bend1
    k_i = M * (y - log_zi) + 0.5 * (g0 * y - log_pi) + c0 * bend0_i + 0.5 * (g1 * y - log_qi) + c1 * bend1_i
    rr, rri = multiply(r, ri, r, ri)
    ppp, pppi = multiply(pp, ppi, p, pi)
    qqq, qqqi = multiply(qq, qqi, q, qi)
    curve = M * rr + 0.5 * g0 * g0 * pp + 2.0 * c0 * ppp + 0.5 * g1 * g1 * qq + 2.0 * c1 * qqq
    curve_i = M * rri + 0.5 * g0 * g0 * ppi + 2.0 * c0 * pppi + 0.5 * g1 * g1 * qqi + 2.0 * c1 * qqqi
    below, below_i = multiply(slope, slope_i, slope, slope_i)
    bent, bent_i = multiply(k, k_i, curve, curve_i)
    below, below_i = invert(2.0 * below - bent, 2.0 * below_i - bent_i)
    move, move_i = multiply(k, k_i, slope, slope_i)
    move, move_i = multiply(move, move_i, below, below_i)
    return z - 2.0 * move, y - 2.0 * move_i


@triton.jit
def weigh(z, y, x, M, g0, g1, c0, c1, i0, i1, s0):
    """Return ``dzeta / dx`` at a node, and the imaginary parts of what it adds to the sums; i are ``1 / w_i`` at s0.

    With ``weight = exp(-x^2 / 2) dzeta / dx`` and ``r_i = 1 / (1 + 2 a_i s)``: of weight, ``weight s r_i``,
    ``weight (s r_i)^2`` and ``weight s r_0 r_1``.
    """
    slope, slope_i, _, _, p, pi, _, _, q, qi, _, _ = slope_at(z, y, M, g0, g1, c0, c1)
    rate, rate_i = multiply(slope, slope_i, z, y)
    rate, rate_i = invert(rate, rate_i)
    rate, rate_i = -x * rate, -x * rate_i
    p, pi, q, qi = i0 * p, i0 * pi, i1 * q, i1 * qi
    bell = tl.exp(-0.5 * x * x)
    w, wi = bell * rate, bell * rate_i
    s, si = s0 * (1.0 + z), s0 * y
    ws, wsi = multiply(w, wi, s, si)
    one0, one0_i = multiply(ws, wsi, p, pi)
    one1, one1_i = multiply(ws, wsi, q, qi)
    sp, spi = multiply(s, si, p, pi)
    sq, sqi = multiply(s, si, q, qi)
    _, two0_i = multiply(one0, one0_i, sp, spi)
    _, two1_i = multiply(one1, one1_i, sq, sqi)
    _, cross_i = multiply(one0, one0_i, q, qi)
    return rate, rate_i, wi, one0_i, one1_i, two0_i, two1_i, cross_i
