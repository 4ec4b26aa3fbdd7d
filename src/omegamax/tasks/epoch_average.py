"""The mean of the weights that a network had at the ends of its last epochs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor

from omegamax._arguments import check_integer


class EpochEnds:
    r"""The weights at the ends of the last epochs, and their mean with those of now.

    .. math:: \bar w = \frac1n \Bigl( w + \sum_{i=1}^{n-1} w_{e-i} \Bigr)

    Here :math:`w_{e-i}` are the weights at the end of the i-th epoch before this one: at the end of an epoch it is the
    mean over the ends of the last n epochs. As long as there were fewer, n is as many as there were.

    Args:
        epochs: n, at least 1.

    >>> ends, weight = EpochEnds(2), torch.tensor([0.0])
    >>> for step in (1, 2, 3):
    ...     weight = weight + 1.0
    ...     ends.keep(step, [weight])
    >>> ends.mean(3, [weight]), ends.mean(4, [weight + 2.0])
    ([tensor([2.5000])], [tensor([4.])])

    Reference: Vaswani et al., "Attention is all you need" (NeurIPS 2017), Sec. 6.1, who average the last checkpoints.
    """

    def __init__(self, epochs: int) -> None:
        self.epochs = check_integer("EpochEnds", "epochs", epochs, least=1)
        self.kept: list[tuple[int, list[Tensor]]] = []

    def keep(self, step: int, weights: Iterable[Tensor]) -> None:
        """Keep the weights of the end of an epoch, after so many steps."""
        self.kept = [*self.kept, (step, [weight.detach().clone() for weight in weights])][-self.epochs :]

    @torch.no_grad()
    def mean(self, step: int, weights: Iterable[Tensor]) -> list[Tensor]:
        """Return the mean of the weights after so many steps and of those kept before."""
        before = [kept for at, kept in self.kept if at < step]  # at the end of an epoch it has been kept itself
        before = before[max(0, len(before) - self.epochs + 1) :]
        now = [weight.detach() for weight in weights]
        return [torch.stack([w.to(each[-1]) for w in each]).mean(0) for each in zip(*before, now, strict=True)]


class EpochAverage(WeightAveraging):
    """A mean of weights, that of :class:`EpochEnds`, which stands in for them in validation, test and files.

    What is kept is part of a checkpoint: a run that goes on after a stop has the same mean.

    Args:
        epochs: ends of epochs in the mean; as many copies of the weights are kept, also in each checkpoint.
    """

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self.ends = EpochEnds(epochs)
        self._made: int | None = None  # the step that the mean is of

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self._made = None

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """Leave the mean as it is: it is made when it is needed."""
        return False

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.is_last_batch:
            self.ends.keep(trainer.global_step, pl_module.parameters())

    def on_validation_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._set_mean(trainer, pl_module)
        super().on_validation_epoch_start(trainer, pl_module)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._set_mean(trainer, pl_module)
        super().on_train_end(trainer, pl_module)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        self._set_mean(trainer, pl_module)
        super().on_save_checkpoint(trainer, pl_module, checkpoint)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "ends": [[step, kept] for step, kept in self.ends.kept]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.ends.kept = [(step, kept) for step, kept in state_dict["ends"]]

    @torch.no_grad()
    def _set_mean(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Give Lightning's copy of the network the mean of the weights, and the buffers of now."""
        # Without a copy nothing is trained. At the end the mean takes the place of the weights, and stays what it is.
        if self._average_model is None or self._made == trainer.global_step:
            return
        self._made = trainer.global_step
        copy = self._average_model.module
        found = self.ends.mean(trainer.global_step, module.parameters())
        for place, value in zip((*copy.parameters(), *copy.buffers()), (*found, *module.buffers()), strict=True):
            place.copy_(value)
