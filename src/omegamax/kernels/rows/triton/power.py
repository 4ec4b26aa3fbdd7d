"""Sparsemax, entmax15 and other moderate powers of rows that fit into one program: read once, written once.

They are ``p = [z / q - t]_+^q`` with ``q = 1 / (alpha - 1)`` from 1 to 9 and a threshold ``t`` to make them sum to 1.
A tile ``[R, C, L]`` holds ``R`` rows of ``C L`` entries, and a thread has entries with all numbers along ``C``: what is
summed or compared along it stays in one thread. The largest along ``C`` are solved first. They are few, hold most of
the support, and the threshold of some entries is never above that of all, so that one or two rounds over all remain.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.rows.triton.exponent import (
    ENTMAX15,
    POWER,
    SPARSEMAX,
    bend_term,
    exponent,
    lifted,
    step_of,
    terms,
    unsettled,
)
from omegamax.kernels.triton.numerics import add2, add3, larger
from omegamax.kernels.triton.tiles import read, sheaf_of, write

ROUNDS = tl.constexpr(64)  # 2 to 11 are needed; for what nobody thought of
# A step of Halley's that went past the solution to a mass as small as this may leap to and fro for ever. From there on
# steps are Newton's: at most one of them goes back past it, the others come from the left and stay there.
FAR = tl.constexpr(0.8)


@triton.jit
def largest(x):
    """The maximum of each row, ``[R, 1, 1]``; NaN if the row holds one, which tl.max passes by."""
    return tl.reduce(tl.reduce(x, 1, larger, keep_dims=True), 2, larger, keep_dims=True)


@triton.jit
def total(a):
    return tl.sum(tl.sum(a, 1, keep_dims=True), 2, keep_dims=True)


@triton.jit
def total2(a, b):
    """Two sums in one reduction, which waits for the other warps once."""
    a, b = tl.reduce((a, b), 1, add2, keep_dims=True)
    return tl.reduce((a, b), 2, add2, keep_dims=True)


@triton.jit
def total3(a, b, c):
    a, b, c = tl.reduce((a, b, c), 1, add3, keep_dims=True)
    return tl.reduce((a, b, c), 2, add3, keep_dims=True)


@triton.jit
def any_row(moving, x):
    """Whether any row of a tile ``x`` is ``moving [R, 1, 1]``: the end of a loop, which must be the same in all lanes.

    Sums may differ from lane to lane in the last bit if a lane has but one entry of a row, because a product is fused
    with the addition that follows; lanes that leave a loop at different times wait for each other for ever. Maxima of
    integers do not differ. In a wide tile of one row a lane has several entries.
    """
    if x.shape[0] > 1 or x.shape[2] < 128:
        return tl.max(tl.broadcast_to(moving.to(tl.int32), [x.shape[0], 1, x.shape[2]])) > 0
    return tl.max(moving.to(tl.int32)) > 0


@triton.jit
def begin(x, t, fraction, KIND: tl.constexpr, N: tl.constexpr, ENOUGH: tl.constexpr):
    """The threshold from ``t``, below it, on; a last step; and the bend there, or for sparsemax the support's size."""
    q = exponent(fraction, KIND, N)
    size = 1.0 * x.shape[1] * x.shape[2]
    tied = -1.0 / size  # the threshold of equal scores, which none passes
    if KIND == ENTMAX15:
        tied = -1.0 / tl.sqrt(size)
    elif KIND == POWER:
        tied = -tl.exp2(-tl.log2(size) / q)
    step = tl.zeros_like(t)
    bend = tl.zeros_like(t)
    past = tl.zeros_like(t)
    rounds = 0
    go = True
    while go:
        b = lifted(x, t, q, KIND)
        s, r = terms(b, fraction, KIND, N)
        if KIND == SPARSEMAX:
            s, r = total2(s, r)
            bend = r
        elif KIND == POWER and N == 1:
            s, r = total2(s, r)
        else:
            s, r, u = total3(s, r, bend_term(b, r, KIND, N))
            past = tl.where(s < FAR, 1.0, past)
            bend = tl.where((r > 0.0) & (past == 0.0), s * u / (r * r) - 1.0, 0.0)
        step = step_of(s, r, bend, q, KIND)
        moving = unsettled(s, step, t, KIND, ENOUGH)
        t = tl.where(moving, tl.minimum(t + step, tied), t)
        rounds += 1
        go = any_row(moving, x) & (rounds < ROUNDS)
    return t, step, bend


@triton.jit
def probabilities(x, top, fraction, KIND: tl.constexpr, N: tl.constexpr):
    """``p`` of scores ``x`` measured from their maxima ``top``; NaN where that is not finite, 0 without entries."""
    t = tl.zeros([x.shape[0], 1, 1], tl.float32) - 1.0
    if x.shape[1] > 1 or KIND == POWER:
        t, step, bend = begin(tl.max(x, 1, keep_dims=True), t, fraction, KIND, N, 4e-7 if KIND == SPARSEMAX else 1e-3)
        if KIND != SPARSEMAX:
            t += step
        return finish(x, top, t, bend, fraction, KIND, N)
    t, step, bend = begin(x, t, fraction, KIND, N, 4e-7 if KIND == SPARSEMAX else 1e-4)
    return at_threshold(x, top, t, step, fraction, KIND, N)


@triton.jit
def finish(x, top, t, bend, fraction, KIND: tl.constexpr, N: tl.constexpr):
    """The same, given a threshold near the right one."""
    q = exponent(fraction, KIND, N)
    if KIND == SPARSEMAX:
        mass = total(tl.maximum(x - t, 0.0))
        step = (mass - 1.0) / tl.maximum(bend, 1.0)
        # Mostly the support is known by now, and so is its size.
        if any_row(mass - 1.0 > 4e-7, x):
            t, step, _ = begin(x, t, fraction, KIND, N, 4e-7)
        return at_threshold(x, top, t, step, fraction, KIND, N)
    r = tl.zeros_like(x)
    excess = tl.zeros_like(t)
    step = tl.zeros_like(t)
    rounds = 0
    go = True
    if KIND == ENTMAX15:
        while go:
            b = tl.maximum(0.5 * x - t, 0.0)
            s, slope = total2(b * b, b)
            bend = tl.where(s < FAR, 0.0, bend)
            step = step_of(s, slope, bend, q, KIND)
            # Entries that the last step drops are smaller than it, and count by their square.
            moving = unsettled(s, step, t, KIND, 1e-4)
            t = tl.where(moving, t + step, t)
            rounds += 1
            go = any_row(moving, x) & (rounds < ROUNDS)
        return at_threshold(x, top, t, step, fraction, KIND, N)
    while go:
        p, r = terms(lifted(x, t, q, KIND), fraction, KIND, N)
        s, slope = total2(p, r)
        bend = tl.where(s < FAR, 0.0, bend)
        step = step_of(s, slope, bend, q, KIND)
        moving = unsettled(s, step, t, KIND, 2e-5)
        excess = (s - 1.0) / tl.where(slope > 0.0, slope, 1.0)
        t = tl.where(moving, t + step, t)
        rounds += 1
        go = any_row(moving, x) & (rounds < ROUNDS)
    # The last step to first order, b^q - excess b^(q - 1): the rest of it is beyond the digits of a probability.
    p = r * tl.maximum(lifted(x, t, q, KIND) - excess, 0.0)
    return tl.where(top < float("inf"), p, float("nan"))


@triton.jit
def at_threshold(x, top, t, step, fraction, KIND: tl.constexpr, N: tl.constexpr):
    """``p`` at ``t + step``; the step is not added to the threshold, which would round it."""
    t = tl.where(top < float("inf"), t, float("nan"))
    if KIND == SPARSEMAX:
        b = x - t - step
    elif KIND == ENTMAX15:
        b = 0.5 * x - t - step
    else:
        b = x * (1.0 / exponent(fraction, KIND, N)) - t - step
    b = tl.maximum(b, 0.0, propagate_nan=tl.PropagateNan.ALL)
    p, _ = terms(b, fraction, KIND, N)
    return p


@triton.jit(do_not_specialize=["rows"])
def forward(
    z_ptr,
    p_ptr,
    fraction,
    rows,
    K,
    z_stride,
    KIND: tl.constexpr,
    N: tl.constexpr,
    EVEN: tl.constexpr,
    R: tl.constexpr,
    C: tl.constexpr,
    L: tl.constexpr,
):
    """Probabilities ``p [rows, K]`` of scores ``z``. ``EVEN``: all programs have ``R`` rows, of ``C L`` entries."""
    row, column, here = sheaf_of(rows, K, R, C, L)
    x = read(z_ptr + row * z_stride, column, here, float("-inf"), EVEN)
    top = largest(x)
    x -= tl.where(top == float("-inf"), 0.0, top)
    p = probabilities(x, top, fraction, KIND, N)
    write(p_ptr + row * K, column, here, p, EVEN)
