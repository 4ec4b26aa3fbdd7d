"""Sums over the points of a row, which are read in blocks, again in each iteration: they stay in the cache."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.mixtures.triton.component import hold, moments


@triton.jit
def load_points(x_ptr, w_ptr, start, L, N: tl.constexpr, BLOCK: tl.constexpr):
    """Return the places of a block of points, which of them are there, their weights and coordinates."""
    place = start + tl.arange(0, BLOCK)
    there = place < L
    w = tl.load(w_ptr + place, mask=there, other=0.0)
    x = tl.load(x_ptr + N * place, mask=there, other=0.0)
    y = tl.load(x_ptr + N * place + N - 1, mask=there, other=0.0)  # on a line that coordinate again
    return place, there, w, x, y


@triton.jit
def subtract(x, y, u, v):
    """Return how far a block of points is from the centre of each component, ``[K, BLOCK]``."""
    return x[None, :] - u[:, None], y[None, :] - v[:, None]


@triton.jit
def add_up(mass, dx, dy, s0, s1, s2, s3, s4, s5, N: tl.constexpr):
    """Add a block of points with weights ``mass [K, BLOCK]`` to the sums."""
    along = mass * dx
    s0 += tl.sum(mass, 1)
    s1 += tl.sum(along, 1)
    s3 += tl.sum(along * dx, 1)
    if N == 2:
        across = mass * dy
        s2 += tl.sum(across, 1)
        s4 += tl.sum(along * dy, 1)
        s5 += tl.sum(across * dy, 1)
    return s0, s1, s2, s3, s4, s5


@triton.jit
def score_points(dx, dy, t0, t1, t2, t3, N: tl.constexpr):
    """Return exponentials of scores, the largest of a point as 1, with its score and with their sum.

    Scores are squares: those of a thin ellipse would be what little is left of larger numbers.
    """
    s = t0[:, None] + t1[:, None] * dx * dx
    if N == 2:
        across = dy - t2[:, None] * dx
        s += t3[:, None] * across * across
    top = tl.max(s, 0)
    e = tl.exp(s - top[None, :])
    return e, top, tl.sum(e, 0)


@triton.jit
def combine(dx, dy, h0, h1, h2, h3, h4, h5, N: tl.constexpr):
    """Return what coefficients of 1, d and d d' say of a block of points, ``[K, BLOCK]``."""
    h = h0[:, None] + dx * (h1[:, None] + h3[:, None] * dx)
    if N == 2:
        h += dy * (h2[:, None] + h4[:, None] * dx + h5[:, None] * dy)
    return h


@triton.jit
def fit_all(x_ptr, w_ptr, spread_u, spread_v, floor, zero, L, N: tl.constexpr, BLOCK: tl.constexpr):
    """Return mean and covariance of all points, for each component the same."""
    s0, s1, s2, s3, s4, s5 = zero, zero, zero, zero, zero, zero
    for start in range(0, L, BLOCK):
        _, _, w, x, y = load_points(x_ptr, w_ptr, start, L, N, BLOCK)
        dx, dy = subtract(x, y, zero, zero)
        s0, s1, s2, s3, s4, s5 = add_up(w[None, :] + zero[:, None], dx, dy, s0, s1, s2, s3, s4, s5, N)
    u, v, a, b, c = moments(s0, s1, s2, s3, s4, s5, zero, zero, spread_u, spread_v)
    a, b, c = hold(a, b, c, floor, N)
    return u, v, a, b, c


@triton.jit
def gather_members(x_ptr, w_ptr, labels_ptr, k, zero, L, N: tl.constexpr, BLOCK: tl.constexpr):
    """Return the sums over the members of each component at the start."""
    s0, s1, s2, s3, s4, s5 = zero, zero, zero, zero, zero, zero
    for start in range(0, L, BLOCK):
        place, there, w, x, y = load_points(x_ptr, w_ptr, start, L, N, BLOCK)
        label = tl.load(labels_ptr + place, mask=there, other=-1)
        dx, dy = subtract(x, y, zero, zero)
        own = tl.where(label[None, :] == k[:, None], w[None, :], 0.0)
        s0, s1, s2, s3, s4, s5 = add_up(own, dx, dy, s0, s1, s2, s3, s4, s5, N)
    return s0, s1, s2, s3, s4, s5


@triton.jit
def gather(x_ptr, w_ptr, u, v, t0, t1, t2, t3, zero, L, N: tl.constexpr, BLOCK: tl.constexpr):
    """Return the sums over all points with their responsibilities, and the weighted log-likelihood."""
    s0, s1, s2, s3, s4, s5 = zero, zero, zero, zero, zero, zero
    value = tl.sum(zero, 0)
    for start in range(0, L, BLOCK):
        _, _, w, x, y = load_points(x_ptr, w_ptr, start, L, N, BLOCK)
        dx, dy = subtract(x, y, u, v)
        e, top, total = score_points(dx, dy, t0, t1, t2, t3, N)
        value += tl.sum(w * (top + tl.log(total)), 0)
        s0, s1, s2, s3, s4, s5 = add_up(e * (w / total)[None, :], dx, dy, s0, s1, s2, s3, s4, s5, N)
    return s0, s1, s2, s3, s4, s5, value


@triton.jit
def differentiate(
    x_ptr,
    w_ptr,
    out_ptr,
    filled,
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
    N: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the gradient by the weights, and return that by the scores, summed about ``u, v``.

    What is in ``out`` is added to, up to ``filled``. The coefficients ``h`` are about ``m, n``.
    """
    s0, s1, s2, s3, s4, s5 = zero, zero, zero, zero, zero, zero
    for start in range(0, L, BLOCK):
        place, there, w, x, y = load_points(x_ptr, w_ptr, start, L, N, BLOCK)
        dx, dy = subtract(x, y, m, n)
        h = combine(dx, dy, h0, h1, h2, h3, h4, h5, N)
        dx, dy = subtract(x, y, u, v)
        e, _, total = score_points(dx, dy, t0, t1, t2, t3, N)
        shares = e / total[None, :]
        mean = tl.sum(shares * h, 0)
        before = tl.load(out_ptr + place, mask=place < filled, other=0.0)
        tl.store(out_ptr + place, before + mean, mask=there)
        s0, s1, s2, s3, s4, s5 = add_up(w[None, :] * shares * (h - mean[None, :]), dx, dy, s0, s1, s2, s3, s4, s5, N)
    return s0, s1, s2, s3, s4, s5
