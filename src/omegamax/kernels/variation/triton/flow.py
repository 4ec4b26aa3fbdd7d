"""Flows that level an image held by one program, the regions that they define, and the proof of their values.

The dual of ``argmin 1/2 |w - x|^2 + lambda sum |w_i - w_j|`` is a flow, at most lambda on each edge, that levels the
heights ``x - div flow`` as far as these limits let it. Over-relaxed sweeps over the edges, one colour after another,
come near it. An edge at its limit whose ends differ lies between two regions, any other edge inside one, and the value
of a region follows from what its outer edges carry.

That needs no flow to the last digit. Values are the solution if their outer edges are full, downhill, and if some flow
within the limits brings every region to its level. What the sweeps leave to be moved inside a region, at most the sum
of the distances of its heights from the level, could go along the edges of a tree that have room for it: if edges with
such room connect each region, the values are proved, and they are rounded but once. Ties may leave no such room
between the parts of a region, and then their means, which it cannot level, are to be level already: the duality gap is
half the sum of the squared distances that remain, and bounds that of the values from the solution.

Scores are within [-2, 2], and an edge of each colour leads to the neighbours ``n0`` to ``n3``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.variation.triton.regions import any_cell, average, label_regions

LOOK = tl.constexpr(8)  # sweeps between two looks at how far they came
CLOSE = tl.constexpr(1e-5)  # flow that a sweep moves along an edge, below which a proof is tried
CLOSER = tl.constexpr(0.01)  # of what moved then, before it is tried again
LEVEL = tl.constexpr(1e-13)  # and below which it is tried for the last time
APART = tl.constexpr(1e-10)  # least difference of two regions
ERROR = tl.constexpr(1e-10)  # largest distance from the solution of values that are taken for it
ROUNDING = tl.constexpr(1e-13)  # of what is left to be moved


@triton.jit
def half_of_step(sweep):
    """Return half of the over-relaxation: cautious at first, while edges fill up; later for flow over distances."""
    sweep = sweep.to(tl.float32)
    return (0.96 - 0.175 * tl.exp(sweep * (-1.0 / 16.0)) - 0.135 * tl.exp(sweep * (-1.0 / 400.0))).to(tl.float64)


@triton.jit
def relax(level, flow, neighbour, half, limit):
    """Move flow along the edges of one colour until their ends agree, or they are full; also return what has moved.

    Both ends of an edge hold the flow out of them, and compute the same but for the sign, which rounds nothing.
    """
    new = flow + half * (level - tl.gather(level, neighbour, 0))
    new = tl.minimum(tl.maximum(new, -limit), limit)
    return level - (new - flow), new, tl.abs(new - flow)


@triton.jit
def cut_between(cell, level, flow, neighbour, limit, apart):
    """Return the neighbours of one colour, without those across an edge that is full and whose ends differ."""
    fall = level - tl.gather(level, neighbour, 0)
    full = tl.abs(flow) == limit
    return tl.where(full & (tl.where(flow > 0.0, fall, -fall) > apart), cell, neighbour)


@triton.jit
def join_level(value, flow, neighbour, inner):
    """Return the neighbours inside a region, and those outside it that came out level or in the wrong order."""
    fall = value - tl.gather(value, neighbour, 0)
    wrong = (inner != neighbour) & (tl.where(flow > 0.0, fall, -fall) <= APART)
    return tl.where(wrong, neighbour, inner), wrong


@triton.jit
def prove(x, cell, cells, n0, n1, n2, n3, f0, f1, f2, f3, limit, apart):
    """Return the values of the regions that a flow defines, and whether they are the solution, as an integer."""
    level = x - ((f0 + f1) + (f2 + f3))
    m0, m1 = cut_between(cell, level, f0, n0, limit, apart), cut_between(cell, level, f1, n1, limit, apart)
    m2, m3 = cut_between(cell, level, f2, n2, limit, apart), cut_between(cell, level, f3, n3, limit, apart)
    value, label = x, cell
    joining = True
    while joining:
        outer = tl.where(m0 != n0, f0, 0.0) + tl.where(m1 != n1, f1, 0.0)
        outer += tl.where(m2 != n2, f2, 0.0) + tl.where(m3 != n3, f3, 0.0)
        label = label_regions(cell, m0, m1, m2, m3)
        value = average(x - outer, label, cells)
        m0, wrong0 = join_level(value, f0, n0, m0)
        m1, wrong1 = join_level(value, f1, n1, m1)
        m2, wrong2 = join_level(value, f2, n2, m2)
        m3, wrong3 = join_level(value, f3, n3, m3)
        joining = any_cell(wrong0 | wrong1 | wrong2 | wrong3)
    left = level - value
    room = limit - (tl.sum(tl.abs(left), 0) + ROUNDING)
    m0, m1 = tl.where(tl.abs(f0) <= room, m0, cell), tl.where(tl.abs(f1) <= room, m1, cell)
    m2, m3 = tl.where(tl.abs(f2) <= room, m2, cell), tl.where(tl.abs(f3) <= room, m3, cell)
    part = label_regions(cell, m0, m1, m2, m3)
    if any_cell(part != label):
        left = average(left, part, cells)
    else:
        left = tl.zeros_like(x)
    # By each cell, since threads may hold sums that differ in the last bit, and those of a loop go on together.
    return value, 1 - any_cell((left * left * cells <= ERROR * ERROR) == 0).to(tl.int32)


@triton.jit
def solve_image(x, cell, cells, n0, n1, n2, n3, limit, sweeps):
    """Return the values of an image and whether they are proved, as an integer, after so many sweeps at most."""
    f0, f1, f2, f3 = tl.zeros_like(x), tl.zeros_like(x), tl.zeros_like(x), tl.zeros_like(x)
    level, value = x, x
    sweep, proved = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    close = tl.full((), 0.0, tl.float64) + CLOSE
    busy = True
    while busy:
        moved = tl.zeros_like(x)
        for _ in range(LOOK):
            half = half_of_step(sweep)
            level, f0, moved = relax(level, f0, n0, half, limit)
            level, f1, m1 = relax(level, f1, n1, half, limit)
            level, f2, m2 = relax(level, f2, n2, half, limit)
            level, f3, m3 = relax(level, f3, n3, half, limit)
            moved = tl.maximum(tl.maximum(moved, m1), tl.maximum(m2, m3))
            sweep += 1
        most = tl.max(moved, 0)
        if (most <= close) | (sweep >= sweeps):
            apart = tl.maximum(10.0 * most, APART)
            value, proved = prove(x, cell, cells, n0, n1, n2, n3, f0, f1, f2, f3, limit, apart)
            close = tl.maximum(CLOSER * most, LEVEL)
        busy = (proved == 0) & (most > LEVEL) & (sweep < sweeps)
    return value, proved
