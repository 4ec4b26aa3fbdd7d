"""Entmax of any alpha from 1 to 2, known at run time and possibly different in each row.

With ``e = alpha - 1`` the map is ``p = [1 + e (z - t)]_+^(1/e)``, whose limit at ``e = 0`` is ``exp(z - t)``. Rows that
fit into registers are folded tiles, solved in the same order as in ``power``: first the maxima along ``C``, then all
entries, in one to three more steps. A long row is read once for each of a few steps; the maxima of ``BLOCK`` groups,
kept during the first pass, take the part of those along ``C``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.device import (
    MAX_STEPS,
    OVERSHOT,
    any_row,
    exp2_flush,
    folded_tile_indices,
    load_blocks,
    load_tile,
    log2_flush,
    max_or_nan,
    reciprocal_approx,
    row_max,
    row_sum2,
    row_sum3,
    store_tile,
)

MIN_E = tl.constexpr(1e-20)  # the e of softmax: so small that 1 + e (z - t) to the power 1/e is exp to the last digit
NEAR = tl.constexpr(0.05)  # distance of the mass from 1 within which steps no longer overshoot


@triton.jit
def exponent_base(x, c, e):
    """Return ``b = [1 + e (x - t)]_+``, which is ``p^e``, given ``c = 1 - e t``.

    In a long row ``c`` is near 0, and so is ``b``, which must not lose the digits of ``x``.
    """
    return tl.maximum(x * e + c, 0.0)


@triton.jit
def any_alpha_terms(x, t, c, e):
    """Return ``p = b^(1/e)`` and ``p^(2 - alpha) = b^(1/e - 1)``, both 0 at 0, given ``c = 1 - e t``.

    The hardware's logarithm is off by 1e-7 around 1, which ``1/e`` makes large: there ``log2(1 + y)`` is ``y`` times a
    polynomial, exact to the last digit.
    """
    y = x * e - e * t  # rounded once, but for e t, whose rounding all entries share
    b = exponent_base(x, c, e)
    near = 0.480210643 + y * (-0.371925961 + y * (0.207625517 - y * 0.490224277))
    near = 1.44269499 + y * (-0.721362672 + y * near)
    # The exponent is above 0 also for sparsemax, so that 0 stays 0.
    r = exp2_flush(tl.maximum((1.0 - e) / e, 1e-30) * tl.where(y > -0.25, y * near, log2_flush(b)))
    return r * b, r


@triton.jit
def scaled_decrease(log2_s, e):
    """Return ``(1 - s^-e) / e``, given ``log2 s``, to nearly all digits."""
    y = 0.6931472 * log2_s
    u = e * y
    near = y * (1.0 - u * (0.5 - u * (0.16666667 - u * (0.041666667 - u * 0.0083333333))))
    return tl.where(tl.abs(u) < 0.25, near, (1.0 - exp2_flush(-e * log2_s)) * reciprocal_approx(e))


@triton.jit
def any_alpha_step(s, r, curvature, e):
    """Return Halley's step on ``(s^e - 1) / e`` from sums of terms; Newton's where ``curvature = s u / r^2 - 1`` is 0.

    It is good to about 1e-7; for the last step see :func:`any_alpha_last_step`.
    """
    decrease = scaled_decrease(log2_flush(tl.maximum(s, 1e-30)), e)
    halley = tl.maximum(1.0 - 0.5 * (1.0 - e) * decrease * curvature, 0.5)
    return s * decrease * reciprocal_approx(tl.maximum(r * halley, 1e-30))


@triton.jit
def any_alpha_last_step(s, r, curvature, e):
    """Return the last step, exact: it makes the mass 1 to second order."""
    over = tl.where(s > 0.0, s - 1.0, 0.0)
    newton = over * reciprocal_approx(tl.maximum(r, 1e-30))
    return newton * (1.0 + 0.5 * (1.0 - e) * (1.0 + curvature) * over * reciprocal_approx(s + 1e-30))


@triton.jit
def any_alpha_ties(e, size):
    """Return a number slightly above the threshold of ``size`` equal scores, which no row exceeds."""
    return 1.001 * scaled_decrease(tl.log2(1.0 * size) + 0.0 * e, e) + 1e-6


@triton.jit
def any_alpha_tolerance(e):
    """Return how near to 1 a mass is for the last step, which drops entries of up to its size to the power 1/e."""
    return tl.minimum(tl.maximum(tl.exp2(-23.0 * e), 4e-7), 1e-3)


@triton.jit
def any_alpha_unsettled(s, step, t, tolerance):
    """Return which rows need another step: not those whose step is lost in the rounding of ``t``, nor empty ones."""
    return (tl.abs(s - 1.0) > tolerance) & (tl.abs(step) > 2.4e-7 * (1.0 + t)) & (s > 0.0)


@triton.jit
def same_in_all_lanes(t, x):
    """Return ``t [R, 1, 1]`` equal in all lanes of a row of the tile ``x``, whose sums may differ in the last bit.

    They do not in a wide tile of one row, see :func:`any_row`.
    """
    if x.shape[0] > 1 or x.shape[2] < 128:
        return tl.max(tl.broadcast_to(t, [x.shape[0], 1, x.shape[2]]), 2, keep_dims=True)
    return t


@triton.jit
def solve_any_alpha_threshold(x, e, highest):
    """Return an approximate threshold of a tile and the curvature there, starting where the maximum has all mass."""
    t = tl.zeros_like(e)
    curvature = tl.zeros_like(e)
    overshot = tl.where(e > 0.5, 1.0, 0.0)  # there the smallest entries dominate u, which is not used
    steps = 0
    go = True
    while go:
        c = 1.0 - e * t
        p, r = any_alpha_terms(x, t, c, e)
        s, slope, u = row_sum3(p, r, r * reciprocal_approx(tl.maximum(exponent_base(x, c, e), 1e-30)))
        overshot = tl.where(s < OVERSHOT, 1.0, overshot)
        positive = (slope > 0.0) & (overshot == 0.0)
        curvature = tl.where(positive, s * u * reciprocal_approx(slope * slope + 1e-30) - 1.0, 0.0)
        step = any_alpha_step(s, slope, curvature, e)
        # Up to alpha = 1.5 the entries that are left out here change the mass by more than this.
        moving = any_alpha_unsettled(s, step, t, tl.where(e < 0.5, 0.1, 0.01))
        t = same_in_all_lanes(tl.minimum(tl.maximum(t + step, 0.0), highest), x)
        steps += 1
        go = any_row(moving, x) & (steps < MAX_STEPS)
    return t, curvature


@triton.jit
def any_alpha_probabilities(x, top, e):
    """Return ``p`` of a folded tile of scores measured from their maxima ``top``, for ``e [R, 1, 1]`` up to 1."""
    highest = any_alpha_ties(e, x.shape[1] * x.shape[2])
    t, curvature = solve_any_alpha_threshold(tl.max(x, 1, keep_dims=True), e, highest)
    tolerance = any_alpha_tolerance(e)
    r = tl.zeros_like(x)
    last = tl.zeros_like(e)
    steps = 0
    go = True
    while go:
        p, r = any_alpha_terms(x, t, 1.0 - e * t, e)
        s, slope = row_sum2(p, r)
        curvature = tl.where(s < OVERSHOT, 0.0, curvature)
        step = any_alpha_step(s, slope, curvature, e)
        last = any_alpha_last_step(s, slope, curvature, e)
        moving = any_alpha_unsettled(s, step, t, tolerance)
        t = same_in_all_lanes(tl.where(moving, tl.minimum(tl.maximum(t + step, 0.0), highest), t), x)
        steps += 1
        go = any_row(moving, x) & (steps < MAX_STEPS)
    return apply_last_step(x, top, r, 1.0 - e * t, last, e)


@triton.jit
def apply_last_step(x, top, r, c, step, e):
    """Return ``p`` at ``t + step`` to second order, given ``c = 1 - e t``; NaN where the maximum is not finite.

    That is ``b^(1/e - 1) (b - step + (1 - e) step^2 / 2b)``, in which a ``b`` below ``e step`` would be dropped.
    """
    b = exponent_base(x, c, e)
    inverse = reciprocal_approx(tl.maximum(b, e * tl.abs(step) + 1e-30))
    step = tl.where(top < float("inf"), step, float("nan"))
    change = b - step + (0.5 * (1.0 - e) * step * step) * inverse
    return r * tl.maximum(change, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit(do_not_specialize=["rows"])
def entmax_any_alpha_kernel(
    z_ptr,
    p_ptr,
    alpha_ptr,
    alpha,
    rows,
    K,
    z_stride,
    PER_ROW: tl.constexpr,
    UNMASKED: tl.constexpr,
    R: tl.constexpr,
    C: tl.constexpr,
    L: tl.constexpr,
):
    """Compute probabilities ``p [rows, K]`` of the rows whose alpha is from 1 to 2; others are not written."""
    row, column, mask = folded_tile_indices(rows, K, R, C, L)
    if PER_ROW:
        a = tl.load(alpha_ptr + row, mask=row < rows, other=2.0)
    else:
        a = tl.full([R, 1, 1], 0.0, tl.float32) + alpha
    inside = (a >= 1.0) & (a <= 2.0)
    if tl.max(inside.to(tl.int32)) > 0:
        x = load_tile(z_ptr + row * z_stride, column, mask, float("-inf"), UNMASKED)
        top = row_max(x)
        x -= tl.where(top == float("-inf"), 0.0, top)
        p = any_alpha_probabilities(x, top, tl.where(inside, tl.maximum(a - 1.0, MIN_E), 1.0))
        if UNMASKED and R == 1:
            tl.store(p_ptr + row * K + column, p)
        else:
            tl.store(p_ptr + row * K + column, p, mask=mask & inside)


@triton.jit(do_not_specialize=["rows"])
def entmax_any_alpha_long_kernel(
    z_ptr,
    p_ptr,
    alpha_ptr,
    alpha,
    rows,
    K,
    z_stride,
    PER_ROW: tl.constexpr,
    UNMASKED: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute probabilities of the long rows whose alpha is from 1 to 2, one row for each program.

    ``DEPTH`` blocks are loaded at a time during the first pass; ``UNMASKED``: ``K`` is a multiple of them.
    """
    row = tl.program_id(0).to(tl.int64)
    if PER_ROW:
        a = tl.load(alpha_ptr + row + tl.zeros([1, 1, 1], tl.int64))
    else:
        a = tl.zeros([1, 1, 1], tl.float32) + alpha
    if tl.max(((a >= 1.0) & (a <= 2.0)).to(tl.int32)) > 0:
        z_ptr += row * z_stride
        p_ptr += row * K
        solve_any_alpha_long(z_ptr, p_ptr, tl.maximum(a - 1.0, MIN_E), K, UNMASKED, DEPTH, BLOCK)


@triton.jit
def load_shifted_block(z_ptr, start, K, shift, UNMASKED: tl.constexpr, BLOCK: tl.constexpr):
    """Load a block of a row measured from its maximum, and return it with its column indices."""
    x, column = load_blocks(z_ptr, start, K, UNMASKED, 1, BLOCK)
    return x - shift, column


@triton.jit
def solve_any_alpha_long(z_ptr, p_ptr, e, K, UNMASKED: tl.constexpr, DEPTH: tl.constexpr, BLOCK: tl.constexpr):
    """Solve the row at ``z_ptr``, with ``e = alpha - 1`` up to 1."""
    maxima = tl.full([1, 1, BLOCK], float("-inf"), tl.float32)
    for start in range(0, K, DEPTH * BLOCK):
        x, _ = load_blocks(z_ptr, start, K, UNMASKED, DEPTH, BLOCK)
        maxima = max_or_nan(maxima, tl.reduce(x, 1, max_or_nan, keep_dims=True))
    top = row_max(maxima)
    shift = tl.where(top == float("-inf"), 0.0, top)
    highest = any_alpha_ties(e, K)
    t, curvature = solve_any_alpha_threshold(maxima - shift, e, highest)
    tolerance = any_alpha_tolerance(e)
    last = tl.zeros_like(e)
    c = 1.0 - e * t
    error_before = tl.full([1, 1, 1], float("inf"), tl.float32)
    steps = 0
    go = True
    while go:
        s = tl.zeros([1, 1, BLOCK], tl.float32)
        r = tl.zeros([1, 1, BLOCK], tl.float32)
        for start in range(0, K, BLOCK):
            x, _ = load_shifted_block(z_ptr, start, K, shift, UNMASKED, BLOCK)
            ds, dr = any_alpha_terms(x, t, c, e)
            s += ds
            r += dr
        mass, slope = row_sum2(s, r)
        curvature = tl.where(mass < OVERSHOT, 0.0, curvature)
        step = any_alpha_step(mass, slope, curvature, e)
        last = any_alpha_last_step(mass, slope, curvature, e)
        # Near alpha = 2 the threshold is updated through c, which is near 0 where t is near 1 and too coarse for it.
        through_c = e > 0.5
        moved = tl.minimum(tl.maximum(t + step, 0.0), highest)
        next_c = tl.where(through_c, c - e * step, 1.0 - e * moved)
        lost = tl.where(through_c, next_c == c, tl.abs(step) <= 2.4e-7 * (1.0 + t))
        # Near the solution every step is far smaller than the one before, until all that is left is rounding.
        error = tl.abs(mass - 1.0)
        moving = (error > tolerance) & (mass > 0.0) & ~lost & ((error > NEAR) | (error < 0.5 * error_before))
        error_before = error
        t = tl.where(moving, tl.where(through_c, (1.0 - next_c) / e, moved), t)
        c = tl.where(moving, next_c, c)
        steps += 1
        go = (tl.max(moving.to(tl.int32)) > 0) & (steps < MAX_STEPS)
    for start in range(0, K, BLOCK):
        x, column = load_shifted_block(z_ptr, start, K, shift, UNMASKED, BLOCK)
        _, r = any_alpha_terms(x, t, c, e)
        store_tile(p_ptr, column, column < K, apply_last_step(x, top, r, c, last, e), UNMASKED)
