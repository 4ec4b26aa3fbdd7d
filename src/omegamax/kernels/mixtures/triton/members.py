"""Where a row starts: the component that each of its points is a member of."""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.mixtures.triton.frame import INF
from omegamax.kernels.mixtures.triton.points import load_points

# The ways to start, and how many components a start has.
GIVEN, SPLIT, KMEANS, RANDOM = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
ALL, USED, GROWING = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
MARGIN = tl.constexpr(1e-6)  # of a box, as in :mod:`omegamax.mixtures`


@triton.jit
def cut(label, parts, low, high, place):
    """Cut each box that has several parts in two; return labels, parts and ends of the half that a point is in."""
    first = parts // 2
    middle = low + (high - low) * first / parts
    several = parts > 1
    behind = several & (place >= middle - MARGIN)
    before = several & (place < middle - MARGIN)
    label, parts = (
        tl.where(behind, label + first, label),
        tl.where(behind, parts - first, tl.where(before, first, parts)),
    )
    return label, parts, tl.where(behind, middle, low), tl.where(before, middle, high)


@triton.jit
def place_in_box(x, low, high):
    """Return where coordinates are between the ends of a box, from 0 to 1; in the middle of one without length."""
    wide = high > low
    return tl.where(wide, (x - low) / tl.where(wide, high - low, 1.0), 0.5)


@triton.jit
def split_box(
    near_ptr,
    p_ptr,
    labels_ptr,
    count,
    low_u,
    high_u,
    low_v,
    high_v,
    L,
    N: tl.constexpr,
    LEVELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write members of boxes of equal volume: as ``split_boxes`` of :mod:`omegamax.mixtures` cuts them."""
    for start in range(0, L, BLOCK):
        place, there, _, x, y = load_points(near_ptr, p_ptr, start, L, N, BLOCK)
        across, up = place_in_box(x, low_u, high_u), place_in_box(y, low_v, high_v)
        label = tl.zeros((BLOCK,), tl.int32)
        parts = label + count
        left, below = tl.zeros((BLOCK,), tl.float64), tl.zeros((BLOCK,), tl.float64)
        right, above = left + 1.0, below + 1.0
        for level in tl.static_range(LEVELS):
            if N == 2 and level % 2 == 0:
                label, parts, below, above = cut(label, parts, below, above, up)
            else:
                label, parts, left, right = cut(label, parts, left, right, across)
        tl.store(labels_ptr + place, label, mask=there)


@triton.jit
def load_odds(p_ptr, nearest_ptr, k, start, L, SPREAD: tl.constexpr, BLOCK: tl.constexpr):
    """Return the places of a block of points, and in proportion to what each is drawn as seed k."""
    place = start + tl.arange(0, BLOCK)
    p = tl.load(p_ptr + place, mask=place < L, other=0.0)
    nearest = tl.load(nearest_ptr + place, mask=place < tl.where(k > 0, L, 0), other=0.0)
    if not SPREAD:
        nearest = tl.where(nearest > 0.0, 1.0, 0.0)
    return place, p * tl.where(k > 0, nearest, 1.0)


@triton.jit
def square_distance(dx, dy, there, p, N: tl.constexpr):
    """Return the square of a distance, its squares and its sum each rounded: as near is as near in plain torch.

    Two conditions that are always true, and nobody can know it, keep a compiler from adding while it multiplies.
    """
    if N == 1:
        return dx * dx
    return tl.where(there, dx * dx, 0.0) + tl.where(p >= 0.0, dy * dy, 0.0)


@triton.jit
def draw_seeds(
    near_ptr,
    p_ptr,
    labels_ptr,
    nearest_ptr,
    draws_ptr,
    step,
    count,
    L,
    N: tl.constexpr,
    SPREAD: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write members of the nearest of ``count`` points: those that the numbers, ``step`` apart, draw.

    As ``draw_seeds`` of :mod:`omegamax.mixtures`. The squared distances to the nearest are kept in ``nearest``.
    """
    for k in range(count):
        odds = tl.zeros((BLOCK,), tl.float64)
        for start in range(0, L, BLOCK):
            odds += load_odds(p_ptr, nearest_ptr, k, start, L, SPREAD, BLOCK)[1]
        goal = tl.load(draws_ptr + k * step) * tl.sum(odds, 0)
        before = goal * 0.0
        seed = tl.zeros((BLOCK,), tl.int32) + (L - 1)
        for start in range(0, L, BLOCK):
            place, odds = load_odds(p_ptr, nearest_ptr, k, start, L, SPREAD, BLOCK)
            beyond = (before + tl.cumsum(odds, 0) > goal) & (odds > 0.0)
            seed = tl.minimum(seed, tl.where(beyond, place, L - 1))
            before += tl.sum(odds, 0)
        chosen = tl.min(seed, 0)
        tl.debug_barrier()  # what is stored now has been read by all
        u, v = tl.load(near_ptr + N * chosen), tl.load(near_ptr + N * chosen + N - 1)
        for start in range(0, L, BLOCK):
            place, there, p, x, y = load_points(near_ptr, p_ptr, start, L, N, BLOCK)
            distance = square_distance(x - u, y - v, there, p, N)
            later = place < tl.where(k > 0, L, 0)
            nearest = tl.load(nearest_ptr + place, mask=later, other=INF)
            label = tl.load(labels_ptr + place, mask=later, other=0)
            closer = distance < nearest
            tl.store(nearest_ptr + place, tl.where(closer, distance, nearest), mask=there)
            tl.store(labels_ptr + place, tl.where(closer, k, label), mask=there)
        tl.debug_barrier()  # what other threads have stored is read by the next


@triton.jit
def start_row(
    number,
    example,
    examples,
    near_ptr,
    p_ptr,
    labels_ptr,
    nearest_ptr,
    draws_ptr,
    count_ptr,
    count_stride,
    restarts,
    low_u,
    high_u,
    low_v,
    high_v,
    L,
    N: tl.constexpr,
    K: tl.constexpr,
    INIT: tl.constexpr,
    COUNT: tl.constexpr,
    DRAWN: tl.constexpr,
    LEVELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the members of each component at the start of this number of an example.

    ``COUNT`` says how many components it has: all, as many as the example uses, or 1 at the first, and then 2, 3 and so
    on, ``restarts`` times each. Random numbers are those of one after the other; ``DRAWN`` tells whether there are any.
    """
    start = number
    count = number * 0 + K
    if COUNT == USED:
        count = tl.load(count_ptr + example * count_stride).to(tl.int32)
        count = tl.where((count >= 1) & (count <= K), count, 1)  # as plain torch has it; there are no other numbers
    if COUNT == GROWING:
        count = tl.where(number == 0, 1, 2 + (number - 1) // restarts)
        start = tl.where(number == 0, 0, (number - 1) % restarts)
    if not DRAWN:
        split_box(near_ptr, p_ptr, labels_ptr, count, low_u, high_u, low_v, high_v, L, N, LEVELS, BLOCK)
    else:
        split = number < 0
        if INIT == SPLIT:
            split = start == 0
        elif COUNT == GROWING:
            split = number == 0
        if split:
            split_box(near_ptr, p_ptr, labels_ptr, count, low_u, high_u, low_v, high_v, L, N, LEVELS, BLOCK)
        else:
            own = examples.to(tl.int64)  # numbers for one component of one start, and for one of all starts
            step, place = restarts * own, start * own + example
            if INIT == SPLIT:
                step, place = step - own, place - own
            if COUNT != ALL:  # those for fewer components come first
                place += count * (count - 1) // 2 * step
            if COUNT == GROWING:
                place -= step  # one component takes none
            draw_seeds(
                near_ptr, p_ptr, labels_ptr, nearest_ptr, draws_ptr + place, step, count, L, N, INIT != RANDOM, BLOCK
            )
    tl.debug_barrier()  # what other threads have stored is read from here on


@triton.jit
def copy_labels(given_ptr, labels_ptr, L, BLOCK: tl.constexpr):
    """Write the members that were given."""
    for start in range(0, L, BLOCK):
        place = start + tl.arange(0, BLOCK)
        tl.store(labels_ptr + place, tl.load(given_ptr + place, mask=place < L, other=0), mask=place < L)
    tl.debug_barrier()  # what other threads have stored is read from here on
