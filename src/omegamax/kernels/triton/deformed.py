"""Levels of deformed exponentials: ``p = exp_e(x - l)`` summing to one, for entmax and normmax of any alpha.

``exp_e(y) = [1 + e y]_+^(1/e)`` with ``e = alpha - 1``: negative for heavy tails, with limit ``exp`` at 0 (softmax).
Rows ``x`` have maximum 0 and ``-inf`` where there is no entry. The level ``l`` moves from its lower bound 0 by Newton's
or Halley's steps until the mass is 1. A step needs two or three sums over a row: what an entry adds to them is in
``*_terms``, what follows from the sums in ``*_step``, so that rows in registers and longer ones share both. The last
step is not added to the level, which would round it, but subtracted apart. Rows with NaN stop at once, since no
comparison with NaN holds.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.device import (
    MAX_STEPS,
    OVERSHOT,
    any_row,
    exp,
    log_accurate,
    one_minus_exp,
    row_sum,
    row_sum3,
)


@triton.jit
def log_exp_e(x, v, e, level, step):
    """Return ``log exp_e(x - level - step)``, its base ``[1 + e (x - level - step)]``, and where that is positive.

    ``v`` is ``e x``, given as exactly as the caller knows it.
    """
    softmax = e == 0.0
    shift, small = e * level, e * step
    # At the edge of the support v is nearly shift - 1, and their difference exact; at the maximum v - shift is.
    base = tl.where(softmax, 1.0, v + (1.0 - shift) - small)
    inside = (base > 0.0) & (x > float("-inf"))
    base_minus_1 = tl.where(inside, v - shift - small, 0.0)
    logarithm = log_accurate(tl.where(inside, base, 1.0), base_minus_1) / tl.where(softmax, 1.0, e)
    return tl.where(softmax, x - level - step, logarithm), base, inside


@triton.jit
def exp_e_terms(x, v, e, level):
    """Return ``p = exp_e(x - level)`` and the terms of its first and second derivative in the level."""
    log_p, base, inside = log_exp_e(x, v, e, level, 0.0 * level)
    p = tl.where(inside, exp(log_p), 0.0)
    inverse = tl.where(inside, 1.0 / base, 0.0)
    return p, p * inverse, p * inverse * inverse


@triton.jit
def exp_e_step(s, r, u, e, level):
    """Return Halley's step on ``(s^e - 1) / e``, convex and decreasing in the level, and which rows take it."""
    softmax = e == 0.0
    excess = tl.where(s > 0.0, s, 1.0) - 1.0
    log_s = log_accurate(1.0 + excess, excess)
    decrease = tl.where(softmax, log_s, one_minus_exp(-e * log_s) / tl.where(softmax, 1.0, e))
    # Beyond e = 1/2 the smallest entries dominate the second derivative, and Halley's steps may oscillate for ever:
    # Newton's, then, which come from the left and stay there.
    curvature = tl.where(e > 0.5, 0.0, (1.0 - e) * decrease * (s * u - r * r) / (2.0 * r * r))
    step = tl.where(r > 0.0, s * decrease / r / tl.maximum(1.0 - curvature, 0.5), 0.0)
    # What the last step drops counts by its power 1 / e; beyond 1e-3 Halley itself is not exact enough. And below a few
    # units in the last place of the level, steps would go back and forth.
    tolerance = tl.minimum(tl.maximum(exp(-16.0 * e), 4e-7), 1e-3)
    return step, (tl.abs(s - 1.0) > tolerance) & (tl.abs(step) > 4e-7 * (1.0 + level))


@triton.jit
def newton_curvature(s, r, u, overshot):
    """Return the second derivative ``u``, or where ``overshot`` one that makes Halley's step Newton's."""
    return tl.where(overshot > 0.0, r * r / tl.where(s > 0.0, s, 1.0), u)


@triton.jit
def level_of_ties(e, size):
    """Return the level of ``size`` equal scores, which no row exceeds."""
    softmax = e == 0.0
    log_size = tl.log(1.0 * size) + 0.0 * e
    return tl.where(softmax, log_size, one_minus_exp(-e * log_size) / tl.where(softmax, 1.0, e))


@triton.jit
def solve_level(x, v, e):
    """Return the level of each row of a plain tile, and a last step to be added to it; ``e <= 1``."""
    highest = level_of_ties(e, x.shape[1])
    level = tl.zeros_like(e)
    step = tl.zeros_like(e)
    overshot = tl.zeros_like(e)
    steps = 0
    go = True
    while go:
        s, r, u = exp_e_terms(x, v, e, level)
        s, r, u = row_sum3(s, r, u)
        overshot = tl.where(s < OVERSHOT, 1.0, overshot)
        u = newton_curvature(s, r, u, overshot)
        step, moving = exp_e_step(s, r, u, e, level)
        level = tl.where(moving, tl.minimum(level + step, highest), level)
        steps += 1
        go = any_row(moving, x) & (steps < MAX_STEPS)
    return level, step


@triton.jit
def exp_e_probabilities(x, v, e):
    """Return ``exp_e(x - level)`` of a plain tile, normalised."""
    level, step = solve_level(x, v, e)
    log_p, _, inside = log_exp_e(x, v, e, level, step)
    p = tl.where(inside, exp(log_p), 0.0)
    s = row_sum(p)
    return p / tl.where(s > 0.0, s, 1.0)
