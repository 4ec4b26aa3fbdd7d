"""``omegamax lm compare``: trained language models in one table, and a page with what they write side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from omegamax.cli._checks import CommandError, at_least
from omegamax.cli.comparison import add_arguments as add_shared_arguments
from omegamax.cli.comparison import fill_table, load_compared, shared_settings, write_comparison
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


@drawing()
def run(options: argparse.Namespace) -> int:
    """Measure, let all write, print the table, and write the page."""
    from omegamax.tasks.language import LanguageTask
    from omegamax.tasks.language.compare import compare

    try:
        config = read_writing(options)
    except ValueError as error:
        raise CommandError(str(error)) from error
    runs, data = load_compared(LanguageTask, options)
    shared = shared_settings(runs, data, options)
    shared["settings"]["drawn with"] = f"seed {options.seed}, temperature {options.temperature:g}, nothing cut"
    comparison = compare(
        runs,
        data,
        prompt=options.prompt,
        config=config,
        seed=options.seed,
        title=f"What language models write after {type(data).__name__.removesuffix('Data')}",
        **shared,
    )
    write(comparison, options.out)
    return 0


def write(comparison: LanguageComparison, out: Path) -> None:
    """Print the table, write ``report.html`` and ``comparison.json``, and say where they are."""
    from omegamax.tasks.language.report import write_report
    from omegamax.tasks.language.report.table import columns

    headers, rows = fill_table(comparison.rows, columns(comparison.rows), "network")
    write_comparison(comparison, write_report, out, headers, rows, "texts")
