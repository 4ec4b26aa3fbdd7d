"""Sparsemax and 1.5-entmax. The size ``k`` of a partial sort is accepted and cannot change a result."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from omegamax import functional
from omegamax._numerics import working_dtype


def sparsemax(X: Tensor, dim: int = -1, k: int | None = None) -> Tensor:
    """Project ``X`` onto the simplex along ``dim``: :func:`omegamax.sparsemax`."""
    return functional.sparsemax(X, dim)


def entmax15(X: Tensor, dim: int = -1, k: int | None = None) -> Tensor:
    """Compute 1.5-entmax along ``dim``: :func:`omegamax.entmax15`."""
    return functional.entmax15(X, dim)


class Sparsemax(nn.Module):
    """:func:`sparsemax` as a module."""

    def __init__(self, dim: int = -1, k: int | None = None):
        super().__init__()
        self.dim = dim
        self.k = k

    def forward(self, X: Tensor) -> Tensor:
        return sparsemax(X, dim=self.dim, k=self.k)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Entmax15(nn.Module):
    """:func:`entmax15` as a module."""

    def __init__(self, dim: int = -1, k: int | None = None):
        super().__init__()
        self.dim = dim
        self.k = k

    def forward(self, X: Tensor) -> Tensor:
        return entmax15(X, dim=self.dim, k=self.k)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


def compute_in_single(X: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ``compute(X)``, in float32 where ``X`` has half precision; half comes out again except under autocast."""
    working = working_dtype(X)
    if X.dtype == working:
        return compute(X)
    out = compute(X.to(working))
    return out if torch.is_autocast_enabled(X.device.type) else out.to(X.dtype)


def _sparsemax_threshold_and_support(X: Tensor, dim: int = -1, k: int | None = None) -> tuple[Tensor, Tensor]:
    """Find ``tau`` with ``sum [X - tau]_+ = 1`` and how many entries exceed it, both with size 1 along ``dim``.

    A row with nothing left has support size 0.

        >>> _sparsemax_threshold_and_support(torch.tensor([1.0, 0.5, -1.0]))
        (tensor([0.2500]), tensor([2]))
    """
    support = functional.sparsemax(X.detach(), dim) > 0
    size = support.sum(dim, keepdim=True)

    def threshold(X: Tensor) -> Tensor:
        mean, _ = _compute_moments(X, support, size, dim)
        return mean - 1 / size.clamp(min=1).to(X.dtype)  # an int alone would divide in float32

    return compute_in_single(X, threshold), size


def _entmax_threshold_and_support(X: Tensor, dim: int = -1, k: int | None = None) -> tuple[Tensor, Tensor]:
    """Find ``tau`` with ``sum [X - tau]_+^2 = 1`` (``X`` being half the scores) and how many entries reach it.

    >>> _entmax_threshold_and_support(torch.tensor([1.0, 0.0, -1.0]))
    (tensor([0.]), tensor([2]))
    """
    support = functional.entmax15(2 * X.detach(), dim) > 0
    size = support.sum(dim, keepdim=True)

    def threshold(X: Tensor) -> Tensor:
        mean, spread = _compute_moments(X, support, size, dim)
        return mean - ((1 - spread).clamp(min=0) / size.clamp(min=1)).sqrt()

    tau = compute_in_single(X, threshold)
    # An entry that only touches the threshold counts here, unlike in sparsemax.
    return tau, (support | (X >= tau)).sum(dim, keepdim=True)


def _compute_moments(X: Tensor, support: Tensor, size: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the mean of ``X`` over the support and the sum of squared deviations from it; 0 on an empty support."""
    count = size.clamp(min=1)
    # Deviations from the maximum are small on the support; sums of large scores would lose them.
    top = torch.where(size > 0, X.detach().amax(dim, keepdim=True), 0.0)
    shift = torch.where(support, X - top, 0.0).sum(dim, keepdim=True) / count
    spread = torch.where(support, X - top - shift, 0.0).square().sum(dim, keepdim=True)
    return top + shift, spread
