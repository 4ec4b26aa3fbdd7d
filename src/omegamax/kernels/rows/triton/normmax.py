"""Normmax of rows that fit into one program, read once, written once; and its gradient for alpha up to 2.

With ``q = alpha / (alpha - 1)`` and ``b = [z - t]_+`` the threshold makes the powers ``b^q`` sum to 1, as for an
entmax; the probabilities are the shares of ``b^(q - 1)``. Tiles are those of sparsemax: ``[R, C, L]``, the largest
along ``C``, which a thread has to itself, being solved first.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.exponent import ENTMAX15, bend_term, exponent, step_of, terms, unsettled
from omegamax.kernels.rows.triton.power import FAR, ROUNDS, any_row, largest, total, total2, total3
from omegamax.kernels.triton.numerics import quick_log2
from omegamax.kernels.triton.tiles import read, sheaf_of, tile_of, write


@triton.jit
def level(x, zero, t, bend, fraction, KIND: tl.constexpr, N: tl.constexpr, ENOUGH: tl.constexpr, FIRST: tl.constexpr):
    """The threshold from ``t`` on, a last step, and the bend there, which only the ``FIRST`` search finds out.

    Scores ``x`` are measured from ``zero``.
    """
    q = exponent(fraction, KIND, N)
    tied = -tl.exp2(-tl.log2(1.0 * x.shape[1] * x.shape[2] + 0.0 * t) / q)  # of equal scores, which none passes
    step = tl.zeros_like(t)
    rounds = 0
    go = True
    while go:
        b = tl.maximum(x - zero - t, 0.0)
        s, r = terms(b, fraction, KIND, N)
        if FIRST:
            s, r, u = total3(s, r, bend_term(b, r, KIND, N))
            bend = tl.where((r > 0.0) & (bend >= 0.0), s * u / tl.where(r > 0.0, r * r, 1.0) - 1.0, -1.0)
        else:
            s, r = total2(s, r)
        bend = tl.where(s < FAR, -1.0, bend)  # too far past the solution: from now on steps are Newton's
        step = step_of(s, r, tl.maximum(bend, 0.0), q, KIND)
        moving = unsettled(s, step, t, KIND, ENOUGH)
        t = tl.where(moving, tl.minimum(t + step, tied), t)
        rounds += 1
        go = any_row(moving, x) & (rounds < ROUNDS)
    return t, step, bend


@triton.jit
def exact(z, top, t, q):
    """``[z - top - t]_+`` to the last digits of float32, the threshold being found in float64 from one near it on.

    Powers are taken of one entry along ``C`` at a time, the largest that is left: few are above the threshold.
    """
    t = t.to(tl.float64)
    rounds = 0
    go = True
    while go:
        mass = tl.zeros([z.shape[0], 1, z.shape[2]], tl.float64)
        slope = tl.zeros([z.shape[0], 1, z.shape[2]], tl.float32)
        before = tl.zeros([z.shape[0], 1, z.shape[2]], tl.float32) + float("inf")
        more = True
        while more:
            head = tl.max(tl.where(z < before, z, float("-inf")), 1, keep_dims=True)
            ties = tl.sum((z == head).to(tl.float32), 1, keep_dims=True)
            b = head.to(tl.float64) - top.to(tl.float64) - t
            some = b > 0.0
            b = tl.where(some, b, 1.0)
            power = tl.where(some, tl.exp2(q * tl.log2(b)), 0.0) * ties.to(tl.float64)
            mass += power
            slope += power.to(tl.float32) / b.to(tl.float32)
            before = head
            more = tl.max(tl.max(tl.max(some.to(tl.int32), 2), 1), 0) > 0
        mass = tl.sum(mass, 2, keep_dims=True)
        slope = tl.sum(slope, 2, keep_dims=True).to(tl.float64)
        step = (mass - 1.0) / (q * tl.where(slope > 0.0, slope, 1.0))
        t = tl.where(tl.abs(step) < 1.0, t + step, t)  # not for rows without entries, or of NaN
        rounds += 1
        go = any_row((tl.abs(step) > 2e-7) & (tl.abs(step) < 1.0), z) & (rounds < ROUNDS)
    x = z - top
    back = x - z
    lost = tl.where(x > float("-inf"), (z - (x - back)) - (top + back), 0.0)  # by rounding x
    high = t.to(tl.float32)
    return tl.maximum((x - high) + (lost - (t - high.to(tl.float64)).to(tl.float32)), 0.0)


@triton.jit(do_not_specialize=["rows"])
def forward(
    z_ptr,
    p_ptr,
    alpha,
    fraction,
    rows,
    K,
    z_stride,
    KIND: tl.constexpr,
    N: tl.constexpr,
    STEEP: tl.constexpr,
    EVEN: tl.constexpr,
    R: tl.constexpr,
    C: tl.constexpr,
    L: tl.constexpr,
):
    """Probabilities ``p [rows, K]`` of scores ``z``. ``EVEN``: all programs have ``R`` rows, of ``C L`` entries.

    ``STEEP``: for alpha beyond 2, where the smallest probabilities are roots of their distances to the threshold, which
    then have to be known to more digits than float32 has.
    """
    row, column, here = sheaf_of(rows, K, R, C, L)
    x = read(z_ptr + row * z_stride, column, here, float("-inf"), EVEN)
    top = largest(x)
    zero = tl.where(top == float("-inf"), 0.0, top)
    if not STEEP:
        x -= zero
        zero = tl.zeros([R, 1, 1], tl.float32)
    t = tl.zeros([R, 1, 1], tl.float32) - 1.0
    bend = tl.zeros([R, 1, 1], tl.float32)
    # Entries that the last step drops are smaller than it, and count by their power q.
    enough: tl.constexpr = 1e-4 if KIND == ENTMAX15 else 4e-7 if STEEP else 2e-5
    if C > 1:
        t, step, bend = level(tl.max(x, 1, keep_dims=True), zero, t, bend, fraction, KIND, N, 1e-3, True)
        t, step, bend = level(x, zero, t + step, bend, fraction, KIND, N, enough, False)
    else:
        t, step, bend = level(x, zero, t, bend, fraction, KIND, N, enough, True)
    if STEEP:
        a = tl.zeros([R, 1, 1], tl.float64) + alpha
        b = exact(x, zero, t + step, a / (a - 1.0))
    else:
        b = tl.maximum(x - t - step, 0.0)
    _, p = terms(b, fraction, KIND, N)
    mass = total(p)
    p *= 1.0 / tl.where(mass > 0.0, mass, 1.0)
    p = tl.where(top < float("inf"), p, float("nan"))
    write(p_ptr + row * K, column, here, p, EVEN)


@triton.jit
def add4(a0, a1, a2, a3, b0, b1, b2, b3):
    return a0 + b0, a1 + b1, a2 + b2, a3 + b3


@triton.jit(do_not_specialize=["rows"])
def backward(
    p_ptr,
    g_ptr,
    out_ptr,
    alpha,
    rows,
    K,
    p_stride,
    g_stride,
    SQUARE: tl.constexpr,
    EVEN: tl.constexpr,
    R: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """``||p||^(alpha - 1) / (alpha - 1)`` times ``diag(w) - w p^T - p w^T + sum(w) p p^T`` times ``g``.

    ``w = p^(2 - alpha)`` on the support, which is 1 where alpha is 2 (``SQUARE``).
    """
    row, column, here = tile_of(rows, K, R, BLOCK)
    p = read(p_ptr + row * p_stride, column, here, 0.0, EVEN)
    on = p > 0.0
    g = tl.load(g_ptr + row * g_stride + column, mask=on, other=0.0).to(tl.float32)
    if SQUARE:
        w = on.to(tl.float32)
        power = p * p
    else:
        logarithm = quick_log2(p)
        w = tl.exp2((2.0 - alpha) * logarithm)
        power = tl.exp2(alpha * logarithm)
    power, mean, weight, moved = tl.reduce((power, p * g, w, w * g), 1, add4, keep_dims=True)
    size = tl.exp2((1.0 - 1.0 / alpha) * tl.log2(tl.where(power > 0.0, power, 1.0))) / (alpha - 1.0)
    out = tl.where(on, size * (w * (g - mean) - p * (moved - weight * mean)), 0.0)
    write(out_ptr + row * K, column, here, out, EVEN)
