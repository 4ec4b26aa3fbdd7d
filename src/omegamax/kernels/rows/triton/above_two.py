"""Entmax with alpha > 2, beyond sparsemax: its probabilities have an infinite slope at the edge of the support.

With ``e = alpha - 1 > 1`` the map is ``p = [e (x - t)]_+^(1/e)``. A threshold alone is of no use, because the smallest
probability is a root of its distance to it, and rounding the distance changes all its digits. So the support is found
first, then its smallest probability ``y``; the others follow from their exact distances to the last score of the
support: ``p = (y^e + e (x - last))^(1/e)``.

The support is small: no score below ``-1/e`` is in it. Of a folded tile (see :mod:`omegamax.kernels.triton.device`) the
two largest entries along ``C`` are looked at first. Their threshold is a lower bound of that of all entries, so that
they hold the whole support where no other entry is above it; only where one is, all entries are looked at.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.device import (
    INF,
    MAX_STEPS,
    any_row,
    exp2_flush,
    folded_tile_indices,
    load_tile,
    log2_approx,
    log2_flush,
    positive_power,
    reciprocal_approx,
    row_max,
    row_sum,
    row_sum2,
    store_tile,
)

MAX_SECANTS = tl.constexpr(16)  # steps of a search by secants, which need 2 to 12, before intervals are halved


# The search for the support. A threshold at which the mass is at least 1 shows that the scores up to it are out of the
# support, one at which it is less that the scores from there on are in it; the search ends when no score is left
# between the two. Terms of the mass are no products, which could be fused with the additions of their sum: all lanes
# find the same.


@triton.jit
def finite_exponents(a):
    """Return ``e = alpha - 1``, ``1/e`` and a threshold below that of every row; for infinite ``e`` 2 instead."""
    infinite = a == INF
    e = tl.where(infinite, 2.0, a - 1.0)
    q = 1.0 / e
    return e, q, tl.where(infinite, -1e-45, -1.0001 * q)


@triton.jit
def support_terms(x, t, ceiling, e, q):
    """Return the masses ``[e (x - t)]_+^q``, and the scores above ``t`` and below ``ceiling``, others infinite."""
    mass = exp2_flush(q * log2_flush(tl.maximum(e * (x - t), 0.0)))
    return mass, tl.where(x > t, x, INF), tl.where(x < ceiling, x, -INF)


@triton.jit
def add_min_max(a0, a1, a2, b0, b1, b2):
    """Combine sums, minima and maxima."""
    return a0 + b0, tl.minimum(a1, b1), tl.maximum(a2, b2)


@triton.jit
def reduce_support(mass, above, below):
    """Return for each row the sum of masses, the least score above and the largest below, by one reduction."""
    if len(mass.shape) == 3:
        mass, above, below = tl.reduce((mass, above, below), 1, add_min_max, keep_dims=True)
        return tl.reduce((mass, above, below), 2, add_min_max, keep_dims=True)
    else:
        return tl.reduce((mass, above, below), 1, add_min_max, keep_dims=True)


@triton.jit
def support_of_tile(x, t, ceiling, e, q):
    """Return the mass of each row at ``t``, its least score above that, and its largest below ``ceiling``."""
    mass, above, below = support_terms(x, t, ceiling, e, q)
    return reduce_support(mass, above, below)


@triton.jit
def first_bracket(mass, size, e, q, out):
    """Return the bracket of the threshold: magnitudes and log2 of the mass at both ends, and which end moved last.

    At ``out`` the mass is given. The threshold of ``size`` equal scores, at which one of them has ``1 / size``, is the
    other end.
    """
    log_size = tl.log2(1.0 * size)
    near = tl.maximum(0.999 * q * tl.exp2(-e * log_size), 1e-37)
    return -out, tl.maximum(log2_flush(mass), 0.0), near, 0.0 * e - log_size, 0.0 * e


@triton.jit
def secant_threshold(far, log_far, near, log_near, steps):
    """Return the threshold where the mass is 1, taking it for a power of the threshold's magnitude in the bracket.

    After many steps it is the middle of the bracket.
    """
    secant = (log_near < log_far) & (steps < MAX_SECANTS)
    fraction = tl.where(secant, log_near * reciprocal_approx(log_near - log_far), 0.5)
    return -near * tl.exp2(fraction * log2_flush(far * reciprocal_approx(near)))


@triton.jit
def narrow_bracket(t, mass, above, below, least, most, far, log_far, near, log_near, moved):
    """Return ``least``, ``most`` and the bracket after the mass at ``t``.

    ``least`` and ``most`` are the scores between which others are undecided: none is when ``least > most``, and then
    ``least`` is the last of the support. The log2 of an end that stays twice is halved, so that it moves (Illinois).
    """
    undecided = least <= most
    heavy = undecided & (mass >= 1.0)
    light = undecided & (mass < 1.0)
    log_mass = log2_flush(tl.maximum(mass, 1e-37))
    log_near = tl.where(light, log_mass, tl.where(heavy & (moved > 0.0), 0.5 * log_near, log_near))
    log_far = tl.where(heavy, log_mass, tl.where(light & (moved < 0.0), 0.5 * log_far, log_far))
    far = tl.where(heavy, -t, far)
    near = tl.where(light, -t, near)
    moved = tl.where(heavy, 1.0, tl.where(light, -1.0, moved))
    return tl.where(heavy, above, least), tl.where(light, below, most), far, log_far, near, log_near, moved


@triton.jit
def find_support(x, e, q, out):
    """Return the last score of the support of a tile, a threshold at which the mass is at least 1, and an estimate.

    ``out`` is such a threshold to begin with. The last score of an empty row is 0.
    """
    size: tl.constexpr = x.shape[1] * x.shape[2] if len(x.shape) == 3 else x.shape[1]
    mass, least, most = support_of_tile(x, out, 0.0, e, q)
    far, log_far, near, log_near, moved = first_bracket(mass, size, e, q, out)
    steps = 0
    go = any_row(least <= most, x)
    while go:
        t = secant_threshold(far, log_far, near, log_near, steps)
        t = tl.minimum(tl.maximum(t, least), most)
        mass, above, below = support_of_tile(x, t, t, e, q)
        least, most, far, log_far, near, log_near, moved = narrow_bracket(
            t, mass, above, below, least, most, far, log_far, near, log_near, moved
        )
        steps += 1
        go = any_row(least <= most, x) & (steps < MAX_STEPS)
    return tl.where(least < INF, least, 0.0), -far, secant_threshold(far, log_far, near, log_near, 0)


# The smallest probability. The mass is convex and increasing in it: Newton's steps but the first come from above.


@triton.jit
def smallest_terms(x, last, y, e, q, EXACT: tl.constexpr):
    """Return ``p = (y^e + e (x - last))^q`` of the scores from ``last`` on, and its derivative in ``y``.

    At ``last`` it is ``y`` itself. Where not ``EXACT`` the logarithm is the hardware's, off by 1e-7 around 1.
    """
    log_y = tl.log2(y)
    base = tl.exp2(e * log_y) + tl.maximum(e * (x - last), 0.0)
    log_p = q * (tl.log2(base) if EXACT else log2_flush(base))
    p = tl.where(x > last, exp2_flush(log_p), y)
    slope = tl.where(x > last, exp2_flush((e - 1.0) * tl.minimum(log_y - log_p, 0.0)), 1.0)
    return tl.where(x >= last, p, 0.0), tl.where(x >= last, slope, 0.0)


@triton.jit
def smallest_step(mass, rise, y, steps):
    """Return Newton's step down from ``y``, and which rows need another one after it."""
    step = tl.minimum((mass - 1.0) / tl.maximum(rise, 1.0), y)
    over = (mass - 1.0 > 4e-7) & (y - step < y)
    return step, over | ((steps == 0) & (mass - 1.0 < -4e-7))


@triton.jit
def solve_smallest(x, last, t, e, q):
    """Return the smallest probability of a tile, given the last score of the support and roughly the threshold.

    Returns also those of all entries, to first order in the last step: it changes the smallest ones most, normalising
    would change the largest.
    """
    y = tl.minimum(positive_power(e * (last - t), q), 1.0)
    steps = 0
    go = True
    while go:
        p, slope = smallest_terms(x, last, y, e, q, False)
        mass, rise = row_sum2(p, slope)
        step, moving = smallest_step(mass, rise, y, steps)
        y = tl.where(moving, y - step, y)
        steps += 1
        go = any_row(moving, x) & (steps < MAX_STEPS)
    p, slope = smallest_terms(x, last, y, e, q, True)
    mass, rise = row_sum2(p, slope)
    step, _ = smallest_step(mass, rise, y, steps)
    return y - step, tl.maximum(p - slope * step, 0.0)


# Rows in registers


@triton.jit
def two_largest(a0, a1, b0, b1):
    """Combine the two largest of two sets."""
    return tl.maximum(a0, b0), tl.maximum(tl.minimum(a0, b0), tl.maximum(a1, b1))


@triton.jit
def above_two_probabilities(x, top, a):
    """Return ``p`` of a folded tile of scores measured from their maxima ``top``; NaN where those are not finite."""
    e, q, out = finite_exponents(a)
    if x.shape[1] > 2:
        first, second = tl.reduce((x, tl.full(x.shape, -INF, tl.float32)), 1, two_largest, keep_dims=True)
        both = tl.permute(tl.join(first, second), (0, 3, 1, 2))
        both = tl.reshape(both, [x.shape[0], 2, x.shape[2]])
        last, out, t = find_support(both, e, q, out)
        missed = row_sum((x > out).to(tl.int32)) - row_sum((both > out).to(tl.int32))
        if any_row(missed > 0, x):
            last, _, t = find_support(x, e, q, out)
            _, p = solve_smallest(x, last, t, e, q)
        else:
            _, p_both = solve_smallest(both, last, t, e, q)
            p_first, p_second = tl.max(p_both, 1, keep_dims=True), tl.min(p_both, 1, keep_dims=True)
            p = tl.where(x == first, p_first, tl.where(x == second, p_second, 0.0))
    else:
        last, _, t = find_support(x, e, q, out)
        _, p = solve_smallest(x, last, t, e, q)
    return tl.where(top < INF, p, float("nan"))


@triton.jit(do_not_specialize=["rows"])
def entmax_above_two_kernel(
    z_ptr,
    p_ptr,
    alpha,
    rows,
    K,
    z_stride,
    UNMASKED: tl.constexpr,
    R: tl.constexpr,
    C: tl.constexpr,
    L: tl.constexpr,
):
    """Compute probabilities ``p [rows, K]`` of scores ``z``, of rows that fit into a folded tile."""
    row, column, mask = folded_tile_indices(rows, K, R, C, L)
    x = load_tile(z_ptr + row * z_stride, column, mask, -INF, UNMASKED)
    top = row_max(x)
    x -= tl.where(top == -INF, 0.0, top)
    p = above_two_probabilities(x, top, tl.full([R, 1, 1], 0.0, tl.float32) + alpha)
    store_tile(p_ptr + row * K, column, mask, p, UNMASKED)


# The gradient


@triton.jit
def take_larger(a0, a1, a2, b0, b1, b2):
    """Combine entries of a value, an index and something else: that of the larger value, of equal ones the first."""
    first = (a0 > b0) | ((a0 == b0) & (a1 < b1))
    return tl.where(first, a0, b0), tl.where(first, a1, b1), tl.where(first, a2, b2)


@triton.jit
def above_two_vjp(p, g, a):
    """Return ``J g`` at ``p``, where ``s = p^(2 - alpha)`` of small probabilities may overflow.

    ``J`` annihilates constants: with ``g`` measured from the entry of the largest ``s``, that entry's own product is
    what the others leave, and no difference of large numbers is taken.
    """
    on = (p > 0.0) & (a < INF)
    log_s = tl.where(on, (2.0 - a) * log2_approx(tl.where(on, p, 1.0)), -INF)
    column = tl.broadcast_to(tl.arange(0, p.shape[1])[None, :], p.shape)
    most, anchor, g_anchor = tl.reduce((log_s, column, g), 1, take_larger, keep_dims=True)
    weight = exp2_flush(log_s - tl.where(most > -INF, most, 0.0))
    sh = tl.where(on & (column != anchor), exp2_flush(log_s) * (g - g_anchor), 0.0)
    total, moved = row_sum2(weight, sh)
    return sh - weight / tl.where(total > 0.0, total, 1.0) * moved
