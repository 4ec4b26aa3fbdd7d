"""Solve linear assignment by shortest augmenting paths, in NumPy, for a batch of matrices at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Assignment:
    """The best matching of each matrix, and potentials that prove it: ``scores <= rows + columns``, equal where chosen.

    Where no matching is ``feasible`` the choice is an arbitrary one, and the potentials prove nothing.
    """

    choice: np.ndarray  # [B, n]: the column of each row
    rows: np.ndarray  # [B, n]
    columns: np.ndarray  # [B, m]: >= 0, and 0 where no row is
    feasible: np.ndarray  # [B]


def assign(scores: np.ndarray) -> Assignment:
    """Find matchings of largest score: a column for each row of ``[B, n, m]``, n <= m; ``-inf`` forbids an entry.

    Rows are placed one after the other, each along a shortest path of reduced costs that may push others to another
    column: O(n^2 m) for a matrix. The matrices advance in step, a vector operation on all of them at a time.
    """
    cost = -scores
    count, n, m = cost.shape
    rows, columns = np.zeros((count, n)), np.zeros((count, m))
    row_of = np.full((count, m), -1)
    column_of = np.full((count, n), -1)
    feasible = np.ones(count, dtype=bool)
    for new in range(n):
        live = np.flatnonzero(feasible)
        path = _Paths(len(live), m)
        open_ = np.arange(len(live))
        row = np.full(len(live), new)
        ends = np.full(len(live), -1)
        base = np.zeros(len(live))
        while len(open_):
            at = live[open_]
            reduced = cost[at, row] - rows[at, row][:, None] - columns[at] + base[open_, None]
            column, base[open_] = path.extend(open_, row, reduced)
            stuck = base[open_] == np.inf
            feasible[at[stuck]] = False
            row = row_of[at, column]
            ended = (row < 0) & ~stuck
            ends[open_[ended]] = column[ended]
            go = ~ended & ~stuck
            open_, row = open_[go], row[go]
        placed = np.flatnonzero(ends >= 0)
        at = live[placed]
        rows[at, new] += base[placed]
        # The tree of the search moves so that the path costs nothing.
        slack = np.where(path.closed[placed], base[placed, None] - path.cost[placed], 0.0)
        columns[at] -= slack
        matrix, column = np.nonzero(path.closed[placed] & (row_of[at] >= 0))
        rows[at[matrix], row_of[at[matrix], column]] += slack[matrix, column]
        column = ends[placed]
        while len(placed):
            before = path.row[placed, column]
            following = column_of[live[placed], before]
            row_of[live[placed], column] = before
            column_of[live[placed], before] = column
            go = before != new
            placed, column = placed[go], following[go]
    column_of[~feasible] = np.arange(n)
    return Assignment(column_of, -rows, -columns, feasible)


class _Paths:
    """Shortest paths from the new rows to the columns, as far as they are known."""

    def __init__(self, count: int, m: int):
        self.cost = np.full((count, m), np.inf)
        self.row = np.full((count, m), -1)  # the row before a column
        self.closed = np.zeros((count, m), dtype=bool)

    def extend(self, at: np.ndarray, row: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Offer what is reached from ``row``; close the nearest column that is open, and return it with its cost.

        The cost is infinite where no open column can be reached.
        """
        better = (reach < self.cost[at]) & ~self.closed[at]
        self.cost[at] = np.where(better, reach, self.cost[at])
        self.row[at] = np.where(better, row[:, None], self.row[at])
        open_cost = np.where(self.closed[at], np.inf, self.cost[at])
        column = open_cost.argmin(1)
        self.closed[at, column] = True
        return column, np.take_along_axis(open_cost, column[:, None], 1)[:, 0]
