"""The gradient of entmax in alpha: a row of probabilities and one of incoming gradients give one number.

As in :mod:`omegamax.kernels.entmax_jacobian`: changes are measured from the entry of the largest ``p^(2 - alpha)``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.general import alpha_of
from omegamax.kernels.triton.numerics import exp, log_base, sum1
from omegamax.kernels.triton.tiles import tile_of


@triton.jit
def means(t):
    """The integrals of ``exp(tu)`` and ``u exp(tu)`` over [0, 1], for t <= 0."""
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
def backward(
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
    """``out [rows]``: what raising alpha does to the probabilities, times ``g``."""
    row, column, here = tile_of(rows, K, R, BLOCK)
    p = tl.load(p_ptr + row * p_stride + column, mask=here, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + row * g_stride + column, mask=p > 0.0, other=0.0).to(tl.float32)
    e = alpha_of(2.0, alpha_ptr, row, rows, True, R) - 1.0
    on = (p > 0.0) & (e < float("inf"))
    e = tl.where(e < float("inf"), e, 1.0)
    rank = tl.where(on, tl.where(e > 1.0, -p, p), float("-inf"))
    at = column == tl.argmax(rank, 1, keep_dims=True)
    most = sum1(tl.where(at & on, p, 0.0))
    most = tl.where(most > 0.0, most, 1.0)
    p = tl.where(on, p, most)
    log_p, log_most = log_base(p, p - 1.0), log_base(most, most - 1.0)
    apart = (p - most) / most
    length = tl.where(tl.abs(apart) < 0.5, log_base(1.0 + apart, apart), log_p - log_most)
    y = e * length
    # The path from an entry to the anchor, followed from the end where the exponential is largest.
    turned = y < 0.0
    phi, psi = means(-tl.abs(y))
    scale = tl.where(turned, exp((1.0 - e) * log_p + e * log_most), p)
    mean = tl.where(turned, log_most * phi + length * psi, log_p * phi - length * psi)
    moves = tl.where(on, -scale * length * mean, 0.0)
    weight = tl.where(on, exp((1.0 - e) * length), 0.0)
    total = sum1(weight)
    change = moves - weight / tl.where(total > 0.0, total, 1.0) * sum1(moves)
    out = sum1(tl.where(on, change * (g - sum1(tl.where(at, g, 0.0))), 0.0))
    tl.store(out_ptr + row, out, mask=row < rows)
