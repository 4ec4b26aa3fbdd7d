"""Regions of an image held by one program: their labels, found by neighbours and pointer jumping, and their means.

An image is a tile of one axis, row by row, and its threads exchange by ``tl.gather``, which goes through shared memory
and waits by itself where it must. Edges come in four colours, none of which meets a cell twice: across from even
columns, across from odd ones, down from even rows, down from odd ones. So each cell has one neighbour of each colour,
an index; where that is the cell itself there is no edge.
"""

from __future__ import annotations

import triton
import triton.language as tl

CHUNK = tl.constexpr(16)  # cells that are compared with all others at a time


@triton.jit
def find_neighbour(cell, height, width, COLOUR: tl.constexpr):
    """Return the cell at the other end of each cell's edge of a colour."""
    if COLOUR < 2:
        place, size, step = cell % width, width, 1
    else:
        place, size, step = cell // width, height, width
    forward = (place + COLOUR) % 2 == 0
    inside = (cell < height * width) & tl.where(forward, place + 1 < size, place > 0)
    return cell + tl.where(inside, tl.where(forward, step, -step), 0)


@triton.jit
def label_regions(cell, n0, n1, n2, n3):
    """Return the least cell of the region of each cell, by the edges that lead to neighbours ``n0`` to ``n3``."""
    label = cell
    go = True
    while go:
        across = tl.minimum(tl.gather(label, n0, 0), tl.gather(label, n1, 0))
        down = tl.minimum(tl.gather(label, n2, 0), tl.gather(label, n3, 0))
        # A label is a cell of the region, not above the cell it labels: so is the label of a label.
        lower = tl.gather(label, tl.minimum(label, tl.minimum(across, down)), 0)
        lower = tl.gather(lower, lower, 0)
        go = any_cell(lower < label)
        label = lower
    return label


@triton.jit
def any_cell(condition):
    """Return whether a condition holds for any cell, the same in all threads."""
    return tl.max(condition.to(tl.int32), 0) > 0


@triton.jit
def average(v, label, cells):
    """Return the mean of ``v`` over the region of each cell, the same to the last bit in all of its cells.

    Every cell is compared with every other, in an order that does not depend on who comes first.
    """
    total = tl.zeros_like(v)
    count = tl.zeros_like(label)
    some = tl.arange(0, CHUNK)
    start = 0
    while start < cells:  # Triton takes sums in a `for` apart, to add up what threads hold: 3.8.0 did it wrongly
        same = tl.gather(label, some, 0)[:, None] == label[None, :]
        total += tl.sum(tl.where(same, tl.gather(v, some, 0)[:, None], 0.0), 0)
        count += tl.sum(same.to(tl.int32), 0)
        some += CHUNK
        start += CHUNK
    return tl.gather(total / tl.maximum(count, 1).to(tl.float64), label, 0)
