"""One program fits one row, from points as they are given through all iterations to the mixture.

See ``../__init__.py`` for the formulas. What belongs to the components is ``[K]``, in registers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.mixtures.triton.component import LEAST_MASS, hold, moments, score
from omegamax.kernels.mixtures.triton.frame import frame_points
from omegamax.kernels.mixtures.triton.members import GIVEN, copy_labels, start_row
from omegamax.kernels.mixtures.triton.points import fit_all, gather, gather_members


@triton.jit
def store_state(ptr, k, kept, weight, u, v, a, b, c, N: tl.constexpr, F: tl.constexpr):
    """Write the components of a row."""
    at = ptr + F * k
    tl.store(at, weight, mask=kept)
    tl.store(at + 1, u, mask=kept)
    tl.store(at + 1 + N, a, mask=kept)
    if N == 2:
        tl.store(at + 2, v, mask=kept)
        tl.store(at + 4, b, mask=kept)
        tl.store(at + 5, c, mask=kept)


@triton.jit
def store_mixture(pi_ptr, mean_ptr, cov_ptr, row, k, kept, weight, u, v, a, b, c, N: tl.constexpr, K: tl.constexpr):
    """Write weights, means and whole covariances of a row."""
    at = row * K + k
    tl.store(pi_ptr + at, weight, mask=kept)
    tl.store(mean_ptr + N * at, u, mask=kept)
    tl.store(cov_ptr + N * N * at, a, mask=kept)
    if N == 2:
        tl.store(mean_ptr + 2 * at + 1, v, mask=kept)
        tl.store(cov_ptr + 4 * at + 1, b, mask=kept)
        tl.store(cov_ptr + 4 * at + 2, b, mask=kept)
        tl.store(cov_ptr + 4 * at + 3, c, mask=kept)


@triton.jit
def maximise(
    s0, s1, s2, s3, s4, s5, u, v, all_u, all_v, all_a, all_b, all_c, spread_u, spread_v, floor, N: tl.constexpr
):
    """Return components from sums about ``u, v``; one without mass gets weight 0, and the moments of all points."""
    mass = tl.where(s0 > LEAST_MASS, s0, 0.0)
    u, v, a, b, c = moments(mass, s1, s2, s3, s4, s5, u, v, spread_u, spread_v)
    dead = mass == 0.0
    u, v = tl.where(dead, all_u, u), tl.where(dead, all_v, v)
    a, b, c = hold(tl.where(dead, all_a, a), tl.where(dead, all_b, b), tl.where(dead, all_c, c), floor, N)
    return mass / tl.sum(mass, 0), u, v, a, b, c


@triton.jit(
    do_not_specialize=[
        "floor_stride", "spread_stride", "count_stride", "inner", "sets", "examples", "rows", "restarts", "iterations"
    ]
)  # fmt: skip
def em_kernel(
    x_ptr,
    used_ptr,
    p_ptr,
    sums_ptr,
    floor_ptr,
    spread_ptr,
    count_ptr,
    draws_ptr,
    given_ptr,
    taken_ptr,
    labels_ptr,
    nearest_ptr,
    near_ptr,
    sides_ptr,
    states_ptr,
    values_ptr,
    pi_ptr,
    mean_ptr,
    cov_ptr,
    floor_stride,
    spread_stride,
    count_stride,
    inner,
    sets,
    examples,
    rows,
    restarts,
    iterations,
    L,
    LEAST: tl.constexpr,
    FLOORED: tl.constexpr,
    SPREAD: tl.constexpr,
    INIT: tl.constexpr,
    COUNT: tl.constexpr,
    DRAWN: tl.constexpr,
    SEARCH: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    COMPONENTS: tl.constexpr,
    LEVELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the mixture of each row, in the units of the points, and what the way back needs.

    That are states ``[iterations + 1, rows, K, F]``, members ``[rows, L]`` at the start, points ``[rows, L, N]`` in
    their frame, and of it ``[rows, 6]``: floor, spread along both axes, unit, sum of the weights, and 1 if something is
    not finite. A ``SEARCH`` writes the log-likelihood of each row, in place of the states.
    """
    F: tl.constexpr = 1 + N + N * (N + 1) // 2
    row = tl.program_id(0).to(tl.int64)
    example = row % examples
    p_ptr += example * L
    near_ptr += row * L * N
    labels_ptr += row * L
    set_ = example // inner % sets
    unit, origin_u, origin_v, low_u, high_u, low_v, high_v, lost = frame_points(
        x_ptr + set_ * L * N, used_ptr + set_ * L, p_ptr, near_ptr, L, N, BLOCK
    )
    total = tl.load(sums_ptr + 2 * example)
    broken = lost | (total != total)
    floor = unit * 0.0 + LEAST
    if FLOORED:
        floor = tl.maximum(tl.load(floor_ptr + example * floor_stride).to(tl.float64) / (unit * unit), floor)
    spread_u, spread_v = unit * 0.0, unit * 0.0
    if SPREAD:
        spread_ptr += example * spread_stride
        spread_u = tl.load(spread_ptr).to(tl.float64) / (unit * unit)
        spread_v = tl.load(spread_ptr + N - 1).to(tl.float64) / (unit * unit)
    if INIT == GIVEN:
        start = tl.load(taken_ptr + example).to(tl.int64)
        copy_labels(given_ptr + (start * examples + example) * L, labels_ptr, L, BLOCK)
    else:
        start_row(
            (row // examples).to(tl.int32), example, examples, near_ptr, p_ptr, labels_ptr, nearest_ptr + row * L,
            draws_ptr, count_ptr, count_stride, restarts, low_u, high_u, low_v, high_v, L,
            N, K, INIT, COUNT, DRAWN, LEVELS, BLOCK,
        )  # fmt: skip
    k = tl.arange(0, COMPONENTS)
    kept = k < K
    zero = tl.zeros((COMPONENTS,), tl.float64)
    all_u, all_v, all_a, all_b, all_c = fit_all(near_ptr, p_ptr, spread_u, spread_v, floor, zero, L, N, BLOCK)
    s0, s1, s2, s3, s4, s5 = gather_members(near_ptr, p_ptr, labels_ptr, k, zero, L, N, BLOCK)
    weight, u, v, a, b, c = maximise(
        s0, s1, s2, s3, s4, s5, zero, zero, all_u, all_v, all_a, all_b, all_c, spread_u, spread_v, floor, N
    )
    at = states_ptr + row * K * F
    if not SEARCH:
        store_state(at, k, kept, weight, u, v, a, b, c, N, F)
    for _t in range(iterations):
        t0, t1, t2, t3 = score(weight, a, b, c, spread_u, spread_v, N)
        s0, s1, s2, s3, s4, s5, _ = gather(near_ptr, p_ptr, u, v, t0, t1, t2, t3, zero, L, N, BLOCK)
        weight, u, v, a, b, c = maximise(
            s0, s1, s2, s3, s4, s5, u, v, all_u, all_v, all_a, all_b, all_c, spread_u, spread_v, floor, N
        )
        if not SEARCH:
            at += rows.to(tl.int64) * K * F
            store_state(at, k, kept, weight, u, v, a, b, c, N, F)
    if SEARCH:
        t0, t1, t2, t3 = score(weight, a, b, c, spread_u, spread_v, N)
        s0, s1, s2, s3, s4, s5, value = gather(near_ptr, p_ptr, u, v, t0, t1, t2, t3, zero, L, N, BLOCK)
        tl.store(values_ptr + row, tl.where(broken, float("nan"), value - N * tl.log(unit)))
    sides_ptr += 6 * row
    tl.store(sides_ptr, floor)
    tl.store(sides_ptr + 1, spread_u)
    tl.store(sides_ptr + 2, spread_v)
    tl.store(sides_ptr + 3, unit)
    tl.store(sides_ptr + 4, total)
    tl.store(sides_ptr + 5, broken.to(tl.float64))
    square = unit * unit
    weight, u, v = tl.where(broken, float("nan"), weight), u * unit + origin_u, v * unit + origin_v
    u, v = tl.where(broken, float("nan"), u), tl.where(broken, float("nan"), v)
    store_mixture(pi_ptr, mean_ptr, cov_ptr, row, k, kept, weight, u, v, a * square, b * square, c * square, N, K)
