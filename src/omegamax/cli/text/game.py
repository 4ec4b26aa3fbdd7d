"""``omegamax text game``: how well a layperson learns from explanations what a trained network decides."""

from __future__ import annotations

import argparse
import csv
import math
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegamax.cli import _table
from omegamax.cli._checks import CommandError, at_least, check_file
from omegamax.cli._device import move
from omegamax.cli.comparison import find_trained_data
from omegamax.cli.explanation import add_checkpoint, drawing

if TYPE_CHECKING:
    from omegamax.tasks.text.game import GameResult

SUMMARY = "play the explanation game: how often do a few words of a text tell what a network says of it?"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax text game``."""
    add = parser.add_argument
    add_checkpoint(parser)
    add("--explainers", nargs="+", metavar="NAME", help="attention, support, gradient, ... (all there are)")
    add("--k", type=at_least(1), default=5, metavar="N", help="most words of a message (5)")
    add("--texts", type=at_least(1), metavar="N", help="most of each part of the data, drawn at random (all)")
    add("--seed", type=at_least(0), default=0, help="of what is drawn at random (0)")
    add("--epochs", type=at_least(1), default=5, metavar="N", help="of the trained explainers (5)")
    add(
        "--faithful",
        type=float,
        default=0.0,
        metavar="WEIGHT",
        help="of the guess that 'trained' makes of the network's state (0)",
    )
    add("--folder", metavar="FOLDER", help="of the data, if it is not where it was in training")
    add("--out", type=Path, default=Path("game.csv"), metavar="CSV", help="the table (game.csv)")
    add("--device", default="cpu", help="cpu, cuda, ... (cpu)")


@drawing()
def run(options: argparse.Namespace) -> int:
    """Play with each network and each explainer, print the table, and write it."""
    from omegamax.tasks.run_task import load_tasks
    from omegamax.tasks.text import TextData, TextTask
    from omegamax.tasks.text.game import EXPLAINERS, play

    names = tuple(dict.fromkeys(options.explainers or EXPLAINERS))
    strange = [name for name in names if name not in EXPLAINERS]
    if strange:
        raise CommandError(f"--explainers must be of {', '.join(EXPLAINERS)}, got {strange[0]}")
    check_file(options.out)
    settings = {name: getattr(options, name) for name in ("seed", "epochs", "faithful")}
    found: dict[str, list[GameResult]] = {}
    for name, task in load_tasks(TextTask, options.runs).items():
        data = find_trained_data(TextData, name, task, {"folder": options.folder})
        move(task, options.device)
        found[name] = play(task, data, names, k=options.k, texts=options.texts, **settings)
    rows = [
        [name, each.explainer.replace("_", " "), *_percent(each.success, each.accuracy), f"{each.words:.1f}"]
        for name, results in found.items()
        for each in results
    ]
    _table.show(["attention", "explainer", "guessed the decision", "guessed the class", "words told"], rows)
    write_results(options.out, found, settings)
    print(f"\nThe table: {options.out}")
    return 0


def _percent(*shares: float) -> list[str]:
    return ["-" if math.isnan(share) else f"{100 * share:.1f} %" for share in shares]


def write_results(path: Path, found: dict[str, list[GameResult]], settings: dict[str, Any]) -> None:
    """Write a CSV file with a row for each network and explainer; shares are from 0 to 1."""
    from omegamax.tasks.csv_text import guard
    from omegamax.tasks.text.game import GameResult
    from omegamax.tasks.whole import whole_file

    names = [each.name for each in fields(GameResult)]
    with whole_file(path) as place, place.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["network", *names, *settings])
        writer.writeheader()
        for name, results in found.items():
            writer.writerows({"network": guard(name), **asdict(each), **settings} for each in results)
