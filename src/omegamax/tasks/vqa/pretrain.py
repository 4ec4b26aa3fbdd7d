"""Training of a GridCNN on what is in each cell of generated scenes, to a file that runs start from."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from typing import NamedTuple

import lightning as L

from omegamax.data.scenes import Scenes
from omegamax.models.grid_cnn_file import save_grid_cnn
from omegamax.tasks.finite import FiniteCheck
from omegamax.tasks.threads import Threads
from omegamax.tasks.vqa.cells import CellsTask, cells_loader
from omegamax.tasks.whole import whole_file

BATCH = 64
# All is in memory, and what is unseen is asked for at the end.
_ADVICE = (".*does not have many workers.*", ".*but have no `val_dataloader`.*")


class SceneSplits(NamedTuple):
    """Scenes to learn from, and scenes to measure on."""

    train: Scenes
    val: Scenes


def pretrain_cnn(
    pictures: SceneSplits,
    path: str | os.PathLike[str],
    *,
    dim: int,
    grid: tuple[int, int],
    steps: int,
    seed: int = 0,
    workers: int = 0,
    accelerator: str = "auto",
) -> Mapping[str, float]:
    """Train a network to name shape and colour of what is in each cell, and write it to ``path``.

    Args:
        pictures: at least 64 to learn from.
        path: ends in ``.safetensors``; it takes its name once it is whole.
        dim, grid: features of a cell, and cells.
        steps: of 64 pictures.
        seed: of weights and order.
        workers: processes that draw pictures.
        accelerator: as Lightning's trainer takes it.

    Returns the shares of cells named rightly in pictures not seen, ``"val_shape"`` and ``"val_colour"``.
    """
    L.seed_everything(seed, verbose=False)
    scenes, side = pictures.train, pictures.train.image_size
    task = CellsTask(dim, grid, len(scenes.shapes), len(scenes.colours))
    trainer = L.Trainer(
        accelerator=accelerator,
        devices=1,
        max_steps=steps,
        max_epochs=math.ceil(steps / (len(scenes) // BATCH)),  # for the bar to say how many
        callbacks=[Threads(), FiniteCheck()],
        gradient_clip_val=1.0,
        limit_val_batches=0,
        enable_checkpointing=False,
        enable_model_summary=False,
        logger=False,
    )
    loader = cells_loader(scenes, grid, BATCH, workers)
    unseen = cells_loader(pictures.val, grid, BATCH, workers, shuffle=False)
    with warnings.catch_warnings():
        for message in _ADVICE:
            warnings.filterwarnings("ignore", message)
        trainer.fit(task, loader)
        trainer.limit_val_batches = 1.0
        (found,) = trainer.validate(task, unseen, verbose=False)
    with whole_file(path) as place:
        save_grid_cnn(task.cnn, place, size=(side, side))
    return found
