"""Bisection for the threshold of each row: as many halvings of a bracket as are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from omegamax._numerics import phi

MAX_ALPHA = 1e30  # stands in for alpha = inf, where inf * 0 would be NaN; fits float32


def bisect_entmax(X: Tensor, alpha: Tensor, dim: int, n_iter: int, ensure_sum_one: bool) -> Tensor:
    """Return entmax along ``dim`` for one ``alpha`` a row, divided by its sum or not."""
    # With e = alpha - 1 and the maximum moved to 0, p = (1 + e (X - shift))^(1/e) for a shift between 0, where the
    # maximum alone has mass 1, and (1 - K^-e) / e, where no entry exceeds 1 / K. All of it is smooth through e = 0.
    e, log_size = alpha.clamp(max=MAX_ALPHA) - 1, math.log(X.shape[dim])
    top = _row_maximum(X, dim)
    inverse = torch.where(e == 0, 0.0, 1 / e)

    def at(shift: Tensor) -> Tensor:
        t = X - top - shift
        return torch.where(e == 0, t, (e * t).clamp(min=-1).log1p() * inverse).exp()

    p = _bisect(
        torch.zeros_like(top), log_size * phi(-e * log_size), at, lambda p: p.sum(dim, keepdim=True) - 1, n_iter
    )
    return _normalise(p, dim) if ensure_sum_one else p


def bisect_normmax(X: Tensor, alpha: Tensor, dim: int, n_iter: int) -> Tensor:
    """Return normmax along ``dim`` for one ``alpha`` a row."""
    e = alpha.clamp(max=MAX_ALPHA) - 1
    top = _row_maximum(X, dim)

    def excess(base: Tensor) -> Tensor:
        return base.pow(1 + 1 / e).sum(dim, keepdim=True) - 1

    base = _bisect(top - 1, top - (1 / X.shape[dim]) ** e, lambda tau: (X - tau).clamp(min=0), excess, n_iter)
    return _normalise(base.pow(1 / e), dim)


def bisect_budget(X: Tensor, budget: Tensor, dim: int, n_iter: int) -> Tensor:
    """Return marginals along ``dim`` for one ``budget`` a row."""
    masked = X == -math.inf
    share = budget / (~masked).sum(dim, keepdim=True).clamp(min=1)
    low = torch.where(masked, math.inf, X).amin(dim, keepdim=True)
    low = torch.where(low == math.inf, 0.0, low)

    def excess(p: Tensor) -> Tensor:
        return p.sum(dim, keepdim=True) - budget

    return _bisect(low - share, _row_maximum(X, dim) - share, lambda tau: (X - tau).clamp(0, 1), excess, n_iter)


def _bisect(
    low: Tensor, high: Tensor, at: Callable[[Tensor], Tensor], excess: Callable[[Tensor], Tensor], n_iter: int
) -> Tensor:
    """Return ``at`` the last of ``n_iter`` midpoints on the way to where ``excess`` changes sign."""
    step = high - low
    for _ in range(n_iter):
        step = step / 2
        p = at(low + step)
        low = torch.where(excess(p) >= 0, low + step, low)
    return p


def _row_maximum(X: Tensor, dim: int) -> Tensor:
    """Return the maximum, 0 for a row with nothing left: -inf - (-inf) would be NaN there."""
    top = X.amax(dim, keepdim=True)
    return torch.where(top == -math.inf, 0.0, top)


def _normalise(p: Tensor, dim: int) -> Tensor:
    total = p.sum(dim, keepdim=True)
    return p / torch.where(total == 0, 1.0, total)
