"""Entmax losses against probabilities instead of a class: one more pass over rows whose threshold is known."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.losses.triton.tile import alpha_slope_terms, probabilities_at, program_indices, shift_scores
from omegamax.kernels.triton.device import (
    ENTMAX15,
    ENTMAX_ABOVE_2,
    INF,
    SPARSEMAX,
    load_alpha,
    one_minus_exp,
    positive_power,
    row_sum,
    row_sum3,
)


@triton.jit
def omega_terms(p, a, KIND: tl.constexpr):
    """Return what each entry adds to Omega: ``p log_e(p) / alpha``, with ``log_e(p) = (p^e - 1) / e``."""
    if KIND == SPARSEMAX:
        value = 0.5 * p * (p - 1.0)
    elif KIND == ENTMAX15:
        value = p * (tl.sqrt(tl.maximum(p, 0.0)) - 1.0) / 0.75
    else:
        on = (p > 0.0) & (a < INF)
        a = tl.where(a < INF, a, 2.0)
        e = a - 1.0
        log_p = tl.log(tl.where(on, p, 1.0))
        logarithm = tl.where(e == 0.0, log_p, -one_minus_exp(e * log_p) / tl.where(e == 0.0, 1.0, e))
        value = tl.where(on, p * logarithm / a, 0.0)
    return value


@triton.jit
def level_from_state(a, t, step, KIND: tl.constexpr):
    """Return the level ``l`` of ``p = exp_e(x - l)``, from the state that the loss has kept."""
    if KIND == SPARSEMAX:
        level = 1.0 + t + step
    elif KIND == ENTMAX15:
        level = 2.0 * (1.0 + t + step)
    else:
        level = t + step
        if KIND == ENTMAX_ABOVE_2:
            e = tl.where((a > 2.0) & (a < INF), a - 1.0, 2.0)
            level = tl.where(a > 2.0, t + (1.0 - positive_power(step, e)) / e, level)
    return level


@triton.jit
def load_target(y_ptr, row, column, mask, K, y_stride, smoothing):
    """Load target probabilities and smooth them."""
    y = tl.load(y_ptr + row * y_stride + column, mask=mask, other=0.0).to(tl.float32)
    return tl.where(mask, (1.0 - smoothing) * y + smoothing / K, 0.0)


@triton.jit
def entmax_loss_soft_kernel(
    z_ptr,
    y_ptr,
    value_ptr,
    state_ptr,
    slope_ptr,
    alpha_ptr,
    alpha,
    smoothing,
    slack,
    rows,
    K,
    z_stride,
    y_stride,
    KIND: tl.constexpr,
    PER_ROW: tl.constexpr,
    SLOPE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``Omega*(z) + Omega(y) - <y, z>`` of a row, and its derivative in alpha."""
    row = tl.program_id(0).to(tl.int64) + tl.zeros([1, 1], tl.int64)
    a = load_alpha(alpha, alpha_ptr, row, rows, PER_ROW, 1)
    top = tl.load(state_ptr + 3 * row)
    t = tl.load(state_ptr + 3 * row + 1)
    step = tl.load(state_ptr + 3 * row + 2)
    shift = tl.where(top == -INF, 0.0, top)
    gap = tl.zeros([1, BLOCK], tl.float32)
    mass = tl.zeros([1, BLOCK], tl.float32)
    target_mass = tl.zeros([1, BLOCK], tl.float32)
    change = tl.zeros([1, BLOCK], tl.float32)
    begin = 0
    while begin < K:
        column = begin + tl.arange(0, BLOCK)[None, :]
        mask = column < K
        z = tl.load(z_ptr + row * z_stride + column, mask=mask, other=-INF).to(tl.float32)
        y = load_target(y_ptr, row, column, mask, K, y_stride, smoothing)
        p, _ = probabilities_at(shift_scores(z, top), a, t, step, KIND)
        p = tl.where(z > -INF, p, 0.0)
        # One difference, which cancels where the map returns the target. A score without mass may be -inf.
        move = p - y
        gap += tl.where(move == 0.0, 0.0, move * (z - shift)) - (omega_terms(p, a, KIND) - omega_terms(y, a, KIND))
        mass += p
        target_mass += y
        if SLOPE:
            change += alpha_slope_terms(p, a) - alpha_slope_terms(y, a)
        begin += BLOCK
    value, total, target_total = row_sum3(gap, mass, target_mass)
    # Corrected so that probabilities, or a target, whose sum misses 1 by rounding count by its square only.
    level_excess = tl.where(a < INF, level_from_state(a, t, step, KIND) - 1.0 / a, 0.0)
    value = value - tl.where((top > -INF) & (value < INF), level_excess * (total - 1.0), 0.0)
    short = 1.0 - target_total
    value = value + tl.where(tl.abs(short) > slack, short * shift, 0.0)
    tl.store(value_ptr + row, tl.where(top < INF, value, float("nan")))
    if SLOPE:
        tl.store(slope_ptr + row, row_sum(change))


@triton.jit
def entmax_loss_soft_vjp_kernel(
    z_ptr,
    y_ptr,
    state_ptr,
    g_ptr,
    out_ptr,
    alpha_ptr,
    alpha,
    smoothing,
    rows,
    K,
    z_stride,
    y_stride,
    out_stride,
    KIND: tl.constexpr,
    PER_ROW: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``g (p - y)`` of a block of some rows; ``out`` may be ``z`` itself."""
    row, column = program_indices(rows, R, BLOCK)
    row_mask = row < rows
    mask = row_mask & (column < K)
    g = tl.load(g_ptr + row, mask=row_mask, other=0.0).to(tl.float32)
    top = tl.load(state_ptr + 3 * row, mask=row_mask, other=0.0)
    t = tl.load(state_ptr + 3 * row + 1, mask=row_mask, other=0.0)
    step = tl.load(state_ptr + 3 * row + 2, mask=row_mask, other=0.0)
    a = load_alpha(alpha, alpha_ptr, row, rows, PER_ROW, R)
    z = tl.load(z_ptr + row * z_stride + column, mask=mask, other=-INF).to(tl.float32)
    y = load_target(y_ptr, row, column, mask, K, y_stride, smoothing)
    p, _ = probabilities_at(shift_scores(z, top), a, t, step, KIND)
    p = tl.where(top < INF, tl.where(z > -INF, p, 0.0), float("nan"))
    tl.store(out_ptr + row * out_stride + column, tl.where(g == 0.0, 0.0, g * (p - y)), mask=mask)
