"""Training for so many steps, without a word but of how far it is: what demonstrations are made of."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback

from omegamax.tasks.callbacks import Curve
from omegamax.tasks.finite import FiniteCheck
from omegamax.tasks.run_task import RunTask
from omegamax.tasks.weights_file import write_weights

Tell = Callable[[str, int], None]  # of a part of the work, and how many of its steps are done


class Steps(Callback):
    """Tells how far the training of a part of the work is, every ten steps and at its end."""

    def __init__(self, part: str, tell: Tell) -> None:
        self.part, self.tell = part, tell

    def on_train_batch_end(self, trainer: L.Trainer, *unused: Any) -> None:
        if trainer.global_step % 10 == 0:
            self.tell(self.part, trainer.global_step)

    def on_train_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self.tell(self.part, trainer.global_step)


def train_run(
    task: RunTask, data: L.LightningDataModule, steps: int, out: Path, tell: Tell, every: int | None = None
) -> None:
    """Train a network for so many steps, which goes to ``out/model.safetensors``, its learning curve beside it.

    Args:
        tell: how far it is, under the name of the folder.
        every: as in :func:`make_trainer`.
    """
    trainer = make_trainer(steps, [FiniteCheck(), Steps(out.name, tell), Curve()], out, every)
    trainer.fit(task, datamodule=data)
    write_weights(out / "model.safetensors", task.kind, task.describe(), task.model.state_dict())


def make_trainer(steps: int, callbacks: list[Callback], out: Path | None = None, every: int | None = None) -> L.Trainer:
    """Make a trainer on the CPU without a bar and files of its own, for so many steps.

    Args:
        steps: of training.
        callbacks: all that it has.
        out: folder of what callbacks write.
        every: steps from one validation to the next; None: there is none.
    """
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for message in (".*does not have many workers.*", ".*but have no `val_dataloader`.*", ".*LeafSpec.*deprecated.*"):
        warnings.filterwarnings("ignore", message=message)
    return L.Trainer(
        accelerator="cpu",
        max_steps=steps,
        max_epochs=-1,
        callbacks=callbacks,
        gradient_clip_val=1.0,
        default_root_dir=out,
        val_check_interval=every,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        limit_val_batches=None if every else 0,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        logger=False,
    )
