"""Measures of words that explain an answer as metrics of torchmetrics: over texts, batches and processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from omegamax._arguments import check_number
from omegamax.metrics._communication import communication_success, simulatability
from omegamax.metrics._erasure import comprehensiveness, sufficiency
from omegamax.metrics._rationales import auprc, harmonic_mean, has_marks, match_spans, roc_auc, token_f1
from omegamax.metrics._torchmetrics import _Mean


class _TextMean(_Mean):
    """The mean of a measure over texts; a NaN in what is given makes it NaN."""

    is_differentiable = False
    higher_is_better = True

    def __init__(self, **options: Any):
        super().__init__("nan", options)


class _MarkedMean(_TextMean):
    """The same for texts with marked words; those without any are left out, and counted in ``skipped``."""

    def _add_texts(self, values: Tensor, marked: Tensor, mask: Tensor | None, both: bool = False) -> None:
        self._add(values, ~has_marks(marked, mask, both))


class TokenF1(_MarkedMean):
    """The mean F1 score of chosen words, see :func:`~omegamax.metrics.token_f1`: ``update(chosen, marked, mask=None)``.

    >>> metric = TokenF1()
    >>> metric(torch.tensor([[1, 1, 0, 0], [0, 0, 0, 1]]), torch.tensor([[1, 0, 1, 0], [0, 0, 0, 1]]))
    tensor(0.7500, dtype=torch.float64)
    """

    def update(self, chosen: Tensor, marked: Tensor, mask: Tensor | None = None) -> None:
        """Add a batch of texts."""
        self._add_texts(token_f1(chosen, marked, mask, reduction="none"), marked, mask)


class AUPRC(_MarkedMean):
    """The mean area under precision over recall, see :func:`~omegamax.metrics.auprc`.

    ``update(scores, marked, mask=None)``.

        >>> AUPRC()(torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([[1, 0, 1]]))
        tensor(0.7917, dtype=torch.float64)
    """

    def update(self, scores: Tensor, marked: Tensor, mask: Tensor | None = None) -> None:
        """Add a batch of texts."""
        self._add_texts(auprc(scores, marked, mask, reduction="none"), marked, mask)


class RocAUC(_MarkedMean):
    """How often a marked word scores more than another, see :func:`~omegamax.metrics.roc_auc`.

    ``update(scores, marked, mask=None)``.

        >>> RocAUC()(torch.tensor([[0.7, 0.2, 0.2]]), torch.tensor([[1, 0, 1]]))
        tensor(0.7500, dtype=torch.float64)
    """

    def update(self, scores: Tensor, marked: Tensor, mask: Tensor | None = None) -> None:
        """Add a batch of texts."""
        self._add_texts(roc_auc(scores, marked, mask, reduction="none"), marked, mask, both=True)


class Comprehensiveness(_TextMean):
    """The mean fall without the words, see :func:`~omegamax.metrics.comprehensiveness`: ``update(full, without)``.

    >>> Comprehensiveness()(torch.tensor([[0.75, 0.25]]), torch.tensor([[0.5, 0.5]]))
    tensor(0.2500, dtype=torch.float64)
    """

    def update(self, full: Tensor, without: Tensor) -> None:
        """Add a batch of texts."""
        self._add(comprehensiveness(full, without, reduction="none").flatten())


class Sufficiency(_TextMean):
    """The mean fall with the words alone, see :func:`~omegamax.metrics.sufficiency`: ``update(full, only)``.

    >>> Sufficiency()(torch.tensor([[0.75, 0.25]]), torch.tensor([[0.5, 0.5]]))
    tensor(0.2500, dtype=torch.float64)
    """

    higher_is_better = False

    def update(self, full: Tensor, only: Tensor) -> None:
        """Add a batch of texts."""
        self._add(sufficiency(full, only, reduction="none").flatten())


class CommunicationSuccess(_TextMean):
    """How often a layperson guesses the decision, see :func:`~omegamax.metrics.communication_success`.

    ``update(guessed, decided)``.

        >>> CommunicationSuccess()(torch.tensor([0, 1, 1, 2]), torch.tensor([0, 1, 2, 2]))
        tensor(0.7500, dtype=torch.float64)
    """

    def update(self, guessed: Tensor, decided: Tensor) -> None:
        """Add a batch of texts."""
        self._add(communication_success(guessed, decided, reduction="none").flatten())


class Simulatability(_TextMean):
    """How much better taught students guess the decision, see :func:`~omegamax.metrics.simulatability`.

    ``update(guessed, decided, alone=None)``.

        >>> Simulatability()(torch.tensor([0, 1, 1, 2]), torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 1, 1]))
        tensor(0.2500, dtype=torch.float64)
    """

    def update(self, guessed: Tensor, decided: Tensor, alone: Tensor | None = None) -> None:
        """Add a batch of texts."""
        self._add(simulatability(guessed, decided, alone, reduction="none").flatten())


class IOUF1(Metric):
    """The F1 score of chosen spans, see :func:`~omegamax.metrics.iou_f1`: ``update(chosen, marked, mask=None)``.

    Args:
        threshold: how well a span must agree with a marked one, in (0, 1].
        options: of every metric of torchmetrics, such as ``dist_sync_on_step``.

        >>> IOUF1()(torch.tensor([[1, 1, 0, 1, 0]]), torch.tensor([[1, 1, 1, 0, 0]]))
        tensor(0.6667, dtype=torch.float64)
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, threshold: float = 0.5, **options: Any):
        super().__init__(**options)
        self.threshold = check_number("IOUF1", "threshold", threshold, above=0, most=1)
        self.add_state("total", torch.zeros(2, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros(2, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, chosen: Tensor, marked: Tensor, mask: Tensor | None = None) -> None:
        """Add a batch of texts."""
        found = torch.stack(match_spans(chosen, marked, mask, self.threshold))
        self.total = self.total + found.nansum(-1)
        self.count = self.count + (~found.isnan()).sum(-1)

    def compute(self) -> Tensor:
        """Return the F1 score of mean precision and mean recall; NaN without spans."""
        precision, recall = self.total / self.count
        return harmonic_mean(precision, recall)
