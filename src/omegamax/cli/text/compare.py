"""``omegamax text compare``: trained networks in one table, and a page to look at."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from omegamax.cli._checks import at_least
from omegamax.cli.comparison import add_arguments as add_shared_arguments
from omegamax.cli.comparison import load_compared, shared_settings, show_number, write_comparison
from omegamax.cli.explanation import drawing

if TYPE_CHECKING:
    from omegamax.tasks.text.report import TextComparison, TextRow

SUMMARY = "compare trained networks: a table, and a page with curves and texts to look at"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax text compare``."""
    add_shared_arguments(parser, "texts to show, the first of each class in turn")
    help = "texts to show beside them on which networks disagree, and that all get wrong (6)"
    parser.add_argument("--themed", type=at_least(0), default=6, metavar="N", help=help)


@drawing()
def run(options: argparse.Namespace) -> int:
    """Measure, explain, print the table, and write the page."""
    from omegamax.tasks.text import TextTask
    from omegamax.tasks.text.compare import compare

    runs, data = load_compared(TextTask, options)
    comparison = compare(
        runs,
        data,
        themed=options.themed,
        title=f"Attention on {data.title}",
        **shared_settings(runs, data, options),
    )
    write(comparison, options.out)
    return 0


def write(comparison: TextComparison, out: Path) -> None:
    """Print the table, write ``report.html`` and ``comparison.json``, and say where they are."""
    from omegamax.tasks.report import summarise_rows
    from omegamax.tasks.text.report import write_report

    parts = list(comparison.rows[0].accuracy)
    headers = ["attention", *parts, "difference", "zeros", "inside", "token F1", "parameters", "ms/step"]
    rows = [_cells(row, parts) for row in comparison.rows]
    said = summarise_rows(comparison.rows, "texts")
    write_comparison(comparison, write_report, out, headers, rows, "texts", said)


def _cells(row: TextRow, parts: list[str]) -> list[str]:
    difference = "-" if row.difference is None else "{:+.3f} [{:+.3f}, {:+.3f}]".format(*row.difference)
    return [
        row.name,
        *(show_number(row.accuracy.get(part), ".3f") for part in parts),
        difference,
        *(show_number(value, ".3f") for value in (row.zero, row.inside, row.token_f1)),
        f"{row.parameters:,}",
        show_number(row.step_ms, ".1f"),
    ]
