"""One program fits one row, from its start through all iterations; another goes all the way back.

See ``../__init__.py`` for the formulas. What belongs to the components is ``[K]``, in registers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.mixtures.triton.component import (
    LEAST_MASS,
    hold,
    hold_vjp,
    moments,
    moments_vjp,
    score,
    score_vjp,
)
from omegamax.kernels.mixtures.triton.points import (
    combine,
    differentiate,
    fit_all,
    gather,
    gather_members,
    load_points,
    subtract,
)


@triton.jit
def load_state(ptr, k, kept, N: tl.constexpr, F: tl.constexpr):
    """Return the components of a row; those beyond K have no weight and the covariance 1."""
    at = ptr + F * k
    weight = tl.load(at, mask=kept, other=0.0)
    u = tl.load(at + 1, mask=kept, other=0.0)
    a = tl.load(at + 1 + N, mask=kept, other=1.0)
    if N == 1:
        return weight, u, u, a, a, a
    v = tl.load(at + 2, mask=kept, other=0.0)
    b = tl.load(at + 4, mask=kept, other=0.0)
    c = tl.load(at + 5, mask=kept, other=1.0)
    return weight, u, v, a, b, c


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


@triton.jit
def maximise_vjp(s0, s1, s2, s3, s4, s5, u, v, g0, g1, g2, g3, g4, g5, spread_u, spread_v, floor, N: tl.constexpr):
    """Return means, and about them what the gradient by a component says of the weight of each point in it."""
    mass = tl.where(s0 > LEAST_MASS, s0, 0.0)
    total = tl.sum(mass, 0)
    u, v, a, b, c = moments(mass, s1, s2, s3, s4, s5, u, v, spread_u, spread_v)
    g0 = (g0 - tl.sum(g0 * mass, 0) / total) / total
    g3, g4, g5 = hold_vjp(a, b, c, floor, g3, g4, g5, N)
    if N == 1:
        g2, g4, g5 = 0.0 * g1, 0.0 * g1, 0.0 * g1
    g0, g1, g2, g3, g4, g5 = moments_vjp(mass, a, b, c, spread_u, spread_v, g0, g1, g2, g3, g4, g5)
    dead = mass == 0.0
    g0, g1, g2 = tl.where(dead, 0.0, g0), tl.where(dead, 0.0, g1), tl.where(dead, 0.0, g2)
    g3, g4, g5 = tl.where(dead, 0.0, g3), tl.where(dead, 0.0, g4), tl.where(dead, 0.0, g5)
    return u, v, g0, g1, g2, g3, g4, g5


@triton.jit(do_not_specialize=["examples", "rows", "iterations"])
def em_kernel(
    x_ptr,
    w_ptr,
    labels_ptr,
    floor_ptr,
    spread_ptr,
    states_ptr,
    values_ptr,
    x_stride,
    examples,
    rows,
    L,
    iterations,
    N: tl.constexpr,
    K: tl.constexpr,
    COMPONENTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write ``[iterations + 1, rows, K, F]`` states and the log-likelihood of the last of each row."""
    F: tl.constexpr = 1 + N + N * (N + 1) // 2
    row = tl.program_id(0).to(tl.int64)
    example = row % examples
    x_ptr += example * x_stride
    w_ptr += example * L
    floor = tl.load(floor_ptr + example)
    spread_u, spread_v = tl.load(spread_ptr + N * example), tl.load(spread_ptr + N * example + N - 1)
    k = tl.arange(0, COMPONENTS)
    kept = k < K
    zero = tl.zeros((COMPONENTS,), tl.float64)
    all_u, all_v, all_a, all_b, all_c = fit_all(x_ptr, w_ptr, spread_u, spread_v, floor, zero, L, N, BLOCK)
    s0, s1, s2, s3, s4, s5 = gather_members(x_ptr, w_ptr, labels_ptr + row * L, k, zero, L, N, BLOCK)
    weight, u, v, a, b, c = maximise(
        s0, s1, s2, s3, s4, s5, zero, zero, all_u, all_v, all_a, all_b, all_c, spread_u, spread_v, floor, N
    )
    at = states_ptr + row * K * F
    store_state(at, k, kept, weight, u, v, a, b, c, N, F)
    for _t in range(iterations):
        t0, t1, t2, t3 = score(weight, a, b, c, spread_u, spread_v, N)
        s0, s1, s2, s3, s4, s5, _ = gather(x_ptr, w_ptr, u, v, t0, t1, t2, t3, zero, L, N, BLOCK)
        weight, u, v, a, b, c = maximise(
            s0, s1, s2, s3, s4, s5, u, v, all_u, all_v, all_a, all_b, all_c, spread_u, spread_v, floor, N
        )
        at += rows.to(tl.int64) * K * F
        store_state(at, k, kept, weight, u, v, a, b, c, N, F)
    t0, t1, t2, t3 = score(weight, a, b, c, spread_u, spread_v, N)
    s0, s1, s2, s3, s4, s5, value = gather(x_ptr, w_ptr, u, v, t0, t1, t2, t3, zero, L, N, BLOCK)
    tl.store(values_ptr + row, value)


@triton.jit(do_not_specialize=["examples", "rows", "iterations"])
def em_vjp_kernel(
    x_ptr,
    w_ptr,
    labels_ptr,
    floor_ptr,
    spread_ptr,
    states_ptr,
    gradient_ptr,
    out_ptr,
    x_stride,
    examples,
    rows,
    L,
    iterations,
    N: tl.constexpr,
    K: tl.constexpr,
    COMPONENTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add the gradient by the weights of each row to ``[rows, L]``, from that by its last state, ``[rows, K, F]``."""
    F: tl.constexpr = 1 + N + N * (N + 1) // 2
    row = tl.program_id(0).to(tl.int64)
    example = row % examples
    x_ptr += example * x_stride
    w_ptr += example * L
    labels_ptr += row * L
    out_ptr += row * L
    floor = tl.load(floor_ptr + example)
    spread_u, spread_v = tl.load(spread_ptr + N * example), tl.load(spread_ptr + N * example + N - 1)
    k = tl.arange(0, COMPONENTS)
    kept = k < K
    zero = tl.zeros((COMPONENTS,), tl.float64)
    g0, g1, g2, g3, g4, g5 = load_state(gradient_ptr + row * K * F, k, kept, N, F)
    at = states_ptr + (row + rows.to(tl.int64) * iterations) * K * F
    for _t in range(iterations):
        at -= rows.to(tl.int64) * K * F
        weight, u, v, a, b, c = load_state(at, k, kept, N, F)
        t0, t1, t2, t3 = score(weight, a, b, c, spread_u, spread_v, N)
        s0, s1, s2, s3, s4, s5, _ = gather(x_ptr, w_ptr, u, v, t0, t1, t2, t3, zero, L, N, BLOCK)
        m, n, h0, h1, h2, h3, h4, h5 = maximise_vjp(
            s0, s1, s2, s3, s4, s5, u, v, g0, g1, g2, g3, g4, g5, spread_u, spread_v, floor, N
        )
        s0, s1, s2, s3, s4, s5 = differentiate(
            x_ptr, w_ptr, out_ptr, u, v, t0, t1, t2, t3, m, n, h0, h1, h2, h3, h4, h5, zero, L, N, BLOCK
        )
        tl.debug_barrier()  # what other threads have stored is read by the next iteration
        g0, g1, g2, g3, g4, g5 = score_vjp(weight, a, b, c, spread_u, spread_v, s0, s1, s2, s3, s4, s5, N)
    s0, s1, s2, s3, s4, s5 = gather_members(x_ptr, w_ptr, labels_ptr, k, zero, L, N, BLOCK)
    m, n, h0, h1, h2, h3, h4, h5 = maximise_vjp(
        s0, s1, s2, s3, s4, s5, zero, zero, g0, g1, g2, g3, g4, g5, spread_u, spread_v, floor, N
    )
    for start in range(0, L, BLOCK):
        place, there, _, x, y = load_points(x_ptr, w_ptr, start, L, N, BLOCK)
        label = tl.load(labels_ptr + place, mask=there, other=-1)
        dx, dy = subtract(x, y, m, n)
        h = combine(dx, dy, h0, h1, h2, h3, h4, h5, N)
        own = tl.sum(tl.where(label[None, :] == k[:, None], h, 0.0), 0)
        before = tl.load(out_ptr + place, mask=there, other=0.0)
        tl.store(out_ptr + place, before + own, mask=there)
