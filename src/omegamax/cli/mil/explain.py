"""``omegamax mil explain``: bags, how networks classify them, and a picture of which instances they looked at."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from omegamax.cli._checks import CommandError, at_least
from omegamax.cli.explanation import Explanation, explain_runs

if TYPE_CHECKING:
    from omegamax.tasks.mil import MILTask

SUMMARY = "show trained networks bags: their answers, and which instances each picked"
TASK = "omegamax.tasks.mil:MILTask"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax mil explain``."""
    add = parser.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="networks: folders of runs, .ckpt or .safetensors files")
    add("--bags", nargs="+", type=at_least(0), default=[0, 1, 2], metavar="N", help="which, from 0 on (0 1 2)")
    add("--split", choices=("train", "val", "test"), default="test", help="where they are from (test)")
    add("--folder", metavar="FOLDER", help="of the set, if it is no longer where the first network was trained")
    add("--out", type=Path, default=Path("bags.png"), metavar="PNG", help="the picture (bags.png)")


def run(options: argparse.Namespace) -> int:
    """Classify, print the answers, and write the picture."""
    return explain_runs(TASK, options.runs, options.out, lambda tasks: _ask(tasks, options))


def _ask(tasks: dict[str, MILTask], options: argparse.Namespace) -> Explanation:
    from omegamax.tasks.mil import BagsData
    from omegamax.tasks.mil.explain import draw, explain

    settings = next(iter(tasks.values())).data_settings
    if not settings:
        remedy = "train it by `omegamax mil fit`"
        raise CommandError(f"{options.runs[0]} does not say what data it was trained on; {remedy}")
    data = BagsData.of(settings, **({"folder": options.folder} if options.folder else {}))
    bags = data.split(options.split)
    beyond = [index for index in options.bags if index >= len(bags)]
    if beyond:
        raise CommandError(f"--bags must be below {len(bags)}, how many the split {options.split} has, got {beyond}")
    shown = [explain(tasks, bags[index]) for index in options.bags]
    rows = [
        [each.id, "positive" if each.label else "negative", look.name, f"{look.probability:.2f}", look.line()]
        for each in shown
        for look in each.looks
    ]
    headers = ["bag", "it is", "pooling", "p(positive)", "weights of the instances (. is exactly zero)"]
    return Explanation(headers, rows, draw(shown), "Which instances they picked")
