"""Maps that bisect for a threshold: exact when ``n_iter`` halvings reach the dtype's precision, coarse below that."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from omegamax import functional
from omegamax._checks import check_above, check_scores
from omegamax._map_parameters import row_parameter
from omegamax._numerics import working_dtype
from omegamax.compat.entmax._bisection import bisect_budget, bisect_entmax, bisect_normmax
from omegamax.compat.entmax.activations import compute_in_single
from omegamax.kernels.bounds import k_subsets_vjp
from omegamax.kernels.rows import entmax_in_alpha, entmax_vjp, normmax_vjp


def entmax_bisect(
    X: Tensor, alpha: float | Tensor = 1.5, dim: int = -1, n_iter: int | None = 50, ensure_sum_one: bool = True
) -> Tensor:
    """Compute entmax along ``dim`` for ``alpha`` > 0, a number or one for each row; 1 is softmax.

    Args:
        n_iter: halvings of the bracket. 24 (float32 and half) or 50 (float64) and ``None`` give the exact result of
            :func:`omegamax.entmax`; fewer give what so many halvings find.
        ensure_sum_one: divide a coarse result by its sum.

        >>> X = torch.tensor([1.0, 0.5, -1.0])
        >>> entmax_bisect(X, alpha=1.25)
        tensor([0.6315, 0.3451, 0.0235])
        >>> entmax_bisect(X, alpha=2.0, n_iter=2, ensure_sum_one=False)
        tensor([0.8333, 0.3333, 0.0000])
    """
    alpha = to_working_dtype(alpha, X)
    steps = count_halvings(X, n_iter)
    if steps is None:
        return functional.entmax(X, alpha, dim)
    dim = check_scores("entmax_bisect", X, dim)
    check_above("entmax_bisect", "alpha", alpha, 0.0)

    def solve(X: Tensor) -> Tensor:
        a = _row_parameter("entmax_bisect", "alpha", alpha, X, dim)
        p = bisect_entmax(X.detach(), a.detach(), dim, steps, ensure_sum_one)
        moved = p + entmax_vjp(p, _tangent(X), a.detach(), dim)
        return moved + _tangent(a) * entmax_in_alpha(p, a.detach(), dim) if a.requires_grad else moved

    return compute_in_single(X, solve)


def sparsemax_bisect(X: Tensor, dim: int = -1, n_iter: int | None = 50, ensure_sum_one: bool = True) -> Tensor:
    """Compute sparsemax along ``dim``; ``n_iter`` and ``ensure_sum_one`` as in :func:`entmax_bisect`."""
    return entmax_bisect(X, 2.0, dim, n_iter, ensure_sum_one)


def normmax_bisect(X: Tensor, alpha: float | Tensor = 2, dim: int = -1, n_iter: int | None = 50) -> Tensor:
    """Compute :func:`omegamax.normmax` along ``dim``; ``n_iter`` as in :func:`entmax_bisect`.

    For ``alpha`` <= 1 every distribution has a norm of at least 1 and the one-hot ones attain it, so the result is
    the argmax (maxima share), which is also the limit as ``alpha`` falls to 1.

        >>> normmax_bisect(torch.tensor([1.0, 0.5, -1.0]), alpha=0.5)
        tensor([1., 0., 0.])
    """
    alpha = to_working_dtype(alpha, X)
    check_above("normmax_bisect", "alpha", alpha, 0.0)
    hard, soft = split_at_one(alpha)
    if hard is True:
        return functional.entmax(X, math.inf, dim)
    steps = count_halvings(X, n_iter)
    if steps is None:
        p = functional.normmax(X, soft, dim)
    else:
        dim = check_scores("normmax_bisect", X, dim)

        def solve(X: Tensor) -> Tensor:
            a = _row_parameter("normmax_bisect", "alpha", soft, X, dim).detach()
            p = bisect_normmax(X.detach(), a, dim, steps)
            return p + normmax_vjp(p, _tangent(X), a, dim)

        p = compute_in_single(X, solve)
    return p if hard is False else torch.where(hard, functional.entmax(X, math.inf, dim), p)


def budget_bisect(X: Tensor, budget: float | Tensor = 2, dim: int = -1, n_iter: int | None = 50) -> Tensor:
    """Return marginals in [0, 1] that sum to ``budget`` along ``dim``: :func:`omegamax.k_subsets`.

    A budget outside [0, K] counts as the nearer end; ``n_iter`` as in :func:`entmax_bisect`.

        >>> budget_bisect(torch.tensor([1.0, 0.75, 0.5, 0.25, 0.0]), budget=2)
        tensor([0.8750, 0.6250, 0.3750, 0.1250, 0.0000])
    """
    dim = check_scores("budget_bisect", X, dim)
    budget = to_working_dtype(budget, X)
    steps = count_halvings(X, n_iter)
    if steps is None:
        size = X.shape[dim] if X.dim() else 1
        budget = budget.clamp(0, size) if isinstance(budget, Tensor) else min(max(budget, 0.0), size)
        return functional.k_subsets(X, budget, dim)

    def solve(X: Tensor) -> Tensor:
        b = _row_parameter("budget_bisect", "budget", budget, X, dim).detach()
        p = bisect_budget(X.detach(), b, dim, steps)
        return p + k_subsets_vjp(p, _tangent(X), dim)

    return compute_in_single(X, solve)


class SparsemaxBisect(nn.Module):
    """:func:`sparsemax_bisect` as a module."""

    def __init__(self, dim: int = -1, n_iter: int | None = None):
        super().__init__()
        self.dim = dim
        self.n_iter = n_iter

    def forward(self, X: Tensor) -> Tensor:
        return sparsemax_bisect(X, dim=self.dim, n_iter=self.n_iter)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, n_iter={self.n_iter}"


class EntmaxBisect(nn.Module):
    """:func:`entmax_bisect` as a module; an ``alpha`` that is an ``nn.Parameter`` is learnt."""

    def __init__(self, alpha: float | Tensor = 1.5, dim: int = -1, n_iter: int | None = 50):
        super().__init__()
        self.dim = dim
        self.n_iter = n_iter
        self.alpha = alpha

    def forward(self, X: Tensor) -> Tensor:
        return entmax_bisect(X, alpha=self.alpha, dim=self.dim, n_iter=self.n_iter)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}, dim={self.dim}, n_iter={self.n_iter}"


class NormmaxBisect(nn.Module):
    """:func:`normmax_bisect` as a module; an ``alpha`` that is an ``nn.Parameter`` is learnt."""

    def __init__(self, alpha: float | Tensor = 2, dim: int = -1, n_iter: int | None = 50):
        super().__init__()
        self.dim = dim
        self.n_iter = n_iter
        self.alpha = alpha

    def forward(self, X: Tensor) -> Tensor:
        return normmax_bisect(X, alpha=self.alpha, dim=self.dim, n_iter=self.n_iter)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}, dim={self.dim}, n_iter={self.n_iter}"


class BudgetBisect(nn.Module):
    """:func:`budget_bisect` as a module."""

    def __init__(self, budget: float | Tensor = 2, dim: int = -1, n_iter: int | None = 50):
        super().__init__()
        self.dim = dim
        self.n_iter = n_iter
        self.budget = budget

    def forward(self, X: Tensor) -> Tensor:
        return budget_bisect(X, budget=self.budget, dim=self.dim, n_iter=self.n_iter)

    def extra_repr(self) -> str:
        return f"budget={self.budget}, dim={self.dim}, n_iter={self.n_iter}"


def count_halvings(X: Tensor, n_iter: int | None) -> int | None:
    """Return how often to halve the bracket; ``None`` where that leaves no error that the dtype of ``X`` could show."""
    if n_iter is None:
        return None
    if n_iter < 1:
        raise ValueError(f"entmax: n_iter must be at least 1, got {n_iter}")
    return n_iter if X.dim() and n_iter < (50 if X.dtype == torch.float64 else 24) else None


def to_working_dtype(value: float | Tensor, X: Tensor) -> float | Tensor:
    """Return a parameter as the library takes it: a float, or a tensor in the dtype that ``X`` is computed in."""
    if not isinstance(value, Tensor):
        return float(value)
    return value.to(working_dtype(X))


def split_at_one(alpha: float | Tensor) -> tuple[bool | Tensor, float | Tensor]:
    """Tell where the norm is least at the vertices (``alpha`` <= 1), and return ``alpha`` with 2 there."""
    if not isinstance(alpha, Tensor):
        return alpha <= 1, alpha
    return alpha <= 1, torch.where(alpha <= 1, 2.0, alpha)


def _row_parameter(name: str, argument: str, value: float | Tensor, X: Tensor, dim: int) -> Tensor:
    return row_parameter(name, argument, torch.as_tensor(value, dtype=X.dtype, device=X.device), X, dim)


def _tangent(t: Tensor) -> Tensor:
    """Return zeros with the gradient of ``t``, the input of a linear model of a map around its result."""
    return torch.where(t.isfinite(), t - t.detach(), 0.0)
