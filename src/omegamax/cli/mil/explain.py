"""``omegamax mil explain``: bags, how networks classify them, and a picture of which instances they looked at."""

from __future__ import annotations

import argparse
from pathlib import Path

from omegamax.cli import _table
from omegamax.cli._arguments import at_least
from omegamax.cli._errors import CommandError
from omegamax.cli._extras import TRAIN, require
from omegamax.cli._output import check_picture

SUMMARY = "show trained networks bags: their answers, and which instances each picked"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``omegamax mil explain`` takes."""
    add = parser.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="networks: folders of runs, .ckpt or .safetensors files")
    add("--bags", nargs="+", type=at_least(0), default=[0, 1, 2], metavar="N", help="which, from 0 on (0 1 2)")
    add("--split", choices=("train", "val", "test"), default="test", help="where they are from (test)")
    add("--folder", metavar="FOLDER", help="of the set, if it is no longer where the first network was trained")
    add("--out", type=Path, default=Path("bags.png"), metavar="PNG", help="the picture (bags.png)")


def run(options: argparse.Namespace) -> int:
    """Classify, print the answers, and write the picture."""
    require(TRAIN)
    from omegamax.data import DataError
    from omegamax.viz.figure import pyplot

    pyplot().switch_backend("agg")
    try:
        return _explain(options)
    except (DataError, OSError, ValueError) as error:
        raise CommandError(str(error)) from error


def _explain(options: argparse.Namespace) -> int:
    from omegamax.tasks.mil import BagsData, MILTask
    from omegamax.tasks.mil.explain import draw, explain
    from omegamax.tasks.weights_file import find_weights
    from omegamax.viz.figure import pyplot

    out = options.out if options.out.suffix else options.out.with_suffix(".png")
    check_picture(out)
    tasks = [MILTask.load(find_weights(path, MILTask.kind)) for path in options.runs]
    settings = tasks[0].data_settings
    if not settings:
        remedy = "train it by `omegamax mil fit`"
        raise CommandError(f"{options.runs[0]} does not say what data it was trained on; {remedy}")
    data = BagsData.of(settings, **({"folder": options.folder} if options.folder else {}))
    bags = data.split(options.split)
    beyond = [number for number in options.bags if number >= len(bags)]
    if beyond:
        raise CommandError(f"--bags must be below {len(bags)}, how many the split {options.split} has, got {beyond}")
    shown = [explain(tasks, bags[number]) for number in options.bags]
    rows = [
        [each.id, "positive" if each.label else "negative", look.name, f"{look.probability:.2f}", look.told()]
        for each in shown
        for look in each.looks
    ]
    _table.show(["bag", "it is", "pooling", "p(positive)", "weights of the instances (. is exactly zero)"], rows)
    figure = draw(shown)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=140)
    pyplot().close(figure)
    print(f"\nWhich instances they picked: {out}")
    return 0
