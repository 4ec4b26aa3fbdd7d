"""``omegamax vqa explain``: answers to one question, and a picture of where they were read from."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omegamax.cli import _table
from omegamax.cli._arguments import at_least
from omegamax.cli._errors import CommandError
from omegamax.cli._extras import TRAIN, require
from omegamax.cli._font import letters_of
from omegamax.cli._output import check_picture

if TYPE_CHECKING:
    from omegamax.data import Sample
    from omegamax.tasks.vqa.explain import Explanation

SUMMARY = "ask trained networks about a picture: their answers, and where each looked"
_SHARP = 1000  # pixels along a side that a panel can show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``omegamax vqa explain`` takes."""
    add = parser.add_argument
    add("image", type=Path, metavar="IMAGE", help="a picture; or features, .npz or .pth, for networks that want them")
    add("question", metavar="QUESTION", help='in quotes, "what colour is the star?"')
    add(
        "--checkpoint",
        nargs="+",
        required=True,
        type=Path,
        metavar="RUN",
        help="networks: folders of runs, .ckpt or .safetensors files",
    )
    add("--picture", type=Path, metavar="FILE", help="what to draw on where IMAGE is features (grey)")
    add("--out", type=Path, default=Path("where.png"), metavar="PNG", help="the picture (where.png)")
    add("--top", type=at_least(1), default=3, metavar="N", help="answers to tell of each (3)")


def run(options: argparse.Namespace) -> int:
    """Ask, print the answers, and write the picture."""
    require(TRAIN)
    from omegamax.data import DataError
    from omegamax.viz.figure import pyplot

    pyplot().switch_backend("agg")
    try:
        return _explain(options)
    except (DataError, OSError, ValueError) as error:
        raise CommandError(str(error)) from error


def _explain(options: argparse.Namespace) -> int:
    from omegamax.cli.vqa._runs import named_runs
    from omegamax.data import tokenise
    from omegamax.tasks.vqa.explain import explain, unknown_words

    if not tokenise(options.question):
        raise CommandError(f'the question {options.question!r} has no words; ask one, "what colour is the star?"')
    options.out = options.out if options.out.suffix else options.out.with_suffix(".png")
    check_picture(options.out)
    sample = _sample(options.image, options.question)
    runs = named_runs(options.checkpoint)
    for name, found in runs.items():
        strange = unknown_words(found.task, options.question)
        if strange:
            print(f"{name}: words it was not trained with: {', '.join(strange)}", file=sys.stderr)
    said = {name: explain(found.task, sample, options.top) for name, found in runs.items()}
    rows = [[name, *(f"{answer} {p:.2f}" for answer, p in each.answers)] for name, each in said.items()]
    width = max(map(len, rows))
    ranks = ["answer", *(f"{rank}." for rank in range(2, width))]
    _table.show(["attention", *ranks], [row + [""] * (width - len(row)) for row in rows])
    looked = {name: each for name, each in said.items() if not runs[name].task.blind}
    if looked:
        print(f"\nWhere they looked: {_draw(sample, looked, options)}")
    return 0


def _sample(path: Path, question: str) -> Sample:
    from omegamax.data import Sample
    from omegamax.data.pictures import read_picture
    from omegamax.data.vqa2 import read_grid

    if path.suffix in (".npz", ".pth"):
        return Sample(question, {}, "other", str(path), features=read_grid(path))
    return Sample(question, {}, "other", str(path), image=read_picture(path))


def _draw(sample: Sample, said: Mapping[str, Explanation], options: argparse.Namespace) -> Path:
    """Write the picture; returns where."""
    from omegamax import viz
    from omegamax.data.pictures import read_picture, resize
    from omegamax.tasks.vqa.examples import blank
    from omegamax.viz.figure import pyplot

    if options.picture is not None:
        image = read_picture(options.picture)
    else:
        image = blank(sample) if sample.image is None else sample.image
    height, width = image.shape[1:]
    shrink = min(1.0, _SHARP / max(height, width))
    with letters_of(sample.question + "".join(answer for each in said.values() for answer, _ in each.answers)):
        figure = viz.looks(
            resize(image, (max(1, round(shrink * height)), max(1, round(shrink * width)))) if shrink < 1 else image,
            {name: each.look for name, each in said.items()},
            question=sample.question,
            answers={name: f"{each.answers[0][0]} ({each.answers[0][1]:.2f})" for name, each in said.items()},
            index=0,
        )
        options.out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(options.out, dpi=140)
    pyplot().close(figure)
    return options.out
