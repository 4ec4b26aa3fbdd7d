"""One program goes all the way back: from the gradient by the mixture of a row to that by its weights.

See ``../__init__.py`` for the formulas.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.mixtures.triton.component import LEAST_MASS, hold_vjp, moments, moments_vjp, score, score_vjp
from omegamax.kernels.mixtures.triton.points import (
    combine,
    differentiate,
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
def load_gradient(pi_ptr, mean_ptr, cov_ptr, unit, broken, k, kept, p0, m0, m1, c0, c1, c2, N: tl.constexpr):
    """Return the gradient by the last state from that by the mixture, whose strides these are."""
    g0 = tl.load(pi_ptr + k * p0, mask=kept, other=0.0).to(tl.float64)
    g1 = tl.load(mean_ptr + k * m0, mask=kept, other=0.0).to(tl.float64)
    g3 = tl.load(cov_ptr + k * c0, mask=kept, other=0.0).to(tl.float64)
    g2, g4, g5 = g1, g3, g3
    if N == 2:
        g2 = tl.load(mean_ptr + k * m0 + m1, mask=kept, other=0.0).to(tl.float64)
        g4 = tl.load(cov_ptr + k * c0 + c1, mask=kept, other=0.0).to(tl.float64)
        g4 += tl.load(cov_ptr + k * c0 + c2, mask=kept, other=0.0).to(tl.float64)
        g5 = tl.load(cov_ptr + k * c0 + c1 + c2, mask=kept, other=0.0).to(tl.float64)
    square = unit * unit
    g0, g1, g2 = tl.where(broken, 0.0, g0), tl.where(broken, 0.0, unit * g1), tl.where(broken, 0.0, unit * g2)
    return g0, g1, g2, square * g3, square * g4, square * g5


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


@triton.jit(
    do_not_specialize=[
        "iterations", "examples", "present_stride", "p_row", "p0", "m_row", "m0", "m1", "c_row", "c0", "c1", "c2"
    ]
)  # fmt: skip
def em_vjp_kernel(
    near_ptr,
    p_ptr,
    labels_ptr,
    sides_ptr,
    states_ptr,
    present_ptr,
    pi_ptr,
    mean_ptr,
    cov_ptr,
    by_p_ptr,
    out_ptr,
    p_row,
    p0,
    m_row,
    m0,
    m1,
    c_row,
    c0,
    c1,
    c2,
    present_stride,
    examples,
    iterations,
    L,
    MASKED: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    COMPONENTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the gradient by the weights as they were given, ``[examples, L]``.

    That by the weights that sum to one is made in ``by_p``, in double precision.
    """
    F: tl.constexpr = 1 + N + N * (N + 1) // 2
    row = tl.program_id(0).to(tl.int64)
    near_ptr += row * L * N
    p_ptr += row * L
    labels_ptr += row * L
    by_p_ptr += row * L
    sides_ptr += 6 * row
    floor, spread_u, spread_v = tl.load(sides_ptr), tl.load(sides_ptr + 1), tl.load(sides_ptr + 2)
    unit, total, broken = tl.load(sides_ptr + 3), tl.load(sides_ptr + 4), tl.load(sides_ptr + 5) != 0.0
    k = tl.arange(0, COMPONENTS)
    kept = k < K
    zero = tl.zeros((COMPONENTS,), tl.float64)
    g0, g1, g2, g3, g4, g5 = load_gradient(
        pi_ptr + row * p_row, mean_ptr + row * m_row, cov_ptr + row * c_row, unit, broken, k, kept,
        p0, m0, m1, c0, c1, c2, N,
    )  # fmt: skip
    step = examples.to(tl.int64) * K * F
    at = states_ptr + row * K * F + iterations * step
    for t in range(iterations):
        at -= step
        weight, u, v, a, b, c = load_state(at, k, kept, N, F)
        t0, t1, t2, t3 = score(weight, a, b, c, spread_u, spread_v, N)
        s0, s1, s2, s3, s4, s5, _ = gather(near_ptr, p_ptr, u, v, t0, t1, t2, t3, zero, L, N, BLOCK)
        m, n, h0, h1, h2, h3, h4, h5 = maximise_vjp(
            s0, s1, s2, s3, s4, s5, u, v, g0, g1, g2, g3, g4, g5, spread_u, spread_v, floor, N
        )
        s0, s1, s2, s3, s4, s5 = differentiate(
            near_ptr,
            p_ptr,
            by_p_ptr,
            tl.where(t > 0, L, 0),
            u,
            v,
            t0,
            t1,
            t2,
            t3,
            m,
            n,
            h0,
            h1,
            h2,
            h3,
            h4,
            h5,
            zero,
            L,
            N,
            BLOCK,
        )
        tl.debug_barrier()  # what other threads have stored is read by the next iteration
        g0, g1, g2, g3, g4, g5 = score_vjp(weight, a, b, c, spread_u, spread_v, s0, s1, s2, s3, s4, s5, N)
    s0, s1, s2, s3, s4, s5 = gather_members(near_ptr, p_ptr, labels_ptr, k, zero, L, N, BLOCK)
    m, n, h0, h1, h2, h3, h4, h5 = maximise_vjp(
        s0, s1, s2, s3, s4, s5, zero, zero, g0, g1, g2, g3, g4, g5, spread_u, spread_v, floor, N
    )
    mean = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, L, BLOCK):
        place, there, p, x, y = load_points(near_ptr, p_ptr, start, L, N, BLOCK)
        label = tl.load(labels_ptr + place, mask=there, other=-1)
        dx, dy = subtract(x, y, m, n)
        h = combine(dx, dy, h0, h1, h2, h3, h4, h5, N)
        own = tl.sum(tl.where(label[None, :] == k[:, None], h, 0.0), 0)
        own += tl.load(by_p_ptr + place, mask=place < tl.where(iterations > 0, L, 0), other=0.0)
        mean += tl.where(there, p * own, 0.0)
        tl.store(by_p_ptr + place, own, mask=there)
    mean = tl.sum(mean, 0)
    tl.debug_barrier()
    # Equal weights in place of those that have no sum have no gradient.
    usable = total > 0.0
    over = tl.where(usable, 1.0 / tl.where(usable, total, 1.0), 0.0)
    for start in range(0, L, BLOCK):
        place = start + tl.arange(0, BLOCK)
        there = place < L
        slope = tl.load(by_p_ptr + place, mask=there, other=0.0) - mean
        slope = tl.where(usable, slope * over, 0.0)
        if MASKED:
            at_present = present_ptr + row * present_stride + place
            slope = tl.where(tl.load(at_present, mask=there, other=0) != 0, slope, 0.0)
        if out_ptr.dtype.element_ty != tl.float64:
            slope = slope.to(tl.float32)
        tl.store(out_ptr + row * L + place, slope, mask=there)
