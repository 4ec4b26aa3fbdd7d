r"""Vector-Jacobian products of entmax in the scores and in alpha, and that of normmax for any alpha.

The Jacobian of entmax at ``p`` is ``diag(s) - s s^T / sum(s)`` with ``s = p^(2 - alpha)`` on the support: symmetric, so
that ``J g`` serves as both products.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.above_two import above_two_vjp
from omegamax.kernels.triton.device import (
    ENTMAX,
    ENTMAX15,
    ENTMAX_ABOVE_2,
    NORMMAX,
    SOFTMAX,
    SPARSEMAX,
    block_indices,
    exp,
    load_alpha,
    load_tile,
    log2_approx,
    log_accurate,
    row_sum,
    row_sum2,
    store_tile,
    tile_indices,
)


@triton.jit
def jacobian_weight(p, a, KIND: tl.constexpr):
    """Return ``s = p^(2 - alpha)`` on the support, 0 off it."""
    if KIND == SPARSEMAX:
        return (p > 0.0).to(tl.float32)
    if KIND == ENTMAX15:
        return tl.sqrt(p)
    if KIND == SOFTMAX:
        return p
    if KIND == ENTMAX:  # alpha < 2, so that 0 gives 0
        return tl.exp2((2.0 - a) * log2_approx(p))
    return tl.where(p > 0.0, tl.exp2((2.0 - a) * log2_approx(tl.where(p > 0.0, p, 1.0))), 0.0)


@triton.jit(do_not_specialize=["rows"])
def entmax_vjp_kernel(
    p_ptr,
    g_ptr,
    out_ptr,
    alpha_ptr,
    alpha,
    rows,
    K,
    p_stride,
    g_stride,
    KIND: tl.constexpr,
    PER_ROW: tl.constexpr,
    UNMASKED: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``J g`` at ``p [rows, K]`` of entmax, or of normmax where that is the kind."""
    row, column, mask = tile_indices(rows, K, R, BLOCK)
    p = load_tile(p_ptr + row * p_stride, column, mask, 0.0, UNMASKED)
    if KIND == SOFTMAX:
        g = tl.load(g_ptr + row * g_stride + column, mask=mask, other=0.0).to(tl.float32)
    else:  # off the support, which is most of a row, g is not read
        g = tl.load(g_ptr + row * g_stride + column, mask=p > 0.0, other=0.0).to(tl.float32)
    a = load_alpha(alpha, alpha_ptr, row, rows, PER_ROW, R)
    on = p > 0.0
    if KIND == NORMMAX:
        log_p = tl.log2(tl.where(on, p, 1.0))
        # ||p|| relative to its largest entry, so that no power underflows
        most = tl.log2(tl.max(tl.where(on, p, 1e-38), 1, keep_dims=True))
        norm = most + tl.log2(row_sum(tl.where(on, tl.exp2(a * (log_p - most)), 0.0))) / a
        s = tl.where(on, tl.exp2(log_p + (a - 1.0) * (norm - log_p)), 0.0)
        h = g - row_sum(tl.where(on, p * g, 0.0))
        sh = tl.where(on, s * h, 0.0)
        out = tl.where(a == float("inf"), 0.0, (sh - p * row_sum(sh)) / (a - 1.0))
    elif KIND == ENTMAX_ABOVE_2 and not PER_ROW:
        out = above_two_vjp(p, g, a)
    else:
        s = jacobian_weight(p, a, KIND)
        total, moved = row_sum2(s, tl.where(on, s * g, 0.0))
        out = s * (g - moved / tl.where(total > 0.0, total, 1.0))
        if KIND == ENTMAX_ABOVE_2:
            if tl.max(a) > 2.0:
                out = tl.where(a > 2.0, above_two_vjp(p, g, a), out)
    out = tl.where(on, out, 0.0)
    store_tile(out_ptr + row * K, column, mask, out, UNMASKED)


@triton.jit(do_not_specialize=["rows"])
def entmax_vjp_long_kernel(
    p_ptr,
    g_ptr,
    out_ptr,
    alpha_ptr,
    alpha,
    rows,
    K,
    p_stride,
    g_stride,
    KIND: tl.constexpr,
    PER_ROW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``J g`` of entmax for long rows, one row for each program: the two sums first, then the result."""
    row = tl.program_id(0).to(tl.int64)
    p_ptr += row * p_stride
    g_ptr += row * g_stride
    out_ptr += row * K
    a = load_alpha(alpha, alpha_ptr, row + tl.zeros([1, 1], tl.int64), rows, PER_ROW, 1)
    weights = tl.zeros([1, BLOCK], tl.float32)
    products = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        column, mask = block_indices(start, K, BLOCK)
        p = tl.load(p_ptr + column, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + column, mask=p > 0.0, other=0.0).to(tl.float32)
        s = jacobian_weight(p, a, KIND)
        weights += s
        products += tl.where(p > 0.0, s * g, 0.0)
    total, moved = row_sum2(weights, products)
    mean = moved / tl.where(total > 0.0, total, 1.0)
    for start in range(0, K, BLOCK):
        column, mask = block_indices(start, K, BLOCK)
        p = tl.load(p_ptr + column, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + column, mask=p > 0.0, other=0.0).to(tl.float32)
        out = tl.where(p > 0.0, jacobian_weight(p, a, KIND) * (g - mean), 0.0)
        tl.store(out_ptr + column, out, mask=mask)


@triton.jit
def exp_integrals(t):
    """Return the integrals of ``exp(tu)`` and ``u exp(tu)`` over [0, 1], for t <= 0."""
    near = t > -0.5
    far = tl.where(near, -1.0, t)
    power = exp(far)
    phi = 0.0013888889 + t * 0.00019841270
    phi = 1.0 + t * (0.5 + t * (0.16666667 + t * (0.041666667 + t * (0.0083333333 + t * phi))))
    psi = 0.00017361111 + t * 2.2045855e-5
    psi = 0.5 + t * (0.33333333 + t * (0.125 + t * (0.033333333 + t * (0.0069444444 + t * (0.0011904762 + t * psi)))))
    far_psi = (power * (far - 1.0) + 1.0) / (far * far)
    return tl.where(near, phi, (power - 1.0) / far), tl.where(near, psi, far_psi)


@triton.jit(do_not_specialize=["rows"])
def alpha_vjp_kernel(
    p_ptr,
    g_ptr,
    out_ptr,
    alpha_ptr,
    rows,
    K,
    p_stride,
    g_stride,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute ``out [rows]``: the derivative of the probabilities in alpha, times ``g``.

    As in :mod:`omegamax.kernels.rows.entmax_jacobian`, derivatives are measured from the anchor, the entry of the
    largest ``p^(2 - alpha)``, so that no difference of large numbers is taken.
    """
    row, column, mask = tile_indices(rows, K, R, BLOCK)
    p = tl.load(p_ptr + row * p_stride + column, mask=mask, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + row * g_stride + column, mask=p > 0.0, other=0.0).to(tl.float32)
    e = load_alpha(2.0, alpha_ptr, row, rows, True, R) - 1.0
    on = (p > 0.0) & (e < float("inf"))
    e = tl.where(e < float("inf"), e, 1.0)
    rank = tl.where(on, tl.where(e > 1.0, -p, p), float("-inf"))
    at = column == tl.argmax(rank, 1, keep_dims=True)
    anchor = row_sum(tl.where(at & on, p, 0.0))
    anchor = tl.where(anchor > 0.0, anchor, 1.0)
    p = tl.where(on, p, anchor)
    log_p, log_anchor = log_accurate(p, p - 1.0), log_accurate(anchor, anchor - 1.0)
    apart = (p - anchor) / anchor
    length = tl.where(tl.abs(apart) < 0.5, log_accurate(1.0 + apart, apart), log_p - log_anchor)
    y = e * length
    # The path from an entry to the anchor is followed from the end where the exponential is largest.
    reversed_path = y < 0.0
    phi, psi = exp_integrals(-tl.abs(y))
    scale = tl.where(reversed_path, exp((1.0 - e) * log_p + e * log_anchor), p)
    mean = tl.where(reversed_path, log_anchor * phi + length * psi, log_p * phi - length * psi)
    moves = tl.where(on, -scale * length * mean, 0.0)
    weight = tl.where(on, exp((1.0 - e) * length), 0.0)
    total = row_sum(weight)
    change = moves - weight / tl.where(total > 0.0, total, 1.0) * row_sum(moves)
    out = row_sum(tl.where(on, change * (g - row_sum(tl.where(at, g, 0.0))), 0.0))
    tl.store(out_ptr + row, out, mask=row < rows)
