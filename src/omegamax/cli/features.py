"""``omegamax features``: grid features of pictures, with any backbone."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from omegamax.cli._checks import TRAIN, CommandError, check_folder, require
from omegamax.cli._stop import advise_on_stop

SUMMARY = "extract grid features of pictures with a torchvision, transformers or other backbone"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax features``."""
    add = parser.add_argument
    add("sources", nargs="+", metavar="FOLDER|ZIP|FILE", help="pictures: folders, zip archives, files")
    add(
        "--backbone",
        required=True,
        metavar="SPEC",
        help="torchvision:NAME[@WEIGHTS], transformers:FOLDER_OR_ID, efficientnet_lite:0[@SIZE], "
        "gridcnn:FILE.safetensors, python:MODULE:FACTORY or python:MODULE:FACTORY('x', y=1)",
    )
    add("--out", required=True, type=Path, metavar="FOLDER", help="where the features go, a file for each picture")
    add("--weights", type=Path, metavar="FILE", help="weights of the backbone, .safetensors or a torch state dict")
    add("--layer", metavar="NAME", help="take this layer's output (the last feature map)")
    add("--size", type=_size, metavar="N|HxW", help="pixels that pictures are brought to (the backbone's own, or 448)")
    help = "more sizes at which the whole picture is seen; maps are averaged"
    add("--scales", nargs="+", type=_size, default=[], metavar="N|HxW", help=help)
    help = "see N x N pieces of a picture, each in full size, for N times as many rows and columns (1)"
    add("--crops", type=_positive, default=1, metavar="N", help=help)
    add("--mirror", action="store_true", help="see mirror images, too, and average")
    add("--normalise", choices=["imagenet", "half", "none"], help="of colours (as the backbone wants, or imagenet)")
    add("--grid", nargs=2, type=_positive, metavar=("ROWS", "COLUMNS"), help="average to this many cells (as they are)")
    add("--channels", type=_positive, metavar="D", help="keep the first D principal components (all channels)")
    add("--format", choices=["npz", "pth"], default="npz", help="(L, D) for square grids, or (1, D, H, W) (npz)")
    add("--dtype", choices=["float32", "float16"], default="float32", help="of the numbers in the files (float32)")
    add("--batch-size", type=_positive, default=16, metavar="N", help="pictures at once (16)")
    add("--device", default="auto", help="cpu, cuda, cuda:1, ... (a GPU if there is one)")
    add("--workers", type=int, metavar="N", help="processes that read pictures (4 with a GPU, else none)")
    add("--overwrite", action="store_true", help="write files that are there again")
    add("--skip-broken", action="store_true", help="pass over files that are no pictures, with a warning")
    add("--download", action="store_true", help="fetch weights that are not on this machine")


def run(options: argparse.Namespace) -> int:
    """Extract, and say what came out and where it is."""
    require(TRAIN)
    import torch

    from omegamax.data import DataError
    from omegamax.tasks.features import extract, find_pictures
    from omegamax.tasks.features.backbones import BackboneError, load_backbone

    start = time.perf_counter()
    check_folder(options.out)
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise CommandError(f"--device {device} cannot be used: {str(error).splitlines()[0]}") from None
    workers = options.workers if options.workers is not None else 4 if device.startswith("cuda") else 0
    try:
        pictures = find_pictures(options.sources)
        backbone = load_backbone(
            options.backbone,
            weights=options.weights,
            layer=options.layer,
            normalise=options.normalise,
            download=options.download,
        )
        with advise_on_stop(lambda: "the same command goes on from here"), _progress() as report:
            done = extract(
                backbone,
                pictures,
                options.out,
                size=options.size,
                scales=options.scales,
                crops=options.crops,
                mirror=options.mirror,
                grid=tuple(options.grid) if options.grid else None,
                channels=options.channels,
                format=options.format,
                dtype=options.dtype,
                batch_size=options.batch_size,
                device=device,
                workers=workers,
                overwrite=options.overwrite,
                skip_broken=options.skip_broken,
                report=report,
            )
    except BackboneError as error:
        raise CommandError(_with_options(error)) from error
    except (DataError, OSError) as error:
        print(f"omegamax features: {_with_options(error)}", file=sys.stderr)
        return 1
    except ValueError as error:
        raise CommandError(_with_options(error)) from error
    h, w = done.settings["grid"]
    layer = f"layer {done.settings['layer']}" if done.settings["layer"] else "last map"
    print(f"{done.written} written, {done.kept} already there, {len(done.broken)} passed over, of {len(pictures)}")
    print(f"{h} x {w} cells of {done.settings['dim']} numbers ({layer} of {backbone.name})")
    if done.share is not None:
        print(f"principal components of {done.settings['principal_of']}, with {done.share:.0%} of the variance")
    print(f"{time.perf_counter() - start:.1f} s. The features are in {options.out}.")
    return 0


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on the standard error, where it is a terminal that can show one; else nothing."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield lambda what, done, total: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        tasks = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done)

        yield report


def _with_options(error: Exception) -> str:
    """Return the message of an error, with the options of the command beside what it advises."""
    text = str(error)
    for advice, option in (
        ("pass over such pictures (skip_broken)", "pass over such pictures with --skip-broken"),
        ("take dtype float32", "take --dtype float32"),
        ("allow a download", "allow it with --download"),
        ("give a weights file", "give a file with --weights"),
        ("needs the format pth", "needs --format pth"),
        ("give another folder", "give another --out"),
        ("give the size", "give with --size the one"),
    ):
        text = text.replace(advice, option)
    return text


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def _size(text: str) -> tuple[int, int]:
    """Parse ``"448"`` or ``"320x448"``, height first.

    >>> _size("320x448")
    (320, 448)
    """
    sides = text.lower().split("x")
    if len(sides) > 2 or not all(side.isdecimal() and int(side) > 0 for side in sides):
        raise argparse.ArgumentTypeError(f"must be a number of pixels, or HxW, got {text!r}")
    return int(sides[0]), int(sides[-1])
