r"""Direct solution of linear systems in which variables are coupled by the factors they share:

.. math:: (S + \sum_f C_f^\top A_f C_f) \, x = b

with S diagonal, :math:`C_f` copying the variables of factor f and :math:`A_f` symmetric.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from omegamax.structured._blocks import Block

MIN_WIDTH = 64  # of a block of variables: smaller ones cost as much time as this
MAX_WORK = 1e9  # multiplications of one factorisation, for all examples
MAX_ENTRIES = 2e7  # of the matrix, for all examples


class EliminationOrder:
    """Variables in groups such that factors couple only variables of one group or of two neighbours.

    The groups are the levels of a breadth-first search that starts at the far end of the graph, several small ones
    joined. Long chains, and trees of moderate width, have narrow groups; graphs in which everything is near everything
    have wide ones, and elimination does not pay (:meth:`is_affordable`).

    Args:
        size: number of variables.
        blocks: of like factors.
    """

    def __init__(self, size: int, blocks: Sequence[Block]):
        cliques = [row for block in blocks for row in block.index.cpu().numpy()]
        levels = _search_breadth_first(size, cliques)
        group, first = np.empty(size, np.int64), np.empty(size, np.int64)
        width: list[int] = []
        pending: list[int] = []
        for depth, level in enumerate(levels):
            pending += level
            if len(pending) >= MIN_WIDTH or depth == len(levels) - 1:
                group[pending], first[pending] = len(width), np.arange(len(pending))
                width.append(len(pending))
                pending = []
        self.widths = width
        sizes = np.array(width)
        self.position = torch.from_numpy(np.concatenate([[0], sizes.cumsum()[:-1]])[group] + first)
        # Where entries go: the diagonal blocks one after the other, then those below them, then one for the rest.
        diagonal = np.concatenate([[0], (sizes**2).cumsum()])
        below = diagonal[-1] + np.concatenate([[0], (sizes[1:] * sizes[:-1]).cumsum()])
        self.entries = int(below[-1])
        self.diagonal, self.below = diagonal, below
        self.targets = []
        for block in blocks:
            index = block.index.cpu().numpy()
            row, column = index[:, :, None], index[:, None, :]
            same = group[row] == group[column]
            lower = group[row] == group[column] + 1
            at = np.where(same, diagonal[group[row]] + first[row] * sizes[group[row]] + first[column], self.entries)
            under = below[np.minimum(group[column], len(sizes) - 1)] + first[row] * sizes[group[column]] + first[column]
            self.targets.append(torch.from_numpy(np.where(lower, under, at).reshape(-1)))
        self.ends = torch.from_numpy(diagonal[group] + first * (sizes[group] + 1))

    def is_affordable(self, examples: int) -> bool:
        """Tell whether to factorise so many matrices rather than iterate."""
        work = sum(float(w) ** 3 for w in self.widths)
        pairs = sum(target.numel() for target in self.targets)
        return examples * work <= MAX_WORK and examples * (self.entries + pairs) <= MAX_ENTRIES


class Elimination:
    r"""The Cholesky factor of the matrix above, which is block-tridiagonal in a given order.

    Args:
        order: of the variables.
        matrices: A, for each block of factors ``[B, K, m, m]``, symmetric.
        diagonal: S, ``[B, N]``, positive.
    """

    def __init__(self, order: EliminationOrder, matrices: list[Tensor], diagonal: Tensor):
        self.order = order
        flat = diagonal.new_zeros(len(diagonal), order.entries + 1)
        flat.index_add_(1, order.ends.to(diagonal.device), diagonal)
        for matrix, target in zip(matrices, order.targets, strict=True):
            flat.index_add_(1, target.to(diagonal.device), matrix.flatten(1))
        self.lower: list[Tensor] = []
        self.under: list[Tensor] = []
        widths, last = order.widths, None
        for k, width in enumerate(widths):
            block = flat[:, order.diagonal[k] : order.diagonal[k + 1]].unflatten(1, (width, width))
            if last is not None:
                coupling = flat[:, order.below[k - 1] : order.below[k]].unflatten(1, (width, widths[k - 1]))
                # Rows of L below the previous diagonal block.
                under = torch.linalg.solve_triangular(last, coupling.mT, upper=False).mT
                block = block - under @ under.mT
                self.under.append(under)
            last = torch.linalg.cholesky_ex(block)[0]
            self.lower.append(last)

    def solve(self, b: Tensor) -> Tensor:
        """Return x ``[B, N]`` for right-hand sides ``b [B, N]``."""
        position = self.order.position.to(b.device)
        parts = list(torch.empty_like(b).index_copy_(1, position, b)[..., None].split(self.order.widths, 1))
        last = len(parts) - 1
        for k in range(last + 1):
            part = parts[k] if k == 0 else parts[k] - self.under[k - 1] @ parts[k - 1]
            parts[k] = torch.linalg.solve_triangular(self.lower[k], part, upper=False)
        for k in range(last, -1, -1):
            part = parts[k] if k == last else parts[k] - self.under[k].mT @ parts[k + 1]
            parts[k] = torch.linalg.solve_triangular(self.lower[k].mT, part, upper=True)
        return torch.cat(parts, 1)[:, position, 0]


def _search_breadth_first(size: int, cliques: list[np.ndarray]) -> list[list[int]]:
    """Return variables by their distance from the start of a breadth-first search, one component after another."""
    members = [clique.tolist() for clique in cliques]
    around: list[list[int]] = [[] for _ in range(size)]
    for c, clique in enumerate(members):
        for variable in clique:
            around[variable].append(c)

    def search(start: int) -> list[list[int]]:
        seen, met, levels = {start}, set(), [[start]]
        while levels[-1]:
            following = []
            for variable in levels[-1]:
                for c in around[variable]:
                    if c in met:
                        continue
                    met.add(c)
                    for other in members[c]:
                        if other not in seen:
                            seen.add(other)
                            following.append(other)
            levels.append(following)
        return levels[:-1]

    found: list[list[int]] = []
    known = np.zeros(size, dtype=bool)
    for start in range(size):
        if known[start]:
            continue
        levels = search(search(start)[-1][0])  # from the far end: more levels, and narrower ones
        for level in levels:
            known[level] = True
        found += levels
    return found
