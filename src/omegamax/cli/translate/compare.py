"""``omegamax translate compare``: trained networks in one table, and a page to look at."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from omegamax.cli._checks import at_least
from omegamax.cli.comparison import add_arguments as add_shared_arguments
from omegamax.cli.comparison import load_compared, shared_settings, show_number, write_comparison
from omegamax.cli.explanation import drawing

if TYPE_CHECKING:
    from omegamax.tasks.translation.report import TranslationRow

SUMMARY = "compare trained networks: a table, and a page with curves and alignments to look at"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax translate compare``."""
    add_shared_arguments(parser, "sentences to show")
    add = parser.add_argument
    add("--beam", type=at_least(1), default=5, metavar="N", help="sentences that a search follows (5)")
    add("--max-length", type=at_least(1), default=200, metavar="N", help="most subwords of a translation (200)")
    add("--aligned", type=at_least(0), default=50_000, metavar="N", help="training pairs to learn DROP from (50000)")


@drawing()
def run(options: argparse.Namespace) -> int:
    """Measure, explain, print the table, and write the page."""
    from omegamax.tasks.translation import SearchConfig, TranslationTask
    from omegamax.tasks.translation.compare import compare
    from omegamax.tasks.translation.report import write_report

    runs, data = load_compared(TranslationTask, options)
    shared = shared_settings(runs, data, options)
    shared["about"] = f"{shared['about'].removesuffix('.')}, {data.form.label}."
    shared["settings"]["beam"] = str(options.beam)
    comparison = compare(
        runs,
        data,
        search=SearchConfig(options.beam, max_length=options.max_length),
        aligned=options.aligned,
        title=f"Translation of {data.title}",
        **shared,
    )
    headers = ["network", "BLEU", "gain", "p", "can follow", "exact, %", "only one, %", "REP", "DROP"]
    headers += ["parameters", "ms/step"]
    rows = [_cells(row) for row in comparison.rows]
    write_comparison(comparison, write_report, options.out, headers, rows, "alignments")
    return 0


def _cells(row: TranslationRow) -> list[str]:
    bleu = row.accuracy["overall"]
    return [
        row.name,
        show_number(None if bleu is None else 100 * bleu, ".2f"),
        show_number(row.gain, "+.2f"),
        show_number(row.p_value, ".3f"),
        show_number(row.support, ".1f"),
        *(show_number(None if share is None else 100 * share, ".1f") for share in (row.exact, row.complete)),
        *(show_number(value, ".2f") for value in (row.rep, row.drop)),
        f"{row.parameters:,}",
        show_number(row.step_ms, ".1f"),
    ]
