"""Thresholds of rows whose largest entries are 0 and whose absent ones are ``-inf``.

All of them move a threshold from the left end by Newton's or Halley's step until the mass is right. A step needs two or
three sums over a row: what an entry adds to them is in ``*_terms``, what follows from the sums in ``*_step``, so that
rows that fit into registers and rows that do not share both. The last step is not added to the threshold, which would
round it, but taken from what lies above it. Rows of NaN stop at once, since no comparison with NaN holds.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.numerics import any_row, exp, log_base, one_minus_exp, sum1, sum3

ROUNDS = tl.constexpr(64)  # 2 to 11 are needed; for what nobody thought of
FAR = tl.constexpr(0.8)  # of the mass: a step to less of it went too far past the solution to be Halley's again


@triton.jit
def sparsemax_terms(x, t):
    """Of ``[x - t]_+``: mass and count."""
    above = x > t
    return tl.where(above, x - t, 0.0), above.to(tl.float32)


@triton.jit
def sparsemax_step(mass, count, t):
    """Michelot's round, that is Newton from the left: finite, never past the solution. The step, and who takes it."""
    step = (mass - 1.0) / tl.maximum(count, 1.0)
    return step, (mass - 1.0 > 4e-7) & (t + step > t)


@triton.jit
def entmax15_terms(x, t):
    """Of ``a = [x / 2 - t]_+``: sums of its square, itself, and 1."""
    above = tl.maximum(0.5 * x - t, 0.0)
    return above * above, above, (above > 0.0).to(tl.float32)


@triton.jit
def entmax15_step(mass, slope, count, t):
    """Halley on the norm of what is above ``t``."""
    length = tl.sqrt(mass)
    newton = (mass - length) / slope
    bend = (length - 1.0) * (mass * count - slope * slope) / (2.0 * length * slope * slope)
    step = tl.where(slope > 0.0, newton / tl.maximum(1.0 - bend, 0.5), 0.0)
    # Entries that the last step drops are smaller than it, and count by their square.
    return step, (tl.abs(mass - 1.0) > 1e-4) & (t + step != t)


@triton.jit
def log_deformed(x, v, e, level, step):
    """Of ``exp_e(y) = [1 + e y]_+^(1/e)`` at ``y = x - level - step``: its logarithm, its base, and where there is one.

    ``e`` is alpha - 1: negative for heavy tails, 0 for softmax. ``v`` is ``e x``, given as the caller knows it best.
    """
    flat = e == 0.0
    shift, little = e * level, e * step
    # At the edge of the support v is nearly shift - 1, and their difference exact; at the maximum v - shift is.
    base = tl.where(flat, 1.0, v + (1.0 - shift) - little)
    inside = (base > 0.0) & (x > float("-inf"))
    above = tl.where(inside, v - shift - little, 0.0)
    logarithm = log_base(tl.where(inside, base, 1.0), above) / tl.where(flat, 1.0, e)
    return tl.where(flat, x - level - step, logarithm), base, inside


@triton.jit
def deformed_terms(x, v, e, level):
    """Of ``p = exp_e(x - level)``: sums of itself, and of its first and second slope."""
    log_p, base, inside = log_deformed(x, v, e, level, 0.0 * level)
    p = tl.where(inside, exp(log_p), 0.0)
    over = tl.where(inside, 1.0 / base, 0.0)
    return p, p * over, p * over * over


@triton.jit
def deformed_step(s, r, u, e, level):
    """Halley on ``(s^e - 1) / e``, which is convex and falls with the level."""
    flat = e == 0.0
    excess = tl.where(s > 0.0, s, 1.0) - 1.0
    log_s = log_base(1.0 + excess, excess)
    fall = tl.where(flat, log_s, one_minus_exp(-e * log_s) / tl.where(flat, 1.0, e))
    # Beyond e = 1/2 the second slope is that of the smallest entries alone, and a step by it may go past the solution
    # and back for ever: Newton's, then, which comes from the left and stays there.
    bend = tl.where(e > 0.5, 0.0, (1.0 - e) * fall * (s * u - r * r) / (2.0 * r * r))
    step = tl.where(r > 0.0, s * fall / r / tl.maximum(1.0 - bend, 0.5), 0.0)
    # What the last step drops counts by its power 1 / e; beyond 1e-3 Halley itself is not exact enough. And below a few
    # units in the last place of the level, steps would go back and forth.
    enough = tl.minimum(tl.maximum(exp(-16.0 * e), 4e-7), 1e-3)
    return step, (tl.abs(s - 1.0) > enough) & (tl.abs(step) > 4e-7 * (1.0 + level))


@triton.jit
def straight(s, r, u, past):
    """The second slope, or where ``past`` one that makes Halley's step Newton's."""
    return tl.where(past > 0.0, r * r / tl.where(s > 0.0, s, 1.0), u)


@triton.jit
def tied_level(e, size):
    """The level of ``size`` equal scores, which none passes."""
    flat = e == 0.0
    log_size = tl.log(1.0 * size) + 0.0 * e
    return tl.where(flat, log_size, one_minus_exp(-e * log_size) / tl.where(flat, 1.0, e))


@triton.jit
def level_of(x, v, e):
    """The level of a tile ``[R, BLOCK]``, and a last step; ``e <= 1``."""
    tied = tied_level(e, x.shape[1])
    level = tl.zeros_like(e)
    step = tl.zeros_like(e)
    past = tl.zeros_like(e)
    rounds = 0
    go = True
    while go:
        s, r, u = deformed_terms(x, v, e, level)
        s, r, u = sum3(s, r, u)
        past = tl.where(s < FAR, 1.0, past)
        u = straight(s, r, u, past)
        step, moving = deformed_step(s, r, u, e, level)
        level = tl.where(moving, tl.minimum(level + step, tied), level)
        rounds += 1
        go = any_row(moving, x) & (rounds < ROUNDS)
    return level, step


@triton.jit
def deformed(x, v, e, share):
    """``exp_e(x - level)^share`` of a tile ``[R, BLOCK]``, brought to sum one; ``exp_e`` itself does."""
    level, step = level_of(x, v, e)
    log_p, _, inside = log_deformed(x, v, e, level, step)
    p = tl.where(inside, exp(log_p * share), 0.0)
    s = sum1(p)
    return p / tl.where(s > 0.0, s, 1.0)


@triton.jit
def normed(z, x, top, a):
    """Normmax of scores ``z``, or ``x`` measured from their maxima ``top``: its threshold is that of an entmax.

    Beyond alpha = 2 the smallest probabilities are roots of their distances to it, which then have to be known to more
    digits than float32 has.
    """
    e = 1.0 - 1.0 / a
    level, step = level_of(x, x, e)
    log_p, _, inside = log_deformed(x, x, e, level, step)
    p = tl.where(inside, exp(log_p / a), 0.0)
    if tl.max(a) > 2.0:
        wide = 1.0 - 1.0 / a.to(tl.float64)
        t = wide * (level.to(tl.float64) + step.to(tl.float64)) - 1.0
        b = above(z.to(tl.float64) - top.to(tl.float64), t, wide)
        root = exp(log_base(tl.where(b > 0.0, b, 1.0), b - 1.0) / (a - 1.0))
        p = tl.where(a > 2.0, tl.where(b > 0.0, root, 0.0), p)
    s = sum1(p)
    return p / tl.where(s > 0.0, s, 1.0)


@triton.jit
def above(x, t, e):
    """``[x - t]_+`` such that its powers ``1 / e`` sum to one, in float64 from a ``t`` near the right one on."""
    rounds = 0
    go = True
    while go:
        b = tl.maximum(x - t, 0.0)
        some = b > 0.0
        power = tl.where(some, tl.exp2(tl.log2(tl.where(some, b, 1.0)) / e), 0.0)
        slope = sum1(tl.where(some, power.to(tl.float32) / tl.where(some, b, 1.0).to(tl.float32), 0.0)).to(tl.float64)
        step = e * (sum1(power) - 1.0) / tl.where(slope > 0.0, slope, 1.0)
        t = tl.where(tl.abs(step) < 1.0, t + step, t)  # not for rows without entries, or of NaN
        moving = (tl.abs(step) > 2e-7) & (tl.abs(step) < 1.0)
        rounds += 1
        go = any_row(moving, x) & (rounds < ROUNDS)
    return tl.maximum(x - t, 0.0).to(tl.float32)
