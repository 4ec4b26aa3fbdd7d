"""Measures of predictions of the next token, and of text that was generated, as metrics of torchmetrics."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from omegamax._arguments import check_integer, check_number
from omegamax.metrics._predictions import (
    best_epsilon,
    epsilon_perplexity,
    jensen_shannon_score,
    sparsemax_score,
    support_size,
)
from omegamax.metrics._repetition import WINDOWS, count_repeated, find_ngrams
from omegamax.metrics._torchmetrics import _Mean


class _TokenMean(_Mean):
    """The mean of a measure of predictions ``[*, V]`` and true tokens ``[*]`` over all tokens that count."""

    is_differentiable = False

    def __init__(self, ignore_index: int = -100, **options: Any):
        super().__init__("nan", options, ignore_index=ignore_index)
        self.ignore_index = ignore_index

    def measure(self, p: Tensor, target: Tensor) -> Tensor:
        """Return the measure of each token ``[n]``."""
        raise NotImplementedError

    def update(self, p: Tensor, target: Tensor) -> None:
        """Add a batch of predictions."""
        kept = target != self.ignore_index
        self._add(self.measure(p[kept], target[kept]))


class SparsemaxScore(_TokenMean):
    """The mean of :func:`~omegamax.metrics.sparsemax_score`: ``update(p [*, V], target [*])``.

    Args:
        ignore_index: of targets that do not count.
        options: of every metric of torchmetrics, such as ``dist_sync_on_step``.

        >>> metric = SparsemaxScore(ignore_index=2)
        >>> metric(torch.tensor([[0.75, 0.25, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 2]))
        tensor(0.9375, dtype=torch.float64)
    """

    higher_is_better = True

    def measure(self, p: Tensor, target: Tensor) -> Tensor:
        return sparsemax_score(p, target, reduction="none")


class JensenShannonScore(_TokenMean):
    """The mean of :func:`~omegamax.metrics.jensen_shannon_score`: ``update(p [*, V], target [*])``.

    Args:
        ignore_index, options: as for :class:`SparsemaxScore`.

        >>> round(float(JensenShannonScore()(torch.tensor([[0.0, 1.0]]), torch.tensor([0]))), 6)
        0.693147
    """

    higher_is_better = False

    def measure(self, p: Tensor, target: Tensor) -> Tensor:
        return jensen_shannon_score(p, target, reduction="none")


class SupportSize(_TokenMean):
    """The mean number of tokens that could have come, see :func:`~omegamax.metrics.support_size`.

    ``update(p [*, V], target [*])``.

    Args:
        ignore_index, options: as for :class:`SparsemaxScore`.

        >>> SupportSize()(torch.tensor([[0.75, 0.25, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 1]))
        tensor(1.5000, dtype=torch.float64)
    """

    def measure(self, p: Tensor, target: Tensor) -> Tensor:
        return support_size(p, target, reduction="none")


class EpsilonPerplexity(Metric):
    """The perplexity of smoothed predictions, see :func:`~omegamax.metrics.epsilon_perplexity`.

    ``update(p [*, V], target [*])``. Of each token the probability of the true one is kept, so that any epsilon can be
    asked for: :meth:`find_epsilon` is the best one for the data so far, to be used on others.

    Args:
        epsilon: what is added to every probability; None: the best for the data themselves, which flatters.
        ignore_index, options: as for :class:`SparsemaxScore`.

        >>> metric = EpsilonPerplexity(0.25)
        >>> metric(torch.tensor([[0.75, 0.25, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0]]), torch.tensor([0, 3]))
        tensor(4., dtype=torch.float64)
        >>> round(metric.find_epsilon(), 6)
        0.75
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    true: list[Tensor]
    size: Tensor

    def __init__(self, epsilon: float | None = None, ignore_index: int = -100, **options: Any):
        super().__init__(**options)
        if epsilon not in (None, math.inf):  # in which predictions count for nothing
            check_number("EpsilonPerplexity", "epsilon", epsilon, least=0)
        self.epsilon = epsilon
        self.ignore_index = ignore_index
        self.add_state("true", [], dist_reduce_fx="cat")
        self.add_state("size", torch.zeros((), dtype=torch.int64), dist_reduce_fx="max")

    def update(self, p: Tensor, target: Tensor) -> None:
        """Add a batch of predictions."""
        kept = target != self.ignore_index
        self.true.append(p[kept].gather(-1, target[kept].unsqueeze(-1)).squeeze(-1).detach())
        self.size = torch.full_like(self.size, p.shape[-1])

    def find_epsilon(self) -> float:
        """Return the epsilon with which the perplexity of the data so far is the least."""
        return best_epsilon(dim_zero_cat(self.true), vocabulary=int(self.size))

    def compute(self) -> Tensor:
        """Return the perplexity; NaN without tokens."""
        true = dim_zero_cat(self.true) if len(self.true) else torch.zeros(0)
        if not len(true):
            return torch.tensor(math.nan, dtype=torch.float64)
        epsilon = self.find_epsilon() if self.epsilon is None else self.epsilon
        return epsilon_perplexity(true.double(), epsilon=epsilon, vocabulary=int(self.size))


class Repetition(Metric):
    """The mean of :func:`~omegamax.metrics.rep` or :func:`~omegamax.metrics.wrep` over windows of several lengths.

    ``update(predictions [*, T], targets [*, T] = None, lengths [*] = None)``.

    Args:
        window: lengths to look back; the mean is over these, as in the papers.
        wrong: count wrong predictions only.
        options: of every metric of torchmetrics, such as ``dist_sync_on_step``.

        >>> metric = Repetition(window=(1, 2, 4))
        >>> metric(torch.tensor([4, 7, 4, 4, 2, 7]))                # 1, 2 and 3 of 6
        tensor(0.3333, dtype=torch.float64)
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    repeated: Tensor
    total: Tensor

    def __init__(self, window: tuple[int, ...] = WINDOWS, wrong: bool = False, **options: Any):
        super().__init__(**options)
        self.window, self.wrong = tuple(window), wrong
        self.add_state("repeated", torch.zeros(len(self.window), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("total", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, predictions: Tensor, targets: Tensor | None = None, lengths: Tensor | None = None) -> None:
        """Add a batch of texts."""
        found, total = count_repeated("Repetition", predictions, targets, self.window, lengths, self.wrong)
        self.repeated, self.total = self.repeated + found, self.total + total

    def compute(self) -> Tensor:
        """Return the share, in [0, 1]; NaN without tokens."""
        return (self.repeated.double() / self.total).mean()


class Distinct(Metric):
    """The share of distinct n-grams among all of a set, see :func:`~omegamax.metrics.distinct`.

    ``update(tokens [*, T], lengths [*] = None)``. N-grams are kept until the end.

    Args:
        n: tokens in an n-gram.
        options: of every metric of torchmetrics, such as ``dist_sync_on_step``.

        >>> metric = Distinct(2)
        >>> metric(torch.tensor([[1, 2, 3, 2], [1, 2, 3, 4]]))
        tensor(0.6667, dtype=torch.float64)
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    grams: list[Tensor]

    def __init__(self, n: int = 1, **options: Any):
        super().__init__(**options)
        self.n = check_integer("Distinct", "n", n, least=1)
        self.add_state("grams", [], dist_reduce_fx="cat")

    def update(self, tokens: Tensor, lengths: Tensor | None = None) -> None:
        """Add a batch of texts."""
        self.grams.append(find_ngrams("Distinct", tokens, self.n, lengths)[0])

    def compute(self) -> Tensor:
        """Return the share, in [0, 1]; NaN without n-grams."""
        grams = dim_zero_cat(self.grams) if len(self.grams) else torch.zeros(0, self.n)
        share = len(grams.unique(dim=0)) / len(grams) if len(grams) else math.nan
        return torch.tensor(share, dtype=torch.float64)
