"""``omegamax vqa explain``: answers to one question, and a picture of where they were read from."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from omegamax.cli import _table
from omegamax.cli._errors import CommandError

SUMMARY = "ask trained networks about a picture: their answers, and where each looked"


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
    add("--out", type=Path, default=Path("where.png"), metavar="PNG", help="the picture (where.png)")
    add("--top", type=int, default=3, metavar="N", help="answers to tell of each (3)")


def run(options: argparse.Namespace) -> int:
    """Ask, print the answers, and write the picture."""
    from omegamax.data import DataError
    from omegamax.viz._matplotlib import pyplot

    pyplot().switch_backend("agg")
    if options.top < 1:
        raise CommandError(f"--top must be at least 1, got {options.top}")
    try:
        return _explain(options)
    except (DataError, OSError, ValueError) as error:
        raise CommandError(str(error)) from error


def _explain(options: argparse.Namespace) -> int:
    from omegamax import viz
    from omegamax.cli.vqa._runs import named_runs
    from omegamax.data import Sample
    from omegamax.data._pictures import read_picture
    from omegamax.data.vqa2 import read_grid
    from omegamax.tasks.vqa.examples import blank
    from omegamax.tasks.vqa.explain import explain, unknown_words

    if options.image.suffix in (".npz", ".pth"):
        sample = Sample(options.question, {}, "other", options.image.name, features=read_grid(options.image))
        picture = blank(sample)
    else:
        picture = read_picture(options.image)
        sample = Sample(options.question, {}, "other", options.image.name, image=picture)
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
    figure = viz.looks(
        picture,
        {name: each.look for name, each in said.items()},
        question=options.question,
        answers={name: f"{each.answers[0][0]} ({each.answers[0][1]:.2f})" for name, each in said.items()},
        index=0,
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out, dpi=140)
    print(f"\nWhere they looked: {options.out}")
    return 0
