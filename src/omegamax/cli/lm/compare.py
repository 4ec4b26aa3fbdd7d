"""``omegamax lm compare``: trained language models in one table, and a page with what they write side by side."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from omegamax.cli._checks import CommandError, at_least, check_folder
from omegamax.cli._device import move
from omegamax.cli.comparison import add_arguments as add_shared_arguments
from omegamax.cli.comparison import describe_networks, find_trained_data, write_comparison
from omegamax.cli.explanation import drawing
from omegamax.cli.lm._writing import add_writing_arguments, read_writing

if TYPE_CHECKING:
    from omegamax.tasks.language.report import LanguageComparison

SUMMARY = "compare trained networks: a table, and a page with texts of all side by side"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax lm compare``."""
    add_shared_arguments(parser, "prompts, beginnings of as many documents")
    parser.add_argument("--prompt", type=at_least(1), default=8, metavar="N", help="tokens of a prompt (8)")
    add_writing_arguments(parser, 2, 60)


def run(options: argparse.Namespace) -> int:
    """Measure, let all write, print the table, and write the page."""
    with drawing():
        return _compare(options)


def _compare(options: argparse.Namespace) -> int:
    from omegamax.tasks.language import LanguageData, LanguageTask
    from omegamax.tasks.language.compare import compare
    from omegamax.tasks.report import load_contenders

    check_folder(options.out)
    try:
        config = read_writing(options)
    except ValueError as error:
        raise CommandError(str(error)) from error
    runs = load_contenders(LanguageTask, options.runs)
    first = next(iter(runs.values())).task
    data = find_trained_data(LanguageData, options.runs[0], first, {"folder": options.folder})
    for each in runs.values():
        move(each.task, options.device)
    comparison = compare(
        runs,
        data,
        split=options.split,
        examples=options.examples,
        prompt=options.prompt,
        config=config,
        seed=options.seed,
        rounds=options.rounds,
        title=f"What language models write after {type(data).__name__.removesuffix('Data')}",
        about=describe_networks(len(runs), options.split),
        settings={
            "data": type(data).__name__,
            "split": options.split,
            "runs": " ".join(map(str, options.runs)),
            "drawn with": f"seed {options.seed}, temperature {options.temperature:g}, nothing cut",
        },
    )
    write(comparison, options.out)
    return 0


def write(comparison: LanguageComparison, out: Path) -> None:
    """Print the table, write ``report.html`` and ``comparison.json``, and say where they are."""
    from omegamax.tasks.language.report import write_report
    from omegamax.tasks.language.report.table import columns

    shown = columns(comparison.rows)
    rows = [[row.name, *(column.shown(row).replace("\u2013", "-") for column in shown)] for row in comparison.rows]
    headers = ["network", *(column.title for column in shown)]
    write_comparison(out, headers, rows, "", comparison.save, partial(write_report, comparison), "texts")
