"""Losses over class labels, one value for each sample: Omega*(x) - x[target]."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from omegamax._arguments import check_choice
from omegamax.compat.entmax.activations import compute_in_single
from omegamax.compat.entmax.root_finding import (
    count_halvings,
    entmax_bisect,
    normmax_bisect,
    split_at_one,
    to_working_dtype,
)
from omegamax.maps import NormEntropy, Omega, Tsallis
from omegamax.maps.conjugate import conjugate_minus, row_max


def sparsemax_loss(X: Tensor, target: Tensor, k: int | None = None) -> Tensor:
    """Compute the sparsemax loss ``[N]`` of scores ``[N, C]`` and labels ``[N]``; ``k`` is taken and changes nothing.

    >>> sparsemax_loss(torch.tensor([[2.0, 1.0, 0.0], [2.0, 1.5, 0.0]]), torch.tensor([0, 0]))
    tensor([0.0000, 0.0625])
    """
    return _label_loss(X, target, Tsallis(2.0))


def sparsemax_bisect_loss(X: Tensor, target: Tensor, n_iter: int | None = 50) -> Tensor:
    """Compute :func:`sparsemax_loss` at the result of ``n_iter`` halvings."""
    return entmax_bisect_loss(X, target, 2.0, n_iter)


def entmax15_loss(X: Tensor, target: Tensor, k: int | None = None) -> Tensor:
    """Compute the 1.5-entmax loss of scores ``[N, C]`` and labels ``[N]``, ``[N]``; ``k`` changes nothing."""
    return _label_loss(X, target, Tsallis(1.5))


def entmax_bisect_loss(X: Tensor, target: Tensor, alpha: float | Tensor = 1.5, n_iter: int | None = 50) -> Tensor:
    """Compute the entmax loss for ``alpha`` > 0, a number or a tensor ``[]``, ``[1]`` or ``[N, 1]``, differentiably."""
    alpha = to_working_dtype(alpha, X)
    coarse = None if count_halvings(X, n_iter) is None else partial(entmax_bisect, alpha=alpha, n_iter=n_iter)
    return _label_loss(X, target, Tsallis(alpha), coarse)


def normmax_bisect_loss(X: Tensor, target: Tensor, alpha: float | Tensor = 2, n_iter: int | None = 50) -> Tensor:
    """Compute the normmax loss, ``alpha`` as in :func:`entmax_bisect_loss`; up to 1 it is ``max(x) - x[target]``."""
    alpha = to_working_dtype(alpha, X)
    hard, soft = split_at_one(alpha)
    if hard is True:
        return _label_loss(X, target, Tsallis(math.inf))
    coarse = None if count_halvings(X, n_iter) is None else partial(normmax_bisect, alpha=soft, n_iter=n_iter)
    loss = _label_loss(X, target, NormEntropy(soft), coarse)
    if hard is False:
        return loss
    hard = hard.squeeze(-1) if hard.dim() else hard
    return torch.where(hard, _label_loss(X, target, Tsallis(math.inf)), loss)


class _GenericLoss(nn.Module, ABC):
    """Base of the losses: samples to leave out, and how to sum up the others.

    Args:
        ignore_index: label of samples that count for nothing, negative or not.
        reduction: ``"elementwise_mean"`` (over the samples that count), ``"sum"`` or ``"none"``.
    """

    def __init__(self, ignore_index: int = -100, reduction: str = "elementwise_mean"):
        super().__init__()
        check_choice(type(self).__name__, "reduction", reduction, ("elementwise_mean", "sum", "none"))
        self.reduction = reduction
        self.ignore_index = ignore_index

    def forward(self, X: Tensor, target: Tensor) -> Tensor:
        ignored = target == self.ignore_index
        # Taken out before the loss, so that neither a label out of range nor a NaN score there does harm.
        loss = self.loss(X.masked_fill(ignored.unsqueeze(-1), 0.0), target.masked_fill(ignored, 0))
        loss = loss.masked_fill(ignored, 0.0)
        if self.reduction == "none":
            return loss
        return loss.sum() if self.reduction == "sum" else loss.sum() / (~ignored).sum()

    @abstractmethod
    def loss(self, X: Tensor, target: Tensor) -> Tensor:
        """Return one value for each sample."""


class SparsemaxLoss(_GenericLoss):
    """:func:`sparsemax_loss` as a module."""

    def __init__(self, k: int | None = None, ignore_index: int = -100, reduction: str = "elementwise_mean"):
        super().__init__(ignore_index, reduction)
        self.k = k

    def loss(self, X: Tensor, target: Tensor) -> Tensor:
        return sparsemax_loss(X, target, self.k)


class SparsemaxBisectLoss(_GenericLoss):
    """:func:`sparsemax_bisect_loss` as a module."""

    def __init__(self, n_iter: int | None = 50, ignore_index: int = -100, reduction: str = "elementwise_mean"):
        super().__init__(ignore_index, reduction)
        self.n_iter = n_iter

    def loss(self, X: Tensor, target: Tensor) -> Tensor:
        return sparsemax_bisect_loss(X, target, self.n_iter)


class Entmax15Loss(_GenericLoss):
    """:func:`entmax15_loss` as a module."""

    def __init__(self, k: int | None = 100, ignore_index: int = -100, reduction: str = "elementwise_mean"):
        super().__init__(ignore_index, reduction)
        self.k = k

    def loss(self, X: Tensor, target: Tensor) -> Tensor:
        return entmax15_loss(X, target, self.k)


class EntmaxBisectLoss(_GenericLoss):
    """:func:`entmax_bisect_loss` as a module; an ``alpha`` that is an ``nn.Parameter`` is learnt."""

    def __init__(
        self,
        alpha: float | Tensor = 1.5,
        n_iter: int | None = 50,
        ignore_index: int = -100,
        reduction: str = "elementwise_mean",
    ):
        super().__init__(ignore_index, reduction)
        self.alpha = alpha
        self.n_iter = n_iter

    def loss(self, X: Tensor, target: Tensor) -> Tensor:
        return entmax_bisect_loss(X, target, self.alpha, self.n_iter)


class NormmaxBisectLoss(_GenericLoss):
    """:func:`normmax_bisect_loss` as a module; an ``alpha`` that is an ``nn.Parameter`` is learnt."""

    def __init__(
        self,
        alpha: float | Tensor = 2,
        n_iter: int | None = 50,
        ignore_index: int = -100,
        reduction: str = "elementwise_mean",
    ):
        super().__init__(ignore_index, reduction)
        self.alpha = alpha
        self.n_iter = n_iter

    def loss(self, X: Tensor, target: Tensor) -> Tensor:
        return normmax_bisect_loss(X, target, self.alpha, self.n_iter)


def _label_loss(X: Tensor, target: Tensor, omega: Omega, coarse: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Compute the Fenchel-Young loss of one-hot targets, whose Omega is 0; ``coarse`` gives other probabilities."""
    if X.dim() != 2 or target.shape != X.shape[:1]:
        raise ValueError(
            f"loss: wanted scores [N, C] and labels [N], got shapes {tuple(X.shape)} and {tuple(target.shape)}"
        )

    def value(X: Tensor) -> Tensor:
        if coarse is None:
            loss = conjugate_minus(omega, X, target)
        else:
            # The probabilities are given, so that only the value is shifted: with the largest score at 0 its rounding
            # is least.
            p = coarse(X.detach()).detach()
            z = X - row_max(X)
            met = torch.where(p == 0, 0.0, z * p).sum(-1)
            loss = met - omega(p) - z.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        # Rounding may leave -1e-17; the value becomes 0 and the gradient stays.
        return torch.where(loss < 0, loss - loss.detach(), loss)

    return compute_in_single(X, value)
