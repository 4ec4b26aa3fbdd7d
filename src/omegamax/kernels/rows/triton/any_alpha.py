"""Entmax from softmax to sparsemax, alpha from 1 to 2, which only the kernel sees and each row may have its own of.

With ``e = alpha - 1`` they are ``p = [1 + e (z - t)]_+^(1/e)``, of which ``exp(z - t)`` is the limit. Tiles are those
of ``_sparse``, and so is the order of things: the largest along ``C`` are solved first, then all, in one to three more.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.exponent import inverse
from omegamax.kernels.rows.triton.power import FAR, ROUNDS, any_row, largest, total2, total3
from omegamax.kernels.triton.numerics import flush_exp2, flush_log2
from omegamax.kernels.triton.tiles import read, sheaf_of

LEAST = tl.constexpr(1e-20)  # e of softmax, whose b is 1 + e (z - t) to more digits than there are, and b^(1/e) exp


@triton.jit
def above(x, t, e):
    """``e (x - t)``, in one rounding but for that of ``e t``, which all entries share."""
    return x * e - e * t


@triton.jit
def base(x, c, e):
    """Return ``b = [1 + e (x - t)]_+``, which is ``p^e``, given ``c = 1 - e t``.

    In a long row ``c`` is near 0, and so is ``b``, which must not lose the digits of ``x``.
    """
    return tl.maximum(x * e + c, 0.0)


@triton.jit
def terms(x, t, c, e):
    """Return ``p = b^(1/e)`` and ``p^(2 - alpha) = b^(1/e - 1)``, both 0 at 0, given ``c = 1 - e t``.

    The hardware's logarithm is off by 1e-7 around 1, which ``1/e`` makes large: there ``log2(1 + y)`` is ``y`` times a
    polynomial, to the last digit.
    """
    y = above(x, t, e)
    b = base(x, c, e)
    near = 0.480210643 + y * (-0.371925961 + y * (0.207625517 - y * 0.490224277))
    near = 1.44269499 + y * (-0.721362672 + y * near)
    # The power is above 0 also for sparsemax, so that it makes 0 of 0.
    r = flush_exp2(tl.maximum((1.0 - e) / e, 1e-30) * tl.where(y > -0.25, y * near, flush_log2(b)))
    return r * b, r


@triton.jit
def fall(log_s, e):
    """``(1 - s^-e) / e`` of ``log2 s``, to nearly all digits."""
    y = 0.6931472 * log_s
    u = e * y
    near = y * (1.0 - u * (0.5 - u * (0.16666667 - u * (0.041666667 - u * 0.0083333333))))
    return tl.where(tl.abs(u) < 0.25, near, (1.0 - flush_exp2(-e * log_s)) * inverse(e))


@triton.jit
def step_of(s, r, bend, e):
    """From sums of terms, Halley's step on ``(s^e - 1) / e``, or Newton's where ``bend = s u / r^2 - 1`` is 0.

    To about 1e-7; for the last see :func:`drop_of`.
    """
    down = fall(flush_log2(tl.maximum(s, 1e-30)), e)
    turn = tl.maximum(1.0 - 0.5 * (1.0 - e) * down * bend, 0.5)
    return s * down * inverse(tl.maximum(r * turn, 1e-30))


@triton.jit
def drop_of(s, r, bend, e):
    """The last step, exact: to second order it makes the mass 1."""
    over = tl.where(s > 0.0, s - 1.0, 0.0)
    return over * inverse(tl.maximum(r, 1e-30)) * (1.0 + 0.5 * (1.0 - e) * (1.0 + bend) * over * inverse(s + 1e-30))


@triton.jit
def tied_at(e, size):
    """The threshold of ``size`` equal scores, which none passes; a little above it."""
    return 1.001 * fall(tl.log2(1.0 * size) + 0.0 * e, e) + 1e-6


@triton.jit
def begin(x, e, tied):
    """The threshold ``t`` of a tile, roughly, and the bend there; from 0 on, where the largest would have all mass."""
    t = tl.zeros_like(e)
    bend = tl.zeros_like(e)
    past = tl.where(e > 0.5, 1.0, 0.0)  # there u is that of the smallest entries alone, and not used
    rounds = 0
    go = True
    while go:
        c = 1.0 - e * t
        p, r = terms(x, t, c, e)
        s, slope, u = total3(p, r, r * inverse(tl.maximum(base(x, c, e), 1e-30)))
        past = tl.where(s < FAR, 1.0, past)
        bend = tl.where((slope > 0.0) & (past == 0.0), s * u * inverse(slope * slope + 1e-30) - 1.0, 0.0)
        step = step_of(s, slope, bend, e)
        # Up to alpha = 1.5 the entries that are not seen here change more than this.
        moving = unsettled(s, step, t, tl.where(e < 0.5, 0.1, 0.01))
        t = agreed(tl.minimum(tl.maximum(t + step, 0.0), tied), x)
        rounds += 1
        go = any_row(moving, x) & (rounds < ROUNDS)
    return t, bend


@triton.jit
def probabilities(x, top, e):
    """``p`` of a tile ``[R, C, L]`` of scores measured from their maxima ``top``, for ``e [R, 1, 1]`` up to 1."""
    tied = tied_at(e, x.shape[1] * x.shape[2])
    t, bend = begin(tl.max(x, 1, keep_dims=True), e, tied)
    enough = enough_of(e)
    r = tl.zeros_like(x)
    drop = tl.zeros_like(e)
    rounds = 0
    go = True
    while go:
        p, r = terms(x, t, 1.0 - e * t, e)
        s, slope = total2(p, r)
        bend = tl.where(s < FAR, 0.0, bend)
        step = step_of(s, slope, bend, e)
        drop = drop_of(s, slope, bend, e)
        moving = unsettled(s, step, t, enough)
        t = agreed(tl.where(moving, tl.minimum(tl.maximum(t + step, 0.0), tied), t), x)
        rounds += 1
        go = any_row(moving, x) & (rounds < ROUNDS)
    return last_step(x, top, r, 1.0 - e * t, drop, e)


@triton.jit
def enough_of(e):
    """How near to 1 a mass is for the last step, which drops entries of up to its size, and thus their power 1/e."""
    return tl.minimum(tl.maximum(tl.exp2(-23.0 * e), 4e-7), 1e-3)


@triton.jit
def last_step(x, top, r, c, drop, e):
    """Return ``p`` at ``t + drop`` to second order, given ``c = 1 - e t``; NaN where the largest score is not finite.

    That is ``b^(1/e - 1) (b - drop + (1 - e) drop^2 / 2b)``, in which ``b`` below ``e drop`` would be dropped.
    """
    b = base(x, c, e)
    back = inverse(tl.maximum(b, e * tl.abs(drop) + 1e-30))
    drop = tl.where(top < float("inf"), drop, float("nan"))
    change = b - drop + (0.5 * (1.0 - e) * drop * drop) * back
    return r * tl.maximum(change, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def agreed(t, x):
    """``t [R, 1, 1]`` as all lanes of a row of the tile ``x`` have it; their sums may differ in the last digit.

    They do not in a wide tile of one row, for which see ``any_row``.
    """
    if x.shape[0] > 1 or x.shape[2] < 128:
        return tl.max(tl.broadcast_to(t, [x.shape[0], 1, x.shape[2]]), 2, keep_dims=True)
    return t


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
    row, column, here = sheaf_of(rows, K, R, C, L)
    if PER_ROW:
        a = tl.load(alpha_ptr + row, mask=row < rows, other=2.0)
    else:
        a = tl.full([R, 1, 1], 0.0, tl.float32) + alpha
    ours = (a >= 1.0) & (a <= 2.0)
    if tl.max(ours.to(tl.int32)) > 0:
        x = read(z_ptr + row * z_stride, column, here, float("-inf"), EVEN)
        top = largest(x)
        x -= tl.where(top == float("-inf"), 0.0, top)
        p = probabilities(x, top, tl.where(ours, tl.maximum(a - 1.0, LEAST), 1.0))
        if EVEN and R == 1:
            tl.store(p_ptr + row * K + column, p)
        else:
            tl.store(p_ptr + row * K + column, p, mask=here & ours)
