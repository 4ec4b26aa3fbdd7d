"""Training and evaluation of a network that classifies bags."""

from __future__ import annotations

from typing import Any

import lightning as L
import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC

from omegamax.metrics import MassInside
from omegamax.models.bag_classifier import BagAnswer, BagClassifier, DigitEncoder, VectorEncoder

Batch = dict[str, Tensor]


class MILTask(L.LightningModule):
    """A :class:`~omegamax.models.BagClassifier`, its loss, its optimiser, and what is measured of its answers.

    Logged are ``train_loss``; ``val_loss``, ``val_accuracy``, ``val_auc`` (the area under the ROC curve) and, where it
    is known which instances make a bag positive, the share ``val_inside`` of the pooling's weight on them in positive
    bags; in a test, the same with ``test_``.

    Args:
        omega: name of the map of the pooling, with ``options``.
        features: of an instance that is a vector; None: instances are digits.
        dim: features that the encoder makes; None: 500 of a digit, 128 of a vector.
        beta, heads, hidden_dim, dropout: of the pooling, see :class:`~omegamax.models.BagClassifier`.
        rate: of the optimiser, AdamW with ``weight_decay``; multiplied by ``decay`` after each epoch.

        >>> task = MILTask("k_subsets", {"k": 2}, features=5, dim=8)
        >>> task({"instances": torch.randn(3, 4, 5), "mask": torch.ones(3, 4, dtype=torch.bool)}).logits.shape
        torch.Size([3])
    """

    def __init__(
        self,
        omega: str = "softmax",
        options: dict[str, Any] | None = None,
        features: int | None = None,
        dim: int | None = None,
        beta: float | None = None,
        heads: int = 1,
        hidden_dim: int | None = None,
        dropout: float = 0.0,
        rate: float = 1e-3,
        decay: float = 0.98,
        weight_decay: float = 1e-4,
    ) -> None:
        super().__init__()
        encoder = DigitEncoder(dim or 500) if features is None else VectorEncoder(features, dim or 128)
        self.model = BagClassifier(
            encoder, omega, options, beta=beta, heads=heads, hidden_dim=hidden_dim, dropout=dropout
        )
        self.rate, self.decay, self.weight_decay = rate, decay, weight_decay
        self.scores = torch.nn.ModuleDict({prefix: _Scores() for prefix in ("val_", "test_")})

    def forward(self, batch: Batch) -> BagAnswer:
        return self.model(batch["instances"], batch["mask"])

    def training_step(self, batch: Batch, index: int) -> Tensor:
        loss = F.binary_cross_entropy_with_logits(self(batch).logits, batch["label"])
        self.log("train_loss", loss, prog_bar=True, batch_size=len(batch["label"]), sync_dist=True)
        return loss

    def validation_step(self, batch: Batch, index: int) -> None:
        self._score("val_", batch)

    def test_step(self, batch: Batch, index: int) -> None:
        self._score("test_", batch)

    def _score(self, prefix: str, batch: Batch) -> None:
        answer, scores, size = self(batch), self.scores[prefix], len(batch["label"])
        assert isinstance(scores, _Scores)
        loss = F.binary_cross_entropy_with_logits(answer.logits, batch["label"])
        self.log(f"{prefix}loss", loss, batch_size=size, sync_dist=True)
        for name, metric in scores.update(answer, batch).items():
            self.log(prefix + name, metric, on_step=False, on_epoch=True, prog_bar=name == "auc", batch_size=size)

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.AdamW(self.parameters(), self.rate, weight_decay=self.weight_decay)
        return {"optimizer": optimiser, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(optimiser, self.decay)}


class _Scores(torch.nn.Module):
    """Measures of a split, collected over batches and processes."""

    def __init__(self) -> None:
        super().__init__()
        self.accuracy, self.auc = BinaryAccuracy(), BinaryAUROC()
        self.inside = MassInside(undefined="skip")

    def update(self, answer: BagAnswer, batch: Batch) -> dict[str, Any]:
        """Add a batch; the metrics by name."""
        label = batch["label"].long()
        self.accuracy.update(answer.logits, label)
        self.auc.update(answer.logits, label)
        found: dict[str, Any] = {"accuracy": self.accuracy, "auc": self.auc}
        if "positive" in batch:
            bags = label == 1
            weights = answer.weights.mean(1)
            self.inside.update(weights[bags], batch["positive"][bags], mask=batch["mask"][bags])
            found["inside"] = self.inside
        return found
