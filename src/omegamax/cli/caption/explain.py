"""``omegamax caption explain``: the caption of a picture, and a strip of where each word was read from."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from omegamax.cli._checks import CommandError, at_least
from omegamax.cli.explanation import Explanation, add_checkpoint, explain_runs

if TYPE_CHECKING:
    from torch import Tensor

    from omegamax.tasks.captioning import CaptionTask

SUMMARY = "let trained networks write captions of a picture: the words, and where each was read from"
TASK = "omegamax.tasks.captioning:CaptionTask"
_SHARP = 600  # pixels along a side that a panel can show
ZEROS = {"white": "white", "transparent": None, "hatch": "hatch"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax caption explain``."""
    add = parser.add_argument
    add("image", type=Path, metavar="IMAGE", help="a picture; or features, .npz or .pth, for networks that want them")
    add_checkpoint(parser)
    add("--picture", type=Path, metavar="FILE", help="what to draw on where IMAGE is features (grey)")
    add("--features", type=Path, metavar="FOLDER", help="how to make features of IMAGE (the folder of the training)")
    add("--out", type=Path, default=Path("strip.png"), metavar="PNG", help="the picture (strip.png)")
    add("--zeros", choices=[*ZEROS], default="white", help="how cells without any attention look (white)")
    add("--beam", type=at_least(1), metavar="N", help="captions that go on at each word (that of the training, or 5)")


def run(options: argparse.Namespace) -> int:
    """Let the networks write, print the captions, and write the picture."""
    return explain_runs(TASK, options.runs, options.out, lambda tasks: _ask(tasks, options))


def _ask(tasks: dict[str, CaptionTask], options: argparse.Namespace) -> Explanation:
    import torch

    from omegamax.data.pictures import read_picture, shrink
    from omegamax.data.vqa2 import read_grid
    from omegamax.tasks.captioning.explain import draw, explain

    features = read_grid(options.image) if options.image.suffix in (".npz", ".pth") else None
    image = None if features is not None else read_picture(options.image)
    if features is None and options.picture is not None:
        raise CommandError("--picture goes with features; IMAGE is a picture itself")
    said = {}
    made: dict[str, Tensor] = {}
    for name, task in tasks.items():
        task.beam = options.beam or task.beam
        own = features if image is None else _extract(name, task, image, options.features, made)
        said[name] = explain(task, image, own)
    rows = []
    for name, each in said.items():
        proven = " (proven)" if each.exact else ""
        rows.append([name, " ".join(each.tokens) or "-", f"{each.log_probability:.2f}{proven}"])
    shown = image
    if features is not None:
        h, w = features.shape[:2]
        grey = torch.full((3, 16 * h, 16 * w), 0.9)
        shown = grey if options.picture is None else read_picture(options.picture)
    assert shown is not None
    figure = draw(shrink(shown, _SHARP), said, ZEROS[options.zeros])
    return Explanation(["attention", "caption", "log-probability"], rows, figure, "Where they looked for each word")


def _extract(
    name: str, task: CaptionTask, image: Tensor, folder: Path | None, made: dict[str, Tensor]
) -> Tensor | None:
    """Return the features of a picture as those of the training were made; None for a network that needs none.

    ``made`` has those of the networks before, by folder.
    """
    if task.config.pixels:
        return None
    from omegamax.tasks.features import FolderFeatures

    known = folder or task.data_settings.get("features")
    if known is None:
        raise CommandError(f"{name} takes features, and does not say how they were made; give --features FOLDER")
    if str(known) not in made:
        made[str(known)] = FolderFeatures(known)(image)
    return made[str(known)]
