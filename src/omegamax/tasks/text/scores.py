"""What is measured of the classes that a network tells, and of the attention they were read from."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassAccuracy

from omegamax.metrics import MassInside, TokenF1
from omegamax.models.text import EntailmentAnswer, TextAnswer, WordAttention

_MEASURES = ("loss", "accuracy", "zero", "inside", "token_f1")


class TextScores(torch.nn.Module):
    """Measures of a split, collected over batches and processes.

    ``update(answer, loss, batch)`` and ``compute()``, a dict: ``loss``, ``accuracy``, ``zero`` (the share of words with
    exactly no attention) and, where words are marked, ``inside`` (the share of the attention on those that at least
    half of the people marked) and ``token_f1`` (the F1 score of chosen words against these).

    Args:
        classes: how many there are.
        support: take every word with any attention as chosen; else there is an F1 score of rationales alone.
    """

    def __init__(self, classes: int, support: bool = False) -> None:
        super().__init__()
        self.support = support
        self.loss, self.zero = MeanMetric(), MeanMetric()
        self.accuracy = MulticlassAccuracy(classes, average="micro")
        self.inside, self.token_f1 = MassInside(undefined="skip"), TokenF1()

    def update(self, answer: TextAnswer | EntailmentAnswer, loss: Tensor, batch: Mapping[str, Any]) -> None:
        """Add a batch."""
        attention = answer.attention
        self.loss.update(loss, len(batch["label"]))
        self.accuracy.update(answer.logits, batch["label"])
        self.zero.update(attention.empty()[attention.mask].float())
        if "marks" in batch and isinstance(attention, WordAttention):
            known = (batch["marks"] >= 0.5).any(-1)  # elsewhere there is nothing to compare with
            marked, mask = batch["marks"][known] >= 0.5, attention.mask[known]
            self.inside.update(attention.weights[known], marked, mask=mask)
            if self.support:
                self.token_f1.update(~attention.empty()[known], marked, mask)
            elif isinstance(answer, TextAnswer) and answer.rationale is not None:
                self.token_f1.update(answer.rationale[known] != 0, marked, mask)

    def compute(self) -> dict[str, float]:
        """Return the means over all texts so far; what had none is left out."""
        with warnings.catch_warnings():
            # A set without marks never updates one of them; every process must ask all the same.
            warnings.filterwarnings("ignore", ".*`compute`.* was called before the ``update``.*", UserWarning)
            values = {name: float(getattr(self, name).compute()) for name in _MEASURES}
        return {name: value for name, value in values.items() if not math.isnan(value)}

    def reset(self) -> None:
        """Forget all texts."""
        for name in _MEASURES:
            getattr(self, name).reset()
