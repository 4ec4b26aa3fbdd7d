"""``omegamax vqa pretrain``: a small network that names what is in each cell of a picture, to start from."""

from __future__ import annotations

import argparse
from pathlib import Path

from omegamax.cli._checks import TRAIN, CommandError, at_least, check_file, require
from omegamax.cli._stop import advise_on_stop

SUMMARY = "train a small CNN to name what is in each cell of the embedded pictures; fit starts from it (--model.cnn)"
_LEAST = 64  # a batch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax vqa pretrain``."""
    add = parser.add_argument
    add("--out", type=Path, default=Path("cnn.safetensors"), metavar="FILE", help="(cnn.safetensors)")
    add("--dim", type=at_least(1), default=64, metavar="D", help="features of a cell (64)")
    add("--grid", type=at_least(1), nargs=2, default=(14, 14), metavar=("ROWS", "COLUMNS"), help="cells (14 14)")
    add("--image-size", type=at_least(1), default=112, metavar="N", help="side of the pictures in pixels (112)")
    add("--samples", type=at_least(_LEAST), default=8000, metavar="N", help="pictures to learn from (8000)")
    add("--steps", type=at_least(1), default=1500, metavar="N", help="of 64 pictures (1500)")
    add("--seed", type=at_least(0), default=0, help="(0)")
    add("--workers", type=at_least(0), default=0, metavar="N", help="processes that draw pictures (0)")
    add("--accelerator", default="auto", help="of Lightning: cpu, gpu, ... (auto)")


def run(options: argparse.Namespace) -> int:
    """Train, write the file, and say how well cells are named."""
    require(TRAIN)
    from lightning.pytorch.utilities.exceptions import MisconfigurationException

    from omegamax.data.scenes import Scenes
    from omegamax.tasks.finite import NotFiniteError
    from omegamax.tasks.quiet import quiet
    from omegamax.tasks.vqa.pretrain import SceneSplits, pretrain_cnn

    if options.out.suffix != ".safetensors":
        raise CommandError(f"--out must end in .safetensors, got {options.out}")
    check_file(options.out)
    try:
        parts = (options.samples, "train"), (500, "val")
        scenes = [Scenes(count, options.seed, split, image_size=options.image_size) for count, split in parts]
        with quiet(), advise_on_stop(lambda: "nothing was written; the same command starts anew"):
            found = pretrain_cnn(
                SceneSplits(*scenes),
                options.out,
                dim=options.dim,
                grid=(options.grid[0], options.grid[1]),
                steps=options.steps,
                seed=options.seed,
                workers=options.workers,
                accelerator=options.accelerator,
            )
    except (ValueError, MisconfigurationException) as error:
        raise CommandError(str(error)) from error
    except NotFiniteError as error:
        raise CommandError(f"{error}; nothing was written", status=1) from error
    print(f"cells named rightly: shape {found['val_shape']:.3f}, colour {found['val_colour']:.3f}")
    print(f"{options.out}: --model.cnn {options.out}, with --model.freeze_cnn true to leave it as it is")
    return 0
