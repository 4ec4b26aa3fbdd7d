"""One component, ``[K]`` of them at once: moments, their floor, what makes its scores, and all three ways back.

As ``../cpp/component.h``, with six tensors in place of an array: a weight (or mass), two coordinates of the mean (or
two sums) and the lower triangle of a covariance (or the sums of products). On a line (``N`` = 1) those of the second
axis are there and mean nothing.
"""

from __future__ import annotations

import triton
import triton.language as tl

HALF_LOG_2_PI = tl.constexpr(0.91893853320467274178)
NEVER = tl.constexpr(-1e30)  # the logarithm of no weight: unlike -inf it may be multiplied by 0
LEAST_MASS = tl.constexpr(4.930380657631324e-32)  # the square of the rounding error
EPS = tl.constexpr(2.220446049250313e-16)


@triton.jit
def score(weight, a, b, c, spread_u, spread_v, N: tl.constexpr):
    """Return what :func:`score_points` of ``em`` needs: a constant, a factor, and in the plane a ratio and a factor."""
    log_weight = tl.where(weight > 0.0, tl.log(tl.where(weight > 0.0, weight, 1.0)), NEVER)
    first = -0.5 / a
    constant = log_weight - N * HALF_LOG_2_PI - 0.5 * tl.log(a) + first * spread_u
    if N == 1:
        return constant, first, b, c
    ratio = b / a
    pivot = c - ratio * b
    second = -0.5 / pivot
    constant += second * (ratio * ratio * spread_u + spread_v) - 0.5 * tl.log(pivot)
    return constant, first, ratio, second


@triton.jit
def score_vjp(weight, a, b, c, spread_u, spread_v, s0, s1, s2, s3, s4, s5, N: tl.constexpr):
    """Return the gradient by a component from that by the scores of all points, summed about its mean."""
    by_weight = tl.where(weight > 0.0, s0 / tl.where(weight > 0.0, weight, 1.0), 0.0)
    square = s3 + s0 * spread_u
    by_u, by_a = s1 / a, 0.5 / a * (square / a - s0)
    if N == 1:
        return by_weight, by_u, s2, by_a, s4, s5
    ratio = b / a
    low = 1.0 / (c - ratio * b)
    by_ratio = low * (s4 - ratio * square) / a
    across = ratio * (ratio * square - 2.0 * s4) + s5 + s0 * spread_v
    by_pivot = 0.5 * low * (low * across - s0)
    by_v = low * (s2 - ratio * s1)
    by_a += ratio * (ratio * by_pivot - by_ratio)
    return by_weight, by_u - ratio * by_v, by_v, by_a, by_ratio - 2.0 * ratio * by_pivot, by_pivot


@triton.jit
def moments(s0, s1, s2, s3, s4, s5, u, v, spread_u, spread_v):
    """Return mean and covariance of points with these sums about ``u, v``; of no mass they mean nothing."""
    mass = tl.where(s0 > 0.0, s0, 1.0)
    du, dv = s1 / mass, s2 / mass
    return u + du, v + dv, s3 / mass - du * du + spread_u, s4 / mass - du * dv, s5 / mass - dv * dv + spread_v


@triton.jit
def moments_vjp(mass, a, b, c, spread_u, spread_v, g0, g1, g2, g3, g4, g5):
    """Return what the gradient by the moments says of the weight of a point: coefficients of 1, d and d d'."""
    safe = tl.where(mass > 0.0, mass, 1.0)
    g3, g4, g5 = g3 / safe, g4 / safe, g5 / safe
    constant = g0 - (g3 * (a - spread_u) + g4 * b + g5 * (c - spread_v))
    return constant, g1 / safe, g2 / safe, g3, g4, g5


@triton.jit
def axes(a, b, c):
    """Return what the eigenvalues are made of: middle, half the difference, radius, and whether they differ."""
    mid, half = 0.5 * (a + c), 0.5 * (a - c)
    square = half * half + b * b
    oblong = square > (EPS * mid) * (EPS * mid)  # a circle has no axes, and no gradient of them
    return mid, half, tl.sqrt(tl.where(oblong, square, 1.0)), oblong


@triton.jit
def hold(a, b, c, floor, N: tl.constexpr):
    """Return the covariance with no variance below the floor."""
    if N == 1:
        return tl.maximum(a, floor), b, c
    mid, half, root, oblong = axes(a, b, c)
    radius = tl.where(oblong, root, 0.0)
    high = mid + radius
    thin = mid - radius < floor
    dot = thin & ~((high > floor) & oblong)
    ratio, middle = (high - floor) / (2.0 * root), 0.5 * (high + floor)
    held_a = tl.where(dot, floor, middle + ratio * half)
    held_b = tl.where(dot, 0.0, ratio * b)
    held_c = tl.where(dot, floor, middle - ratio * half)
    return tl.where(thin, held_a, a), tl.where(thin, held_b, b), tl.where(thin, held_c, c)


@triton.jit
def hold_vjp(a, b, c, floor, g3, g4, g5, N: tl.constexpr):
    """Return the gradient by a covariance from that by what was held at the floor."""
    if N == 1:
        return g3 * tl.where(a > floor, 1.0, tl.where(a == floor, 0.5, 0.0)), g4, g5
    mid, half, root, oblong = axes(a, b, c)
    radius = tl.where(oblong, root, 0.0)
    high = mid + radius
    thin = mid - radius < floor
    dot = thin & ~((high > floor) & oblong)
    ratio = (high - floor) / (2.0 * root)
    apart = g3 - g5
    by_ratio = apart * half + g4 * b
    by_high = 0.5 * (g3 + g5) + by_ratio / (2.0 * root)
    by_radius = by_high - by_ratio * ratio / root
    by_half = ratio * apart + by_radius * half / root
    by_b = ratio * g4 + by_radius * b / root
    held_a, held_c = 0.5 * (by_high + by_half), 0.5 * (by_high - by_half)
    by_a = tl.where(thin, tl.where(dot, 0.0, held_a), g3)
    by_c = tl.where(thin, tl.where(dot, 0.0, held_c), g5)
    return by_a, tl.where(thin, tl.where(dot, 0.0, by_b), g4), by_c
