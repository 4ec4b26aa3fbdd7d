"""SparseMAP over a list of structures in rational arithmetic: no rounding, so that ties are ties."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

ZERO, ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class Exact:
    """The solution for one problem."""

    marginals: list[Fraction]
    value: Fraction

    @property
    def tensor(self) -> Tensor:
        return torch.tensor([float(u) for u in self.marginals], dtype=torch.float64)


def solve(structures: Tensor, parts: Tensor | None, scores: Tensor, additional: Tensor | None) -> Exact | None:
    """``structures [S, n]`` and ``parts [S, m]`` are 0/1; None where ``-inf`` forbids every structure.

    Wolfe's method as he wrote it: the structures in use have positive weights; the best one at the slope is taken in,
    and a step towards the minimum over the affine hull, or along it where that is degenerate, ends at the first weight
    that is gone.
    """
    ones = [row.nonzero()[:, 0].tolist() for row in structures]
    more = [[] for _ in ones] if parts is None else [row.nonzero()[:, 0].tolist() for row in parts]
    eta, mu = scores.tolist(), [] if additional is None else additional.tolist()
    kept = [
        (set(a), sum((Fraction(eta[i]) for i in a), ZERO) + sum((Fraction(mu[i]) for i in b), ZERO))
        for a, b in zip(ones, more, strict=True)
        if all(eta[i] > -math.inf for i in a) and all(mu[i] > -math.inf for i in b)
    ]
    if not kept:
        return None
    used, weights = [max(range(len(kept)), key=lambda s: kept[s][1] - Fraction(len(kept[s][0]), 2))], [ONE]
    while True:
        u = [ZERO] * len(eta)
        for s, w in zip(used, weights, strict=True):
            for i in kept[s][0]:
                u[i] += w
        gains = [linear - sum((u[i] for i in a), ZERO) for a, linear in kept]
        level = sum((w * gains[s] for s, w in zip(used, weights, strict=True)), ZERO)
        best = max(range(len(kept)), key=gains.__getitem__)
        if gains[best] <= level:
            value = sum((w * kept[s][1] for s, w in zip(used, weights, strict=True)), ZERO)
            return Exact(u, value - sum((v * v for v in u), ZERO) / 2)
        used, weights = _descend([kept[s] for s in (*used, best)], [*used, best], [*weights, ZERO])


def _descend(kept: list[tuple[set[int], Fraction]], used: list[int], weights: list[Fraction]) -> tuple[list, list]:
    while True:
        # [[0, 1], [1, M^T M]] (level, weights) = (1, linear)
        table = [[ZERO, *[ONE] * len(kept), ONE]]
        table += [[ONE, *(Fraction(len(a & b)) for b, _ in kept), linear] for a, linear in kept]
        target, null = _eliminated(table)
        if target is None:
            step = null[1:]
            uphill = sum((d * linear for d, (_, linear) in zip(step, kept, strict=True)), ZERO) >= 0
            step = step if uphill else [-d for d in step]
        else:
            step = [t - w for t, w in zip(target[1:], weights, strict=True)]
        reach = min((w / -d for w, d in zip(weights, step, strict=True) if d < 0), default=ONE)
        arrived = target is not None and reach >= 1
        reach = min(reach, ONE) if target is not None else reach
        weights = [w + reach * d for w, d in zip(weights, step, strict=True)]
        left = [i for i, w in enumerate(weights) if w > 0]
        kept, used, weights = ([a[i] for i in left] for a in (kept, used, weights))
        if arrived:
            return used, weights


def _eliminated(table: list[list[Fraction]]) -> tuple[list[Fraction] | None, list[Fraction]]:
    """The solution of a square system with its right side, or else a vector of its null space."""
    size, pivots = len(table), []
    for column in range(size):
        at = next((i for i in range(len(pivots), size) if table[i][column]), None)
        if at is None:
            continue
        row = len(pivots)
        table[row], table[at] = table[at], table[row]
        table[row] = [v / table[row][column] for v in table[row]]
        for i in range(size):
            if i != row and table[i][column]:
                table[i] = [a - table[i][column] * b for a, b in zip(table[i], table[row], strict=True)]
        pivots.append(column)
    if len(pivots) == size:
        return [row[-1] for row in table], []
    free = next(c for c in range(size) if c not in pivots)
    null = [ZERO] * size
    null[free] = ONE
    for row, column in enumerate(pivots):
        null[column] = -table[row][free]
    return None, null
