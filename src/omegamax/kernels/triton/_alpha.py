"""The gradient of entmax in alpha: a row of probabilities and one of gradients in the scores give one number."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton._numbers import exp, log_base, sum1
from omegamax.kernels.triton._simplex import alpha_of
from omegamax.kernels.triton._tiles import tile_of


@triton.jit
def score_change(p, e):
    """``-d/de (p^e - 1) / e``, which is ``-log(p)^2 psi(e log p)`` with ``psi(y) = (e^y (y - 1) + 1) / y^2``."""
    log_p = log_base(p, p - 1.0)
    y = e * log_p
    near = 0.00017361111 + y * 2.2045855e-5
    near = 0.5 + y * (0.33333333 + y * (0.125 + y * (0.033333333 + y * (0.0069444444 + y * (0.0011904762 + y * near)))))
    far = (exp(y) * (y - 1.0) + 1.0) / tl.where(y == 0.0, 1.0, y * y)
    return -log_p * log_p * tl.where(tl.abs(y) < 0.5, near, far)


@triton.jit(do_not_specialize=["rows"])
def backward(
    p_ptr,
    dz_ptr,
    out_ptr,
    alpha_ptr,
    rows,
    K,
    p_stride,
    dz_stride,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``out [rows]``: the change of scores that raising alpha is worth, times the gradient ``dz`` in the scores.

    That gradient does not see a constant, but has large entries for large alpha: the change is measured from that of
    the largest probability.
    """
    row, column, here = tile_of(rows, K, R, BLOCK)
    p = tl.load(p_ptr + row * p_stride + column, mask=here, other=0.0).to(tl.float32)
    dz = tl.load(dz_ptr + row * dz_stride + column, mask=here, other=0.0).to(tl.float32)
    e = alpha_of(2.0, alpha_ptr, row, rows, True, R) - 1.0
    on = (p > 0.0) & (e < float("inf"))
    e = tl.where(e < float("inf"), e, 1.0)
    most = tl.max(p, 1, keep_dims=True)
    change = score_change(tl.where(on, p, 1.0), e) - score_change(tl.where(most > 0.0, most, 1.0), e)
    out = sum1(tl.where(on, dz * change, 0.0))
    tl.store(out_ptr + row, out, mask=row < rows)
