"""Entmax from softmax to sparsemax, alpha from 1 to 2, which only the kernel sees and each row may have its own of.

With ``e = alpha - 1`` they are ``p = [1 + e (z - t)]_+^(1/e)``, and ``exp(z - t)`` for ``e = 0``. Tiles are those of
``_sparse``, and so is the order of things: the largest along ``C`` are solved first, then one to three rounds over all.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton import _simplex, _steep, _threshold
from omegamax.kernels.triton._exponent import inverse
from omegamax.kernels.triton._numbers import NVIDIA, log_base, one_minus_exp
from omegamax.kernels.triton._numbers import largest as largest_of_row
from omegamax.kernels.triton._sparse import FAR, ROUNDS, any_row, largest, total2, total3

LOWEST = tl.constexpr(-3e38)  # instead of -inf, of which softmax's e = 0 would make what is not a number


@triton.jit
def log2(x):
    """The hardware's own, without care for numbers below 1e-38."""
    if NVIDIA:
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.log2(x)


@triton.jit
def exp2(x):
    if NVIDIA:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.exp2(x)


@triton.jit
def base(x, t, e):
    """``b = [1 + e (x - t)]_+``, which is ``p^e``."""
    return tl.maximum(1.0 + e * (x - t), 0.0)


@triton.jit
def powers(e):
    """``1 - e`` and ``1/e - 1``; this is above 0, so that it makes 0 of 0."""
    return 1.0 - e, tl.maximum((1.0 - e) / e, 1e-30)


@triton.jit
def terms(x, t, e, rest, most):
    """``p = b^(1/e)`` and ``p^(2 - alpha) = b^(1/e - 1)``, given :func:`powers`.

    The hardware's logarithm is off by 1e-7 around 1, which ``1/e`` makes large: there ``log2(1 + y)`` is ``y`` times a
    polynomial, to the last digit, and ``y / e`` is known without a division, so that ``e = 0`` is no exception.
    """
    d = x - t
    y = e * d
    b = tl.maximum(1.0 + y, 0.0)
    near = 0.480210643 + y * (-0.371925961 + y * (0.207625517 - y * 0.490224277))
    near = (d * rest) * (1.44269499 + y * (-0.721362672 + y * near))
    r = exp2(tl.where(y > -0.25, near, most * log2(b)))
    return r * b, r


@triton.jit
def step_of(s, r, bend, e):
    """From sums of terms, Halley's step on ``(s^e - 1) / e``, or Newton's where ``bend = s u / r^2 - 1`` is 0.

    Beyond ``e = 1/2`` the sum ``u`` of ``p^(3 - 2 alpha)`` is that of the smallest entries alone, and not used.
    """
    some = r > 0.0
    flat = e == 0.0
    excess = tl.where(some, s, 1.0) - 1.0
    log_s = log_base(1.0 + excess, excess)
    fall = tl.where(flat, log_s, one_minus_exp(-e * log_s) / tl.where(flat, 1.0, e))
    bend = tl.where(e > 0.5, 0.0, 0.5 * (1.0 - e) * fall * bend)
    return tl.where(some, s * fall / tl.where(some, r, 1.0) / tl.maximum(1.0 - bend, 0.5), 0.0)


@triton.jit
def begin(x, e, tied):
    """The threshold ``t`` of a tile, roughly, and the bend there; from 0 on, where the largest would have all mass."""
    rest, most = powers(e)
    t = tl.zeros_like(e)
    bend = tl.zeros_like(e)
    past = tl.zeros_like(e)
    rounds = 0
    go = True
    while go:
        p, r = terms(x, t, e, rest, most)
        s, slope, u = total3(p, r, r / tl.maximum(base(x, t, e), 1e-30))
        past = tl.where(s < FAR, 1.0, past)
        bend = tl.where((slope > 0.0) & (past == 0.0), s * u / (slope * slope) - 1.0, 0.0)
        step = step_of(s, slope, bend, e)
        # Where alpha is near 1, the entries that are not seen here change more than this.
        moving = unsettled(s, step, t, tl.where(e < 0.25, 0.01, 0.001))
        t = tl.minimum(tl.maximum(t + step, 0.0), tied)
        rounds += 1
        go = any_row(moving, x) & (rounds < ROUNDS)
    return t, bend


@triton.jit
def probabilities(x, e):
    """``p`` of a tile ``[R, C, L]`` of scores measured from their maxima, for ``e [R, 1, 1]`` from 0 to 1."""
    rest, most = powers(e)
    tied = _threshold.tied_level(e, x.shape[1] * x.shape[2])  # the threshold of equal scores, which none passes
    t, bend = begin(tl.max(x, 1, keep_dims=True), e, tied)
    # The last step drops entries of up to its size, whose probabilities are the power 1/e of it.
    enough = tl.minimum(tl.maximum(tl.exp2(-23.0 * e), 4e-7), 1e-3)
    r = tl.zeros_like(x)
    step = tl.zeros_like(e)
    rounds = 0
    go = True
    while go:
        p, r = terms(x, t, e, rest, most)
        s, slope = total2(p, r)
        bend = tl.where(s < FAR, 0.0, bend)
        step = step_of(s, slope, bend, e)
        moving = unsettled(s, step, t, enough)
        t = tl.where(moving, tl.minimum(tl.maximum(t + step, 0.0), tied), t)
        rounds += 1
        go = any_row(moving, x) & (rounds < ROUNDS)
    # The last step to second order, b^(1/e - 1) (b - step + (1 - e) step^2 / 2b).
    b = base(x, t, e)
    p = r * tl.maximum(b - step + (0.5 * rest * step * step) * inverse(tl.maximum(b, 1e-30)), 0.0)
    return tl.where(b > e * step, p, 0.0)


@triton.jit
def unsettled(s, step, t, enough):
    """Whether another step is needed; not where it would be lost in the rounding of ``t``, nor without entries."""
    return (tl.abs(s - 1.0) > enough) & (tl.abs(step) > 2.4e-7 * (1.0 + t)) & (s > 0.0)


@triton.jit(do_not_specialize=["rows"])
def forward(
    z_ptr,
    p_ptr,
    alpha_ptr,
    alpha,
    rows,
    K,
    z_stride,
    PER_ROW: tl.constexpr,
    EVEN: tl.constexpr,
    R: tl.constexpr,
    C: tl.constexpr,
    L: tl.constexpr,
):
    """Probabilities ``p [rows, K]`` of scores ``z``, of rows whose alpha is from 1 to 2. ``EVEN`` as in ``_sparse``."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None, None]
    column = tl.arange(0, C)[None, :, None] * L + tl.arange(0, L)[None, None, :]
    here = (row < rows) & (column < K)
    if PER_ROW:
        a = tl.load(alpha_ptr + row, mask=row < rows, other=2.0)
    else:
        a = tl.full([R, 1, 1], 0.0, tl.float32) + alpha
    ours = (a >= 1.0) & (a <= 2.0)
    if tl.max(ours.to(tl.int32)) > 0:
        if EVEN:
            x = tl.load(z_ptr + row * z_stride + column).to(tl.float32)
        else:
            x = tl.load(z_ptr + row * z_stride + column, mask=here, other=float("-inf")).to(tl.float32)
        top = largest(x)
        x = tl.maximum(x - tl.where(top == float("-inf"), 0.0, top), LOWEST)
        p = probabilities(x, tl.where(ours, a - 1.0, 1.0))
        p = tl.where(top < float("inf"), p, float("nan"))
        if EVEN and R == 1:
            tl.store(p_ptr + row * K + column, p)
        else:
            tl.store(p_ptr + row * K + column, p, mask=here & ours)


@triton.jit(do_not_specialize=["rows"])
def outside(
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
    """The other rows, whose alpha is below 1 or above 2: mostly none, so that a program has ``TURNS`` tiles of ``R``.

    An alpha that is not a number gives rows that are none.
    """
    first = tl.program_id(0).to(tl.int64) * (R * TURNS)
    row = first + tl.arange(0, R * TURNS)
    a = tl.load(alpha_ptr + row, mask=row < rows, other=2.0)
    if tl.max(((a >= 1.0) & (a <= 2.0)).to(tl.int32) ^ 1) > 0:
        turn = 0
        while turn < TURNS:
            tile(z_ptr, p_ptr, alpha_ptr, first + turn * R, rows, K, z_stride, R, BLOCK)
            turn += 1


@triton.jit
def tile(z_ptr, p_ptr, alpha_ptr, first, rows, K, z_stride, R: tl.constexpr, BLOCK: tl.constexpr):
    row = first + tl.arange(0, R)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    a = _simplex.alpha_of(2.0, alpha_ptr, row, rows, True, R)
    theirs = (a >= 1.0) & (a <= 2.0)
    if tl.max(theirs.to(tl.int32) ^ 1) > 0:
        x = tl.load(z_ptr + row * z_stride + column, mask=(row < rows) & (column < K), other=float("-inf"))
        x = x.to(tl.float32)
        top = largest_of_row(x)
        x -= tl.where(top == float("-inf"), 0.0, top)
        p = tl.full([R, BLOCK], float("nan"), tl.float32)
        if tl.max((a < 1.0).to(tl.int32)) > 0:
            e = tl.where(a < 1.0, a - 1.0, 1.0)
            v = tl.where(x > float("-inf"), e * x, x)
            p = tl.where(a < 1.0, _threshold.deformed(x, v, e, tl.full([R, 1], 1.0, tl.float32)), p)
        if tl.max((a > 2.0).to(tl.int32)) > 0:
            p = tl.where(a > 2.0, _steep.steep(x, tl.where(a > 2.0, a - 1.0, 1.0)), p)
        p = tl.where(top < float("inf"), p, float("nan"))
        tl.store(p_ptr + row * K + column, p, mask=(row < rows) & (column < K) & (theirs == 0))
