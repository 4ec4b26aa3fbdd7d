"""A guard against training that went astray."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

_EVERY = 20  # steps between looks at a loss on an accelerator, each of which waits for all work before it


class NotFiniteError(RuntimeError):
    """Loss or weights became NaN or infinite; no further step can mend them."""


class FiniteCheck(Callback):
    """Ends a run whose loss or weights are no longer finite, before a checkpoint of them is written."""

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, index: int
    ) -> None:
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        last = trainer.global_step == trainer.max_steps
        if isinstance(loss, Tensor) and (loss.device.type == "cpu" or last or trainer.global_step % _EVERY == 0):
            value = float(loss.detach().sum())
            if not math.isfinite(value):
                raise NotFiniteError(f"the loss became {value} in step {trainer.global_step}")
        if last:
            self._check_weights(trainer, module)

    def on_validation_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._check_weights(trainer, module)

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._check_weights(trainer, module)

    @staticmethod
    def _check_weights(trainer: L.Trainer, module: L.LightningModule) -> None:
        for name, weight in module.named_parameters():
            if weight.requires_grad and not bool(torch.isfinite(weight.detach()).all()):
                raise NotFiniteError(f"the weights {name} became NaN or infinite by step {trainer.global_step}")
