"""Batches of rows: which points an example has, how many starts, and what a fit returns of all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def find_sharing(own: Sequence[int], batch: Sequence[int]) -> tuple[int, int] | None:
    """Return how a batch that broadcasts to another is read: example e has the entry ``e // inner % sets`` of it.

    Those are ``inner`` and ``sets``; None where no two numbers say it.

    >>> find_sharing((2, 1), (3, 2, 4)), find_sharing((), (3, 4)), find_sharing((3, 1, 2), (3, 4, 2))
    ((4, 2), (1, 1), None)
    """
    full = [1] * (len(batch) - len(own)) + list(own)
    axes = [i for i, size in enumerate(full) if size != 1]
    if not axes:
        return 1, 1
    first, last = axes[0], axes[-1] + 1
    if full[first:last] != list(batch[first:last]):
        return None
    return math.prod(batch[last:]), math.prod(full[first:last])


def count_starts(components: int, restarts: int, growing: bool) -> int:
    """Return how many starts an example has: so many, or of growing numbers of components one and so many of each."""
    return 1 + (components - 1) * restarts if growing else restarts


def make_results(
    x: Tensor, weights: Tensor, components: int, starts: int, iterations: int, search: bool
) -> tuple[Tensor, ...]:
    """Return room for all that :func:`omegamax.kernels.mixtures.triton.launcher.fit_mixtures` writes."""
    batch, (length, n) = weights.shape[:-1], x.shape[-2:]
    rows = (starts, *batch)
    out = weights.new_empty(0, dtype=torch.promote_types(weights.dtype, torch.float32))
    exact = weights.new_empty(0, dtype=torch.float64)
    return (
        out.new_empty((*rows, components)),
        out.new_empty((*rows, components, n)),
        out.new_empty((*rows, components, n, n)),
        exact.new_empty(rows if search else 0),
        weights.new_empty((*rows, length), dtype=torch.int32),
        exact.new_empty((*batch, 2)),
        exact.new_empty((*batch, length)),
        exact.new_empty((*rows, length, n)),
        exact.new_empty((*rows, 6)),
        exact.new_empty((0 if search else iterations + 1, *rows, components, 1 + n + n * (n + 1) // 2)),
    )


def make_choice(
    values: Tensor, pi: Tensor, mean: Tensor, cov: Tensor, candidates: int, copy: bool
) -> tuple[Tensor, ...]:
    """Return room for all that :func:`omegamax.kernels.mixtures.triton.launcher.choose_start` writes."""
    batch = values.shape[1:]
    copies = (t.new_empty(t.shape[1:] if copy else 0) for t in (pi, mean, cov))
    return values.new_empty(batch, dtype=torch.int32), values.new_empty((candidates, *batch)), *copies
