"""Entmax losses of rows: the scores are read once, and what remains of a row is its loss and its threshold.

With ``x`` the scores measured from their maximum and ``l`` the level at which ``p = exp_e(x - l)`` sums to one, the
conjugate is ``l + (sum p^alpha - 1) / alpha``. Its slope in ``l`` is ``1 - sum p``: an error of the level counts by its
square, and the probabilities need not be brought to sum one. They come back from the level one by one, so that the
backward pass needs no sum over a row.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.above_two import find_support, finite_exponents, solve_smallest
from omegamax.kernels.triton.deformed import exp_e_step, exp_e_terms, level_of_ties, newton_curvature
from omegamax.kernels.triton.deformed import log_exp_e as log_exp_e
from omegamax.kernels.triton.device import (
    ENTMAX15,
    ENTMAX_ABOVE_2,
    INF,
    MAX_STEPS,
    OVERSHOT,
    SOFTMAX,
    SPARSEMAX,
    any_row,
    exp,
    load_alpha,
    log_accurate,
    one_minus_exp,
    positive_power,
    row_max,
    row_sum,
    row_sum2,
    row_sum3,
)

MASKED_SCORE = tl.constexpr(-1e30)


@triton.jit
def program_indices(rows, R: tl.constexpr, BLOCK: tl.constexpr):
    """Return row indices ``[R, 1]`` and column indices ``[1, BLOCK]`` of a program's block of some rows."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
    return row, tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]


@triton.jit
def shift_scores(z, top):
    """Subtract the maximum from scores; masked ones become MASKED_SCORE, as products with infinity may be NaN."""
    return tl.maximum(z - tl.where(top == -INF, 0.0, top), MASKED_SCORE)


@triton.jit
def level_bounds(a, size, KIND: tl.constexpr):
    """Return a level below that of every row, and the one that no row of ``size`` entries exceeds."""
    if KIND == SPARSEMAX:
        first, last = 0.0 * a - 1.0, 0.0 * a
    elif KIND == ENTMAX15:
        first, last = 0.0 * a - 1.0, 0.0 * a - 1.0 / tl.sqrt(1.0 * size)
    else:
        first, last = 0.0 * a, level_of_ties(tl.minimum(a - 1.0, 1.0), size)
    return first, last


@triton.jit
def sparsemax_terms(x, t):
    """Return the terms of the mass and of the support size of ``[x - t]_+``."""
    above = x > t
    return tl.where(above, x - t, 0.0), above.to(tl.float32)


@triton.jit
def sparsemax_step(mass, count, t):
    """Return Michelot's step and which rows take it: Newton from the left, finite, never past the solution."""
    step = (mass - 1.0) / tl.maximum(count, 1.0)
    return step, (mass - 1.0 > 4e-7) & (t + step > t)


@triton.jit
def entmax15_terms(x, t):
    """Return the terms ``b^2``, ``b`` and ``[b > 0]`` of ``b = [x / 2 - t]_+``."""
    above = tl.maximum(0.5 * x - t, 0.0)
    return above * above, above, (above > 0.0).to(tl.float32)


@triton.jit
def entmax15_step(mass, slope, count, t):
    """Return Halley's step on the norm of what is above ``t``, and which rows take it."""
    length = tl.sqrt(mass)
    newton = (mass - length) / slope
    curvature = (length - 1.0) * (mass * count - slope * slope) / (2.0 * length * slope * slope)
    step = tl.where(slope > 0.0, newton / tl.maximum(1.0 - curvature, 0.5), 0.0)
    # Entries that the last step drops are smaller than it, and count by their square.
    return step, (tl.abs(mass - 1.0) > 1e-4) & (t + step != t)


@triton.jit
def level_terms(x, a, t, KIND: tl.constexpr):
    """Return what each entry adds to the sums that a step needs."""
    if KIND == SPARSEMAX:
        s, r = sparsemax_terms(x, t)
        u = 0.0 * s
    elif KIND == ENTMAX15:
        s, r, u = entmax15_terms(x, t)
    elif KIND == SOFTMAX:
        s = exp(x)
        r, u = s, s
    else:
        e = tl.minimum(a - 1.0, 1.0)
        s, r, u = exp_e_terms(x, e * x, e, t)
    return s, r, u


@triton.jit
def level_step(s, r, u, a, t, KIND: tl.constexpr):
    """Return the step of the level that follows from the sums, and which rows take it."""
    if KIND == SPARSEMAX:
        step, moving = sparsemax_step(s, r, t)
    elif KIND == ENTMAX15:
        step, moving = entmax15_step(s, r, u, t)
    elif KIND == SOFTMAX:
        s = tl.where(s > 0.0, s, 1.0)
        step, moving = log_accurate(s, s - 1.0) - t, s < 0.0
    else:
        step, moving = exp_e_step(s, r, u, tl.minimum(a - 1.0, 1.0), t)
    return step, moving


@triton.jit
def solve_loss_level(x, a, size, KIND: tl.constexpr):
    """Return level and last step of a plain tile; of rows with alpha > 2 the least ``x`` and ``p`` of the support."""
    t, last = level_bounds(a, size, KIND)
    step = 0.0 * a
    overshot = 0.0 * a
    steps = 0
    go = True
    while go:
        s, r, u = level_terms(x, a, t, KIND)
        if KIND == SPARSEMAX:
            s, r = row_sum2(s, r)
        elif KIND == SOFTMAX:
            s = row_sum(s)
        else:
            s, r, u = row_sum3(s, r, u)
            overshot = tl.where(s < OVERSHOT, 1.0, overshot)
            u = newton_curvature(s, r, u, overshot)
        step, moving = level_step(s, r, u, a, t, KIND)
        t = tl.where(moving, tl.minimum(t + step, last), t)
        steps += 1
        go = any_row(moving, x) & (steps < MAX_STEPS)
    if KIND == ENTMAX_ABOVE_2:
        if tl.max(a) > 2.0:
            e, q, out = finite_exponents(tl.where(a > 2.0, a, 3.0))
            last, _, threshold = find_support(x, e, q, out)
            y, _ = solve_smallest(x, last, threshold, e, q)
            t = tl.where(a > 2.0, last, t)
            step = tl.where(a > 2.0, y, step)
    return t, step


@triton.jit
def probabilities_at(x, a, t, step, KIND: tl.constexpr):
    """Return the probabilities ``p`` at the level ``t + step``, and ``p^alpha``."""
    if KIND == SPARSEMAX:
        p = tl.maximum(x - t - step, 0.0)
        power = p * p
    elif KIND == ENTMAX15:
        root = tl.maximum(0.5 * x - t - step, 0.0)
        p = root * root
        power = p * root
    elif KIND == SOFTMAX:
        p = exp(x - t - step)
        power = p
    else:
        e = tl.minimum(a - 1.0, 1.0)
        log_p, base, inside = log_exp_e(x, e * x, e, t, step)
        p = tl.where(inside, exp(log_p), 0.0)
        power = tl.where(inside, p * base, 0.0)
        if KIND == ENTMAX_ABOVE_2:
            if tl.max(a) > 2.0:
                p_above, power_above = probabilities_above_two(x, a, t, step)
                p = tl.where(a > 2.0, p_above, p)
                power = tl.where(a > 2.0, power_above, power)
    return p, power


@triton.jit
def probabilities_above_two(x, a, low, y):
    """Return ``p`` and ``p^alpha`` for alpha > 2: ``p^e = y^e + e (x - low)``, with the least ``p = y`` at ``low``."""
    infinite = a == INF
    e = tl.where(infinite, 2.0, a - 1.0)
    above = x > low
    base = positive_power(y, e) + tl.where(above, e * (x - low), 0.0)
    p = tl.where(above, positive_power(base, 1.0 / e), y)
    power = tl.where(above, p * base, positive_power(y, tl.where(infinite, 2.0, a)))
    return tl.where(x >= low, p, 0.0), tl.where(x >= low, power, 0.0)


@triton.jit
def conjugate_at(power, a, t, step, KIND: tl.constexpr):
    """Return the conjugate ``l + (sum p^alpha - 1) / alpha``, given the sum of the powers."""
    if KIND == SPARSEMAX:
        value = 1.0 + t + step + 0.5 * (power - 1.0)
    elif KIND == ENTMAX15:
        value = 2.0 * (1.0 + t + step) + (power - 1.0) / 1.5
    elif KIND == SOFTMAX:
        value = t + step
    else:
        level = t + step
        if KIND == ENTMAX_ABOVE_2:
            e = tl.where((a > 2.0) & (a < INF), a - 1.0, 2.0)
            level = tl.where(a > 2.0, t + (1.0 - positive_power(step, e)) / e, level)
        value = tl.where(a == INF, 0.0, level + (power - 1.0) / a)
    return value


@triton.jit
def alpha_slope_terms(p, a):
    """Return what each entry adds to the derivative of the conjugate in alpha: ``p (log_e(p) / alpha + c) / alpha``.

    ``log_e(p) = (p^e - 1) / e`` is the deformed logarithm and ``c`` its derivative in ``e``, negated.
    """
    on = (p > 0.0) & (a < INF)
    a = tl.where(a < INF, a, 2.0)
    e = a - 1.0
    log_p = tl.log(tl.where(on, p, 1.0))
    y = e * log_p
    near = 0.125 + y * (1.0 / 30.0 + y * (1.0 / 144.0 + y * (1.0 / 840.0 + y * (1.0 / 5760.0))))
    near = 0.5 + y * (1.0 / 3.0 + y * near)
    small = tl.abs(y) < 0.5
    far = (exp(y) * (y - 1.0) + 1.0) / tl.where(small, 1.0, y * y)
    c = -log_p * log_p * tl.where(small, near, far)
    logarithm = tl.where(e == 0.0, log_p, -one_minus_exp(y) / tl.where(e == 0.0, 1.0, e))
    return tl.where(on, p * (logarithm / a + c) / a, 0.0)


@triton.jit
def loss_value(value, target_score, top):
    """Return the loss less Omega(y); ``inf`` where the target is masked, NaN for rows with NaN or ``+inf``."""
    value = tl.where(target_score == -INF, INF, tl.where(top == -INF, 0.0, value) - target_score)
    return tl.where(top < INF, value, float("nan"))


@triton.jit
def entmax_loss_kernel(
    z_ptr,
    index_ptr,
    value_ptr,
    state_ptr,
    slope_ptr,
    alpha_ptr,
    alpha,
    smoothing,
    rows,
    K,
    z_stride,
    KIND: tl.constexpr,
    PER_ROW: tl.constexpr,
    SMOOTH: tl.constexpr,
    SLOPE: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``Omega*(z) - <y, z>`` of rows that fit into one program, for the class ``y`` of each, also smoothed."""
    row, column = program_indices(rows, R, BLOCK)
    row_mask = row < rows
    mask = row_mask & (column < K)
    z = tl.load(z_ptr + row * z_stride + column, mask=mask, other=-INF).to(tl.float32)
    top = row_max(z)
    shift = tl.where(top == -INF, 0.0, top)
    index = tl.load(index_ptr + row, mask=row_mask, other=0)
    target_score = tl.load(z_ptr + row * z_stride + index, mask=row_mask, other=0.0).to(tl.float32) - shift
    if SMOOTH:
        target_score = (1.0 - smoothing) * target_score + smoothing / K * row_sum(tl.where(mask, z - shift, 0.0))
    x = shift_scores(z, top)
    a = load_alpha(alpha, alpha_ptr, row, rows, PER_ROW, R)
    t, step = solve_loss_level(x, a, K, KIND)
    p, power = probabilities_at(x, a, t, step, KIND)
    value = conjugate_at(row_sum(power), a, t, step, KIND)
    if SLOPE:
        tl.store(slope_ptr + row, row_sum(alpha_slope_terms(p, a)), mask=row_mask)
    store_loss(value_ptr, state_ptr, row, rows, loss_value(value, target_score, top), top, t, step)


@triton.jit
def store_loss(value_ptr, state_ptr, row, rows, value, top, t, step):
    """Store the loss of each row, and its state: maximum, level and last step."""
    row_mask = row < rows
    tl.store(value_ptr + row, value, mask=row_mask)
    tl.store(state_ptr + 3 * row, top, mask=row_mask)
    tl.store(state_ptr + 3 * row + 1, t, mask=row_mask)
    tl.store(state_ptr + 3 * row + 2, step, mask=row_mask)


@triton.jit
def entmax_loss_vjp_kernel(
    z_ptr,
    index_ptr,
    state_ptr,
    g_ptr,
    out_ptr,
    alpha_ptr,
    alpha,
    smoothing,
    share,
    rows,
    K,
    z_stride,
    out_stride,
    KIND: tl.constexpr,
    PER_ROW: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``g (p - y)`` of a block of some rows, ``share`` of ``y`` for each class; ``out`` may be ``z`` itself."""
    row, column = program_indices(rows, R, BLOCK)
    row_mask = row < rows
    mask = row_mask & (column < K)
    g = tl.load(g_ptr + row, mask=row_mask, other=0.0).to(tl.float32)
    top = tl.load(state_ptr + 3 * row, mask=row_mask, other=0.0)
    t = tl.load(state_ptr + 3 * row + 1, mask=row_mask, other=0.0)
    step = tl.load(state_ptr + 3 * row + 2, mask=row_mask, other=0.0)
    index = tl.load(index_ptr + row, mask=row_mask, other=0)
    a = load_alpha(alpha, alpha_ptr, row, rows, PER_ROW, R)
    z = tl.load(z_ptr + row * z_stride + column, mask=mask, other=-INF).to(tl.float32)
    p, _ = probabilities_at(shift_scores(z, top), a, t, step, KIND)
    p = tl.where(top < INF, tl.where(z > -INF, p, 0.0), float("nan"))
    y = tl.where(column == index, 1.0 - smoothing, 0.0) + share
    # A row whose g is 0 gives 0, also if it holds NaN.
    tl.store(out_ptr + row * out_stride + column, tl.where(g == 0.0, 0.0, g * (p - y)), mask=mask)
