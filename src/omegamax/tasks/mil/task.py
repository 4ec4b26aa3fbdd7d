"""Training and evaluation of a network that classifies bags."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import MeanMetric
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC

from omegamax._arguments import check_interval, check_number
from omegamax.data import DataError
from omegamax.data.files import short
from omegamax.metrics import MassInside
from omegamax.models.bag_classifier import BagAnswer, BagClassifier, DigitEncoder, VectorEncoder
from omegamax.tasks.mil.data import BagsData
from omegamax.tasks.run_task import RunTask
from omegamax.tasks.weights_file import remedy

Batch = dict[str, Any]
MOST_PICKED = 1_000_000  # instances that the network of a file may pick, for which it makes room


class MILTask(RunTask):
    """A :class:`~omegamax.models.BagClassifier`, its loss, its optimiser, and what is measured of its answers.

    Logged are ``train_loss``; ``val_loss``, ``val_accuracy``, ``val_auc`` (the area under the ROC curve), ``val_zero``
    (the share of weights that are exactly zero) and, where it is known which instances make a bag positive, the share
    ``val_inside`` of the pooling's weight on them in positive bags; in a test, the same with ``test_``.

    Args:
        omega: name of the map of the pooling.
        options: parameters of the map, such as ``{"k": 2}``.
        features: of an instance that is a vector; None: instances are digits. On the command line, that of the data.
        dim: features that the encoder makes; None: 500 of a digit, 128 of a vector.
        beta: sharpness of the pooling; None: that of attention.
        heads: of the pooling.
        hidden_dim: features that the pooling compares instances in; None: ``dim``.
        dropout: of the pooling's weights, while training.
        normalize: layer normalisation of what the pooling takes in.
        rate: of the optimiser, AdamW.
        decay: what the rate is multiplied by after each epoch.
        weight_decay: of the optimiser.
        init_deviation: of the weights of the pooling's projections at the start; None: Xavier's.

    Example:
        >>> task = MILTask("k_subsets", {"k": 2}, features=5, dim=8)
        >>> task({"instances": torch.randn(3, 4, 5), "mask": torch.ones(3, 4, dtype=torch.bool)}).logits.shape
        torch.Size([3])
    """

    kind = "mil"
    data_type = BagsData
    model: BagClassifier

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
        normalize: bool = True,
        rate: float = 1e-3,
        decay: float = 0.98,
        weight_decay: float = 1e-4,
        init_deviation: float | None = None,
    ) -> None:
        super().__init__()
        check_number("MILTask", "rate", rate, above=0)
        check_number("MILTask", "weight_decay", weight_decay, least=0)
        check_interval("MILTask", "decay", decay, "(0, 1]")
        pooling: dict[str, Any] = {"beta": beta, "heads": heads, "hidden_dim": hidden_dim}
        pooling |= {"dropout": dropout, "normalize": normalize}
        about = {"omega": omega, "options": dict(options or {}), "features": features, "dim": dim}
        self.network: dict[str, Any] = {**about, **pooling}
        encoder = DigitEncoder(dim or 500) if features is None else VectorEncoder(features, dim or 128)
        self.model = BagClassifier(encoder, omega, options, init_deviation=init_deviation, **pooling)
        self.rate, self.decay, self.weight_decay = rate, decay, weight_decay
        self.scores = torch.nn.ModuleDict({prefix: _BagScores() for prefix in ("val_", "test_")})

    @property
    def label(self) -> str:
        omega, options = self.network["omega"], self.network["options"]
        return " ".join([omega, *(f"{key}={value:g}" for key, value in options.items())])

    @classmethod
    def check_network(cls, record: Any, path: Any) -> dict[str, Any]:
        network = super().check_network(record, path)
        options = network.get("options")
        k = options.get("k", 1) if isinstance(options, dict) else 1
        if not isinstance(k, (int, float)) or not k <= MOST_PICKED:
            raise DataError(f"{path}: k must be a number up to {MOST_PICKED:,}, got {short(k)}; {remedy(cls.kind)}")
        return network

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

    def predict_step(self, batch: Batch, index: int) -> list[dict[str, Any]]:
        """Return ``id``, ``answer``, ``probability`` (positive) and ``weights``, means over heads, of each bag."""
        logits, weights = self(batch)
        found = zip(batch["id"], logits.sigmoid().tolist(), weights.mean(1), batch["mask"], strict=True)
        return [
            {"id": name, "answer": int(p > 0.5), "probability": p, "weights": w[there].tolist()}
            for name, p, w, there in found
        ]

    def _score(self, prefix: str, batch: Batch) -> None:
        answer, scores, size = self(batch), self.scores[prefix], len(batch["label"])
        assert isinstance(scores, _BagScores)
        loss = F.binary_cross_entropy_with_logits(answer.logits, batch["label"])
        self.log(f"{prefix}loss", loss, batch_size=size, sync_dist=True)
        for name, metric in scores.update(answer, batch).items():
            self.log(prefix + name, metric, on_step=False, on_epoch=True, prog_bar=name == "auc", batch_size=size)

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.AdamW(self.parameters(), self.rate, weight_decay=self.weight_decay)
        return {"optimizer": optimiser, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(optimiser, self.decay)}


class _BagScores(torch.nn.Module):
    """Measures of a split, collected over batches and processes."""

    def __init__(self) -> None:
        super().__init__()
        self.accuracy, self.auc, self.zero = BinaryAccuracy(), BinaryAUROC(), MeanMetric()
        self.inside = MassInside(undefined="skip")

    def update(self, answer: BagAnswer, batch: Batch) -> dict[str, Any]:
        """Add a batch, and return the metrics by name."""
        label = batch["label"].long()
        self.accuracy.update(answer.logits, label)
        self.auc.update(answer.logits, label)
        there = batch["mask"].unsqueeze(1).expand_as(answer.weights)
        self.zero.update((answer.weights[there] == 0).float())
        found: dict[str, Any] = {"accuracy": self.accuracy, "auc": self.auc, "zero": self.zero}
        if "positive" in batch:
            bags = label == 1
            weights = answer.weights.mean(1)
            self.inside.update(weights[bags], batch["positive"][bags], mask=batch["mask"][bags])
            found["inside"] = self.inside
        return found
