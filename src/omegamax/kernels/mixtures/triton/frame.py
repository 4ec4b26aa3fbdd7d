"""The frame of a row, whose origin and unit come from the box of its points; and the points in it."""

from __future__ import annotations

import triton
import triton.language as tl

INF = tl.constexpr(float("inf"))


@triton.jit
def load_given(x_ptr, used_ptr, p_ptr, start, L, N: tl.constexpr, BLOCK: tl.constexpr):
    """Return places and coordinates of a block of points as given, and which are finite, used, and have weight."""
    place = start + tl.arange(0, BLOCK)
    there = place < L
    x = tl.load(x_ptr + N * place, mask=there, other=0.0).to(tl.float64)
    y = tl.load(x_ptr + N * place + N - 1, mask=there, other=0.0).to(tl.float64)  # on a line that coordinate again
    finite = (x - x == 0.0) & (y - y == 0.0)
    used = finite & (tl.load(used_ptr + place, mask=there, other=0) != 0)
    return place, x, y, finite, used, tl.load(p_ptr + place, mask=there, other=0.0) > 0.0


@triton.jit
def widen(low, high, x, kept):
    """Return ends that also hold a block of coordinates."""
    return tl.minimum(low, tl.where(kept, x, INF)), tl.maximum(high, tl.where(kept, x, -INF))


@triton.jit
def close(low, high):
    """Return the ends of all blocks; of no coordinate at all 0 and 0."""
    low, high = tl.min(low, 0), tl.max(high, 0)
    some = low <= high
    return tl.where(some, low, 0.0), tl.where(some, high, 0.0)


@triton.jit
def frame_points(x_ptr, used_ptr, p_ptr, near_ptr, L, N: tl.constexpr, BLOCK: tl.constexpr):
    """Write the points in the frame. Return unit and origin, the row's own box in it, and whether a point is lost.

    The frame is that of the points that have weight in any of the rows that share them. The others may be anywhere.
    The row's own box is that of the points that have weight in it; one that has but is not finite is lost.
    """
    top, bottom = tl.full((BLOCK,), INF, tl.float64), tl.full((BLOCK,), -INF, tl.float64)
    low_u, high_u, low_v, high_v = top, bottom, top, bottom
    own_low_u, own_high_u, own_low_v, own_high_v = top, bottom, top, bottom
    lost = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, L, BLOCK):
        _, x, y, finite, used, active = load_given(x_ptr, used_ptr, p_ptr, start, L, N, BLOCK)
        low_u, high_u = widen(low_u, high_u, x, used)
        low_v, high_v = widen(low_v, high_v, y, used)
        own_low_u, own_high_u = widen(own_low_u, own_high_u, x, used & active)
        own_low_v, own_high_v = widen(own_low_v, own_high_v, y, used & active)
        lost |= (active & ~finite).to(tl.int32)
    low_u, high_u = close(low_u, high_u)
    low_v, high_v = close(low_v, high_v)
    unit = tl.maximum(high_u - low_u, high_v - low_v)
    unit = tl.where(unit > 0.0, unit, 1.0)
    u, v = 0.5 * (low_u + high_u), 0.5 * (low_v + high_v)
    for start in range(0, L, BLOCK):
        place, x, y, _, used, _ = load_given(x_ptr, used_ptr, p_ptr, start, L, N, BLOCK)
        tl.store(near_ptr + N * place, tl.where(used, (x - u) / unit, 0.0), mask=place < L)
        if N == 2:
            tl.store(near_ptr + N * place + 1, tl.where(used, (y - v) / unit, 0.0), mask=place < L)
    tl.debug_barrier()  # what other threads have stored is read from here on
    own_low_u, own_high_u = close(own_low_u, own_high_u)
    own_low_v, own_high_v = close(own_low_v, own_high_v)
    own_low_u, own_high_u = (own_low_u - u) / unit, (own_high_u - u) / unit
    own_low_v, own_high_v = (own_low_v - v) / unit, (own_high_v - v) / unit
    return unit, u, v, own_low_u, own_high_u, own_low_v, own_high_v, tl.max(lost, 0) != 0
