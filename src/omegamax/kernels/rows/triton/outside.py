"""Entmax of rows whose alpha, by row, is not between 1 and 2: what ``_spectrum`` leaves. NaN for alpha gives NaN."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.above_two import steep
from omegamax.kernels.rows.triton.general import alpha_of
from omegamax.kernels.triton.deformed import deformed
from omegamax.kernels.triton.numerics import largest


@triton.jit(do_not_specialize=["rows"])
def forward(
    z_ptr,
    p_ptr,
    alpha_ptr,
    rows,
    K,
    z_stride,
    TURNS: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Probabilities ``p [rows, K]`` of these rows: mostly none, so that a program has ``TURNS`` tiles of ``R``.

    They are far from each other, since alphas of neighbours may be alike.
    """
    first = tl.program_id(0).to(tl.int64) * R
    apart = tl.num_programs(0).to(tl.int64) * R
    row = first + tl.arange(0, TURNS)[:, None] * apart + tl.arange(0, R)[None, :]
    a = tl.load(alpha_ptr + row, mask=row < rows, other=2.0)
    if tl.max(((a >= 1.0) & (a <= 2.0)).to(tl.int32) ^ 1) > 0:
        turn = 0
        while turn < TURNS:
            tile(z_ptr, p_ptr, alpha_ptr, first + turn * apart, rows, K, z_stride, R, BLOCK)
            turn += 1


@triton.jit
def tile(z_ptr, p_ptr, alpha_ptr, first, rows, K, z_stride, R: tl.constexpr, BLOCK: tl.constexpr):
    """Those of ``R`` rows from ``first`` on."""
    row = first + tl.arange(0, R)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    a = alpha_of(2.0, alpha_ptr, row, rows, True, R)
    theirs = (a >= 1.0) & (a <= 2.0)
    if tl.max(theirs.to(tl.int32) ^ 1) > 0:
        x = tl.load(z_ptr + row * z_stride + column, mask=(row < rows) & (column < K), other=float("-inf"))
        x = x.to(tl.float32)
        top = largest(x)
        x -= tl.where(top == float("-inf"), 0.0, top)
        p = tl.full([R, BLOCK], float("nan"), tl.float32)
        if tl.max((a < 1.0).to(tl.int32)) > 0:
            e = tl.where(a < 1.0, a - 1.0, 1.0)
            v = tl.where(x > float("-inf"), e * x, x)
            p = tl.where(a < 1.0, deformed(x, v, e, tl.full([R, 1], 1.0, tl.float32)), p)
        if tl.max((a > 2.0).to(tl.int32)) > 0:
            p = tl.where(a > 2.0, steep(x, tl.where(a > 2.0, a - 1.0, 1.0)), p)
        p = tl.where(top < float("inf"), p, float("nan"))
        tl.store(p_ptr + row * K + column, p, mask=(row < rows) & (column < K) & (theirs == 0))
