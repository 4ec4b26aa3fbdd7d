"""Thresholds of a tile of rows ``[R, BLOCK]`` whose largest entries are 0 and whose absent ones are ``-inf``.

Each function returns the probabilities. All of them move a threshold from the left end by Newton's or Halley's step
until the mass is right, one reduction a step; the last step is not added to the threshold, which would round it, but
taken from what lies above it. Rows of NaN stop at once, since no comparison with NaN holds.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton._numbers import exp, log_base, one_minus_exp, sum1, sum2, sum3

ROUNDS = tl.constexpr(64)  # 2 to 11 are needed; for what nobody thought of


@triton.jit
def sparsemax(x):
    """``[x - t]_+``; Michelot's rounds, that is Newton from the left: finite, never past the solution."""
    t = tl.full([x.shape[0], 1], -1.0, tl.float32)
    step = tl.zeros([x.shape[0], 1], tl.float32)
    go = True
    while go:
        above = x > t
        mass, count = sum2(tl.where(above, x - t, 0.0), above.to(tl.float32))
        step = (mass - 1.0) / tl.maximum(count, 1.0)
        rising = (mass - 1.0 > 4e-7) & (t + step > t)
        t = tl.where(rising, t + step, t)
        go = tl.max(rising.to(tl.int32)) > 0
    return tl.maximum(x - t - step, 0.0)


@triton.jit
def entmax15(x):
    """``[x / 2 - t]_+^2``; Halley on the norm of what is above ``t``."""
    v = 0.5 * x
    tied = -1.0 / tl.sqrt(1.0 * x.shape[1])  # the threshold of equal scores: a step from far off may not pass it
    t = tl.full([x.shape[0], 1], -1.0, tl.float32)
    step = tl.zeros([x.shape[0], 1], tl.float32)
    rounds = 0
    go = True
    while go:
        above = tl.maximum(v - t, 0.0)
        mass, slope, count = sum3(above * above, above, (above > 0.0).to(tl.float32))
        length = tl.sqrt(mass)
        newton = (mass - length) / slope
        bend = (length - 1.0) * (mass * count - slope * slope) / (2.0 * length * slope * slope)
        step = tl.where(slope > 0.0, newton / tl.maximum(1.0 - bend, 0.5), 0.0)
        # Entries that the last step drops are smaller than it, and count by their square.
        moving = (tl.abs(mass - 1.0) > 1e-4) & (t + step != t)
        t = tl.where(moving, tl.minimum(t + step, tied), t)
        rounds += 1
        go = (tl.max(moving.to(tl.int32)) > 0) & (rounds < ROUNDS)
    root = tl.maximum(v - t - step, 0.0)
    return root * root


@triton.jit
def deformed(x, v, e, share):
    """``exp_e(x - level)`` to the power ``share``, where ``exp_e(y) = [1 + e y]_+^(1/e)`` sums to one; ``e <= 1``.

    ``e`` is alpha - 1: negative for heavy tails, 0 for softmax. ``v`` is ``e x``, given as the caller knows it best.
    ``share`` is 1, or 1 / alpha for normmax, whose threshold is that of an entmax. Halley on ``(s^e - 1) / e``, which
    is convex and falls with the level.
    """
    flat = e == 0.0
    inverse = 1.0 / tl.where(flat, 1.0, e)
    size = tl.log(1.0 * x.shape[1]) + 0.0 * e
    tied = tl.where(flat, size, one_minus_exp(-e * size) * inverse)
    # What the last step drops counts by its power 1 / e; beyond 1e-3 Halley itself is not exact enough.
    enough = tl.minimum(tl.maximum(exp(-16.0 * e), 4e-7), 1e-3)
    level = tl.zeros_like(e)
    step = tl.zeros_like(e)
    rounds = 0
    go = True
    while go:
        log_p, base, inside = _log_deformed(x, v, e, inverse, flat, level, 0.0 * level)
        p = tl.where(inside, exp(log_p), 0.0)
        over = tl.where(inside, 1.0 / base, 0.0)
        s, r, u = sum3(p, p * over, p * over * over)
        excess = tl.where(s > 0.0, s, 1.0) - 1.0
        log_s = log_base(1.0 + excess, excess)
        fall = tl.where(flat, log_s, one_minus_exp(-e * log_s) * inverse)
        bend = (1.0 - e) * fall * (s * u - r * r) / (2.0 * r * r)
        step = tl.where(r > 0.0, s * fall / r / tl.maximum(1.0 - bend, 0.5), 0.0)
        # Below a few units in the last place of the level, steps would go back and forth.
        moving = (tl.abs(s - 1.0) > enough) & (tl.abs(step) > 4e-7 * (1.0 + level))
        level = tl.where(moving, tl.minimum(level + step, tied), level)
        rounds += 1
        go = (tl.max(moving.to(tl.int32)) > 0) & (rounds < ROUNDS)
    log_p, base, inside = _log_deformed(x, v, e, inverse, flat, level, step)
    p = tl.where(inside, exp(log_p * share), 0.0)
    s = sum1(p)
    return p / tl.where(s > 0.0, s, 1.0)


@triton.jit
def _log_deformed(x, v, e, inverse, flat, level, step):
    """``log exp_e(x - level - step)``, its base ``1 + e (x - level - step)``, and where there is one."""
    shift, little = e * level, e * step
    # At the edge of the support v is nearly shift - 1, and their difference exact; at the maximum v - shift is.
    base = tl.where(flat, 1.0, v + (1.0 - shift) - little)
    inside = (base > 0.0) & (x > float("-inf"))
    above = tl.where(inside, v - shift - little, 0.0)
    return tl.where(flat, x - level - step, log_base(tl.where(inside, base, 1.0), above) * inverse), base, inside
