"""Taut strings of all rows of a tile at once, by their contacts with a tube: total variation on chains, isotonic fits.

With ``y`` the running sums of a row, the minimiser of ``1/2 |w - x|^2 + sum_i lambda |w_i - w_{i+1}|`` is the slope of
the shortest string through the tube ``y +- lambda``. If the line between two points of the string leaves the tube, the
string touches the wall where the line is farthest outside (:mod:`omegamax.kernels.variation.taut_string`). Without a
lower wall, and with the upper one at ``y``, the string is the least concave majorant of ``y``, and its slopes are the
closest values that do not increase. Contacts are found in rounds, for all pieces of all rows at once, about as many as
the logarithm of their number.

Threads of a program exchange what they know of a piece through ``slots`` in memory: six planes of ``[rows, BLOCK]``
numbers, one for each piece. Scans combine in whichever order, and none runs backwards: backward scans of pairs were
wrong in some versions of Triton.
"""

from __future__ import annotations

import triton
import triton.language as tl

EPS = tl.constexpr(2.220446049250313e-16)


@triton.jit
def sum_of_last_key(k, s, other_k, other_s):
    """Combine two pairs of a scan: sums of what has the same key, of which the larger counts."""
    both = tl.where(k > other_k, s, other_s)
    return tl.maximum(k, other_k), tl.where(k == other_k, s + other_s, both)


@triton.jit
def maxima_of_last_key(k, u, v, other_k, other_u, other_v):
    """Combine two triples of a scan: maxima of what has the same key, of which the larger counts."""
    same = k == other_k
    after = k > other_k
    most_u = tl.where(same, tl.maximum(u, other_u), tl.where(after, u, other_u))
    most_v = tl.where(same, tl.maximum(v, other_v), tl.where(after, v, other_v))
    return tl.maximum(k, other_k), most_u, most_v


@triton.jit
def larger(a, b):
    """Return the larger of two numbers."""
    return tl.maximum(a, b)


@triton.jit
def any_of(tile):
    """Return whether a condition holds anywhere in a tile, the same in all threads."""
    return tl.max(tl.max(tile.to(tl.int32), 1), 0) > 0


@triton.jit
def draw_lines(slots, plane, column, held, height, cut, slack):
    """Draw a straight line for each piece, from the point that is held before it to the one that ends it.

    Returns the piece of each entry, where its line begins, how high, its slope, and the ``slack`` at its end. A ``cut``
    ends one string at its height and begins another at 0.
    """
    piece = tl.cumsum(held.to(tl.int32), 1) - held.to(tl.int32)
    tl.store(slots + piece, column.to(tl.float64) + tl.zeros_like(height), mask=held)
    tl.store(slots + plane + piece, height, mask=held)
    tl.store(slots + 2 * plane + piece, tl.where(cut, 0.0, height), mask=held)
    tl.store(slots + 3 * plane + piece, slack, mask=held)
    tl.debug_barrier()
    end, end_height = tl.load(slots + piece), tl.load(slots + plane + piece)
    begin = tl.load(slots + piece - 1, mask=piece > 0, other=-1.0)
    begin_height = tl.load(slots + 2 * plane + piece - 1, mask=piece > 0, other=0.0)
    slope = (end_height - begin_height) / (end - begin)
    return piece, begin, begin_height, slope, tl.load(slots + 3 * plane + piece)


@triton.jit
def find_string(slots, plane, column, y, cut, limit, slack, ONE_WALL: tl.constexpr):
    """Return the slope of the taut string at each entry, ``[R, BLOCK]``; the same to the last bit inside a piece.

    Args:
        slots: pointers to the first slot of each row, ``[R, 1]``, in the first plane; ``plane`` is the distance of two.
        y: sums of the entries up to each one, from the cut before it on.
        cut: whether the chain ends behind an entry, as it does behind the last.
        limit: half the width of the tube, ``[R, 1]``, unread if there is ``ONE_WALL``.
        slack: what lines may leave the tube by, ``[R, BLOCK]``, for the sums up to each entry are rounded; it does not
            fall inside a piece, whose last entry counts, for its line ends there.
    """
    held = cut
    height = tl.where(cut, y, 0.0)
    side = tl.zeros_like(y)  # 1 where the string touches the wall below, so that its slope falls; -1 above
    go = True
    while go:
        piece, begin, begin_height, slope, room = draw_lines(slots, plane, column, held, height, cut, slack)
        over = y - (begin_height + slope * (column.to(tl.float64) - begin))
        above, below = over, -over
        if not ONE_WALL:
            above -= limit
            below -= limit
        above = tl.where(held, -float("inf"), above)
        below = tl.where(held, -float("inf"), below)
        _, most, least = tl.associative_scan((piece, above, below), 1, maxima_of_last_key)
        tl.store(slots + 4 * plane + piece, most, mask=held)
        tl.store(slots + 5 * plane + piece, least, mask=held)
        tl.debug_barrier()
        falls = (above > room) & (above == tl.load(slots + 4 * plane + piece))
        if ONE_WALL:
            height = tl.where(falls, y, height)
            go = any_of(falls)
            held = held | falls
            side = tl.where(falls, 1.0, side)
        else:
            rises = (below > room) & (below == tl.load(slots + 5 * plane + piece)) & ~falls
            height = tl.where(falls, y - limit, tl.where(rises, y + limit, height))
            side = tl.where(falls, 1.0, tl.where(rises, -1.0, side))
            go = any_of(falls | rises)
            held = held | falls | rises
    # Pieces that came out equal, or by rounding in the wrong order, are one.
    slope = tl.zeros_like(y)
    merging = True  # a name of its own: Triton 3.6 compiles no loop that carries a tile behind its condition
    while merging:
        piece, begin, begin_height, slope, _ = draw_lines(slots, plane, column, held, height, cut, slack)
        contact = side != 0.0
        at = column.to(tl.float64)
        end = tl.load(slots + piece + 1, mask=contact, other=0.0)
        end_height = tl.load(slots + plane + piece + 1, mask=contact, other=0.0)
        after = (end_height - height) / tl.where(contact, end - at, 1.0)
        shortest = tl.minimum(at - begin, tl.where(contact, end - at, 1.0))
        room = tl.load(slots + 3 * plane + piece + 1, mask=contact, other=0.0)
        level = contact & ((slope - after) * side <= 4.0 * room / shortest)
        side = tl.where(level, 0.0, side)
        held = held & ~level
        merging = any_of(level)
        tl.debug_barrier()
    return slope
