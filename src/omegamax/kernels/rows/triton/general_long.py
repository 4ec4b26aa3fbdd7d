"""Entmax and normmax of rows too long for one program's registers: read a block at a time, once for each step.

Those that leave few entries above zero are in ``_survivors``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.general import ENTMAX, NORMMAX, alpha_of, backward_weight
from omegamax.kernels.triton.deformed import (
    FAR,
    ROUNDS,
    deformed_step,
    deformed_terms,
    log_deformed,
    straight,
    tied_level,
)
from omegamax.kernels.triton.numerics import exp, largest, sum1, sum2, sum3


@triton.jit
def block_of(start, K, BLOCK: tl.constexpr):
    """Numbers ``[1, BLOCK]`` of entries, and which of them there are."""
    column = start + tl.arange(0, BLOCK)[None, :]
    return column, column < K


@triton.jit
def scores_of(row_ptr, start, K, shift, BLOCK: tl.constexpr):
    """A block of a row, measured from its maximum."""
    column, here = block_of(start, K, BLOCK)
    return tl.load(row_ptr + column, mask=here, other=float("-inf")).to(tl.float32) - shift


@triton.jit
def scaled(x, e, KIND: tl.constexpr):
    """``e`` times the scores of the entmax whose threshold it is; that of normmax has them divided by it."""
    if KIND == NORMMAX:
        return x
    return tl.where(x > float("-inf"), e * x, x)


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
    BLOCK: tl.constexpr,
):
    """As the kernel of short rows, one row for each program; of entmax with an alpha each, those below 1 alone."""
    row = tl.program_id(0).to(tl.int64)
    a = alpha_of(alpha, alpha_ptr, row + tl.zeros([1, 1], tl.int64), rows, PER_ROW, 1)
    if PER_ROW and KIND == ENTMAX:
        if tl.max((a < 1.0).to(tl.int32)) > 0:
            solve(z_ptr + row * z_stride, p_ptr + row * K, a, K, KIND, BLOCK)
    else:
        solve(z_ptr + row * z_stride, p_ptr + row * K, a, K, KIND, BLOCK)


@triton.jit
def solve(z_ptr, p_ptr, a, K, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """The row at ``z``."""
    peak = tl.full([1, BLOCK], float("-inf"), tl.float32)
    for start in range(0, K, BLOCK):
        x = scores_of(z_ptr, start, K, 0.0, BLOCK)
        peak = tl.maximum(peak, x, propagate_nan=tl.PropagateNan.ALL)
    top = largest(peak)
    shift = tl.where(top == float("-inf"), 0.0, top)
    zero = tl.zeros([1, 1], tl.float32)
    e = a - 1.0
    if KIND == NORMMAX:
        e = 1.0 - 1.0 / a
    t = zero
    last = tied_level(e, K)
    step = zero
    past = zero
    rounds = 0
    go = True
    while go:
        s = tl.zeros([1, BLOCK], tl.float32)
        r = tl.zeros([1, BLOCK], tl.float32)
        u = tl.zeros([1, BLOCK], tl.float32)
        for start in range(0, K, BLOCK):
            x = scores_of(z_ptr, start, K, shift, BLOCK)
            ds, dr, du = deformed_terms(x, scaled(x, e, KIND), e, t)
            s += ds
            r += dr
            u += du
        mass, slope, bend = sum3(s, r, u)
        past = tl.where(mass < FAR, 1.0, past)
        bend = straight(mass, slope, bend, past)
        step, moving = deformed_step(mass, slope, bend, e, t)
        t = tl.where(moving, tl.minimum(t + step, last), t)
        rounds += 1
        go = (tl.max(moving.to(tl.int32)) > 0) & (rounds < ROUNDS)
    s = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        x = scores_of(z_ptr, start, K, shift, BLOCK)
        s += final(x, t, step, e, a, KIND)
    total = sum1(s)
    total = tl.where(total > 0.0, total, 1.0)
    for start in range(0, K, BLOCK):
        column, here = block_of(start, K, BLOCK)
        x = scores_of(z_ptr, start, K, shift, BLOCK)
        p = final(x, t, step, e, a, KIND) / total
        p = tl.where(top < float("inf"), p, float("nan"))
        tl.store(p_ptr + column, p, mask=here)


@triton.jit
def final(x, t, step, e, a, KIND: tl.constexpr):
    """Probabilities at the threshold, before they are brought to sum one."""
    log_p, _, inside = log_deformed(x, scaled(x, e, KIND), e, t, step)
    if KIND == NORMMAX:
        log_p = log_p / a
    return tl.where(inside, exp(log_p), 0.0)


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
    BLOCK: tl.constexpr,
):
    """``J g`` of entmax, one row for each program: the two sums first, then the result."""
    row = tl.program_id(0).to(tl.int64)
    p_ptr += row * p_stride
    g_ptr += row * g_stride
    out_ptr += row * K
    a = alpha_of(alpha, alpha_ptr, row + tl.zeros([1, 1], tl.int64), rows, PER_ROW, 1)
    weights = tl.zeros([1, BLOCK], tl.float32)
    products = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        column, here = block_of(start, K, BLOCK)
        p = tl.load(p_ptr + column, mask=here, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + column, mask=p > 0.0, other=0.0).to(tl.float32)
        s = backward_weight(p, a, KIND)
        weights += s
        products += tl.where(p > 0.0, s * g, 0.0)
    total, moved = sum2(weights, products)
    mean = moved / tl.where(total > 0.0, total, 1.0)
    for start in range(0, K, BLOCK):
        column, here = block_of(start, K, BLOCK)
        p = tl.load(p_ptr + column, mask=here, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + column, mask=p > 0.0, other=0.0).to(tl.float32)
        out = tl.where(p > 0.0, backward_weight(p, a, KIND) * (g - mean), 0.0)
        tl.store(out_ptr + column, out, mask=here)
