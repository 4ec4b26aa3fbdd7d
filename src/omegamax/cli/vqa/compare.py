"""``omegamax vqa compare``: trained networks in one table, and a report to look at."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from omegamax.cli._checks import CommandError, at_least, check_folder
from omegamax.cli._device import move
from omegamax.cli.comparison import add_arguments as add_shared_arguments
from omegamax.cli.comparison import find_trained_data, shared_settings, show_number, write_comparison
from omegamax.cli.explanation import drawing

if TYPE_CHECKING:
    from omegamax.tasks.vqa.report import Comparison, Row

SUMMARY = "compare trained networks: a table, and a page with curves and maps to look at"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax vqa compare``."""
    add = parser.add_argument
    add_shared_arguments(parser, "to draw")
    add("--baseline", type=Path, metavar="RUN", help="a network trained with --model.blind true (one among the others)")
    add("--features", metavar="FOLDER", help="of the features, if they are not where they were in training")
    add("--pictures", metavar="FOLDER|ZIP", help="that features were made of, to draw maps on (those beside the data)")
    add("--human", metavar="FOLDER", help="of human attention maps, VQA-HAT, to compare with")
    add("--themed", type=at_least(0), default=3, metavar="N", help="to pick beside them, for each thing to show (3)")


@drawing()
def run(options: argparse.Namespace) -> int:
    """Measure, draw, print the table, and write the report."""
    from omegamax.data import DataError
    from omegamax.tasks.report import load_contenders
    from omegamax.tasks.vqa import VQAData, VQATask
    from omegamax.tasks.vqa.compare import BLIND, compare

    check_folder(options.out)
    runs = load_contenders(VQATask, options.runs)
    given = None if options.baseline is None else load_contenders(VQATask, [options.baseline])
    baseline = runs.pop(BLIND, None) if given is None else next(iter(given.values()))
    if not runs:
        raise DataError(f"{options.runs[0]} sees no picture; give networks that do, and this one as --baseline")
    if options.pictures and not Path(options.pictures).exists():
        raise CommandError(f"--pictures {options.pictures} does not exist; give a folder or a zip archive")
    changes = {name: getattr(options, name) for name in ("folder", "features", "pictures", "human")}
    data = find_trained_data(VQAData, options.runs[0], next(iter(runs.values())).task, changes)
    for each in (*runs.values(), *([baseline] if baseline else [])):
        move(each.task, options.device)
    comparison = compare(
        runs,
        data,
        baseline=baseline,
        themed=options.themed,
        title=f"Attention on {data.title}",
        **shared_settings(runs, data, options),
    )
    write(comparison, options.out)
    return 0


def write(comparison: Comparison, out: Path) -> None:
    """Print the table, write ``report.html`` and ``comparison.json``, and say where they are."""
    from omegamax.tasks.vqa.report import summarise, write_report

    kinds = list(comparison.rows[0].accuracy)
    headers = ["attention", *kinds, "parameters", "ms/step", "JS (bits)", "inside", "zeros", "components K*"]
    rows = [*comparison.rows, *([comparison.baseline] if comparison.baseline else [])]
    cells = [_cells(row, kinds) for row in rows]
    write_comparison(comparison, write_report, out, headers, cells, "maps", summarise(comparison))


def _cells(row: Row, kinds: list[str]) -> list[str]:
    histogram = "  ".join(f"{k}: {n}" for k, n in (row.components or {}).items())
    return [
        row.name,
        *(show_number(row.accuracy.get(kind), ".3f") for kind in kinds),
        f"{row.parameters:,}",
        show_number(row.step_ms, ".1f"),
        *(show_number(value, ".3f") for value in (row.divergence, row.inside, row.zero)),
        histogram or "-",
    ]
