"""``omegamax vqa pretrain``: a small network that names what is in each cell of a picture, to start from."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Mapping
from pathlib import Path

from omegamax.cli._arguments import at_least
from omegamax.cli._errors import CommandError

SUMMARY = "train a small CNN to name what is in each cell of the embedded pictures; fit starts from it (--model.cnn)"
_BATCH = 64
# All is in memory, and what is unseen is asked for at the end.
_ADVICE = (".*does not have many workers.*", ".*but have no `val_dataloader`.*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``omegamax vqa pretrain`` takes."""
    add = parser.add_argument
    add("--out", type=Path, default=Path("cnn.safetensors"), metavar="FILE", help="(cnn.safetensors)")
    add("--dim", type=at_least(1), default=64, metavar="D", help="features of a cell (64)")
    add("--grid", type=at_least(1), nargs=2, default=(14, 14), metavar=("ROWS", "COLUMNS"), help="cells (14 14)")
    add("--image-size", type=at_least(1), default=112, metavar="N", help="side of the pictures in pixels (112)")
    add("--samples", type=at_least(_BATCH), default=8000, metavar="N", help="pictures to learn from (8000)")
    add("--steps", type=at_least(1), default=1500, metavar="N", help="of 64 pictures (1500)")
    add("--seed", type=at_least(0), default=0, help="(0)")
    add("--workers", type=at_least(0), default=0, metavar="N", help="processes that draw pictures (0)")
    add("--accelerator", default="auto", help="of Lightning: cpu, gpu, ... (auto)")


def run(options: argparse.Namespace) -> int:
    """Train, write the file, and say how well cells are named."""
    from lightning.pytorch.utilities.exceptions import MisconfigurationException

    from omegamax.cli._quiet import quiet

    if options.out.suffix != ".safetensors":
        raise CommandError(f"--out must end in .safetensors, got {options.out}")
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with quiet():
            for message in _ADVICE:
                warnings.filterwarnings("ignore", message)
            found = _train(options)
    except (ValueError, OSError, MisconfigurationException) as error:
        raise CommandError(str(error)) from error
    print(f"cells named rightly: shape {found['val_shape']:.3f}, colour {found['val_colour']:.3f}")
    print(f"{options.out}: --model.cnn {options.out}, with --model.freeze_cnn true to leave it as it is")
    return 0


def _train(options: argparse.Namespace) -> Mapping[str, float]:
    import lightning as L

    from omegamax.data.scenes import COLOURS, SHAPES, Scenes
    from omegamax.models.grid_cnn_file import save_grid_cnn
    from omegamax.tasks.vqa.cells import CellsTask, cells_loader

    L.seed_everything(options.seed, verbose=False)
    train, val = (
        Scenes(count, options.seed, split, image_size=options.image_size)
        for count, split in ((options.samples, "train"), (500, "val"))
    )
    grid = (options.grid[0], options.grid[1])
    task = CellsTask(options.dim, grid, len(SHAPES), len(COLOURS))
    trainer = L.Trainer(
        accelerator=options.accelerator,
        devices=1,
        max_steps=options.steps,
        max_epochs=math.ceil(options.steps / (options.samples // _BATCH)),  # for the bar to say how many
        gradient_clip_val=1.0,
        limit_val_batches=0,
        enable_checkpointing=False,
        enable_model_summary=False,
        logger=False,
    )
    loader = cells_loader(train, grid, _BATCH, options.workers)
    unseen = cells_loader(val, grid, _BATCH, options.workers, shuffle=False)
    trainer.fit(task, loader)
    trainer.limit_val_batches = 1.0
    (found,) = trainer.validate(task, unseen, verbose=False)
    save_grid_cnn(task.cnn, options.out, size=(options.image_size, options.image_size))
    return found
