"""Entmax and normmax of rows that fit into one program: read once, solved in registers, written once."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.above_two import steep, steep_backward
from omegamax.kernels.triton import deformed
from omegamax.kernels.triton.numerics import exp, largest, quick_log2, sum1, sum2
from omegamax.kernels.triton.tiles import read, tile_of, write

SPARSEMAX = tl.constexpr(0)
ENTMAX15 = tl.constexpr(1)
ENTMAX = tl.constexpr(2)
NORMMAX = tl.constexpr(3)
SOFTMAX = tl.constexpr(4)
STEEP = tl.constexpr(5)  # entmax with some alpha above 2; apart, since it needs many registers
KINDS = ("SPARSEMAX", "ENTMAX15", "ENTMAX", "NORMMAX", "SOFTMAX", "STEEP")


@triton.jit
def alpha_of(alpha, alpha_ptr, row, rows, PER_ROW: tl.constexpr, R: tl.constexpr):
    """Alpha of each row, ``[R, 1]``."""
    if PER_ROW:
        return tl.load(alpha_ptr + row, mask=row < rows, other=2.0)
    return tl.full([R, 1], 0.0, tl.float32) + alpha


@triton.jit(do_not_specialize=["rows"])
def forward(
    z_ptr,
    p_ptr,
    alpha_ptr,
    alpha,
    rows,
    K,
    z_stride,
    KIND: tl.constexpr,
    PER_ROW: tl.constexpr,
    EVEN: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Probabilities ``p [rows, K]`` of scores ``z``; nothing left gives zeros, NaN and ``+inf`` give NaN.

    ``EVEN``: every program has all its rows, and they are of ``BLOCK`` entries.
    """
    row, column, here = tile_of(rows, K, R, BLOCK)
    z = read(z_ptr + row * z_stride, column, here, float("-inf"), EVEN)
    top = largest(z)
    zero = tl.where(top == float("-inf"), 0.0, top)
    x = z - zero
    if KIND == SOFTMAX:
        p = exp(x)
        s = sum1(p)
        p = p / tl.where(s > 0.0, s, 1.0)
    else:
        a = alpha_of(alpha, alpha_ptr, row, rows, PER_ROW, R)
        if KIND == NORMMAX:
            p = deformed.normed(z, x, zero, a)
        elif KIND == STEEP:
            p = steep(x, a - 1.0)
        else:
            e = a - 1.0
            v = tl.where(x > float("-inf"), e * x, x)
            p = deformed.deformed(x, v, e, tl.full([R, 1], 1.0, tl.float32))
    p = tl.where(top < float("inf"), p, float("nan"))
    write(p_ptr + row * K, column, here, p, EVEN)


@triton.jit
def backward_weight(p, a, KIND: tl.constexpr):
    """``s = p^(2 - alpha)`` on the support, 0 off it: the Jacobian of entmax is ``diag(s) - s s^T / sum(s)``."""
    if KIND == SPARSEMAX:
        return (p > 0.0).to(tl.float32)
    if KIND == ENTMAX15:
        return tl.sqrt(p)
    if KIND == SOFTMAX:
        return p
    if KIND == ENTMAX:  # alpha < 2, so that 0 gives 0
        return tl.exp2((2.0 - a) * quick_log2(p))
    return tl.where(p > 0.0, tl.exp2((2.0 - a) * quick_log2(tl.where(p > 0.0, p, 1.0))), 0.0)


@triton.jit(do_not_specialize=["rows"])
def backward(
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
    EVEN: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The symmetric Jacobian at ``p`` times ``g``."""
    row, column, here = tile_of(rows, K, R, BLOCK)
    p = read(p_ptr + row * p_stride, column, here, 0.0, EVEN)
    if KIND == SOFTMAX:
        g = tl.load(g_ptr + row * g_stride + column, mask=here, other=0.0).to(tl.float32)
    else:  # off the support, which is most of it, g is not read
        g = tl.load(g_ptr + row * g_stride + column, mask=p > 0.0, other=0.0).to(tl.float32)
    a = alpha_of(alpha, alpha_ptr, row, rows, PER_ROW, R)
    on = p > 0.0
    if KIND == NORMMAX:
        log_p = tl.log2(tl.where(on, p, 1.0))
        # ||p|| by its largest entry, so that no power of it is lost
        most = tl.log2(tl.max(tl.where(on, p, 1e-38), 1, keep_dims=True))
        norm = most + tl.log2(sum1(tl.where(on, tl.exp2(a * (log_p - most)), 0.0))) / a
        s = tl.where(on, tl.exp2(log_p + (a - 1.0) * (norm - log_p)), 0.0)
        h = g - sum1(tl.where(on, p * g, 0.0))
        sh = tl.where(on, s * h, 0.0)
        out = tl.where(a == float("inf"), 0.0, (sh - p * sum1(sh)) / (a - 1.0))
    else:
        s = backward_weight(p, a, KIND)
        total, moved = sum2(s, tl.where(on, s * g, 0.0))
        out = s * (g - moved / tl.where(total > 0.0, total, 1.0))
        if KIND == STEEP:
            if tl.max(a) > 2.0:
                out = tl.where(a > 2.0, steep_backward(p, g, a), out)
    out = tl.where(on, out, 0.0)
    write(out_ptr + row * K, column, here, out, EVEN)
