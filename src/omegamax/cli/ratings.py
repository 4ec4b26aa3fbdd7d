"""``omegamax caption ratings`` and ``omegamax vqa ratings``: what people have answered, in one table."""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING

from omegamax.cli import _table
from omegamax.cli._checks import at_least, check_file
from omegamax.cli.explanation import drawing

if TYPE_CHECKING:
    from omegamax.tasks.rating import RatingRow, Ratings

SUMMARY = "evaluate answers to a page of rate: means, intervals, and how far raters agree"
_GRADED = {"captions": "caption", "answers": "answer"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ratings``."""
    add = parser.add_argument
    add("answers", nargs="+", type=Path, metavar="FILE", help="answers that raters saved, a JSON file each")
    add("--out", type=Path, metavar="FILE", help="write the table there too, with all digits (CSV)")
    add("--draws", type=at_least(1), default=10_000, metavar="N", help="samples of pictures for the intervals (10000)")
    add("--seed", type=at_least(0), default=0, metavar="N", help="of these samples (0)")


@drawing()
def run(options: argparse.Namespace) -> int:
    """Read the answers, print the table, and write it."""
    from omegamax.data.errors import printable
    from omegamax.tasks.rating import measure_agreement, read_ratings, summarise_ratings

    if options.out is not None:
        check_file(options.out)
    ratings = read_ratings(options.answers)
    rows = summarise_ratings(ratings, options.draws, options.seed)
    graded = _GRADED.get(ratings.key.kind, "text")
    headers = ["attention", f"{graded} (1-5)", "difference", "attention relevance (1-5)", "difference", "grades"]
    _table.show(headers, [_cells(row) for row in rows])
    print("\nMeans with 95% intervals, from", f"{options.draws:,} samples of the {len(ratings.key.pictures)} pictures;")
    print("differences are from the first network on the same pictures.")
    text, attention = measure_agreement(ratings)
    alphas = f"{graded}s {_number(text)}, attention {_number(attention)}"
    if len(ratings.raters) > 1:
        print(f"Agreement of raters (Krippendorff's alpha, ordinal): {alphas}")
    else:
        print("Agreement of raters: there is one only")
    count = len(ratings.units)
    for rater, grades in zip(ratings.raters, ratings.grades, strict=True):
        short = "" if len(grades) == count else f", {count - len(grades)} are missing: it counts with those that it has"
        print(f"{printable(rater)}: {len(grades)} of {count} grades{short}")
    if options.out is not None:
        _write(options.out, rows, ratings, text, attention)
        print(f"The table: {options.out}")
    return 0


def _cells(row: RatingRow) -> list[str]:
    return [
        row.name,
        _interval(row.text, ".2f"),
        "-" if row.text_difference is None else _interval(row.text_difference, "+.2f"),
        _interval(row.attention, ".2f"),
        "-" if row.attention_difference is None else _interval(row.attention_difference, "+.2f"),
        f"{row.texts} + {row.words}",
    ]


def _interval(given: tuple[float, float, float], form: str) -> str:
    if math.isnan(given[0]):
        return "-"
    mean, low, high = (format(value, form) for value in given)
    return f"{mean} [{low}, {high}]"


def _number(value: float) -> str:
    return "not defined" if math.isnan(value) else f"{value:.3f}"


def _write(path: Path, rows: list[RatingRow], ratings: Ratings, text: float, attention: float) -> None:
    """Write the table with all digits; what is not known stays empty."""
    from omegamax.tasks.csv_text import guard
    from omegamax.tasks.whole import whole_file

    measures = ("text", "text_difference", "attention", "attention_difference")
    heads = [f"{name} {end}" for name in measures for end in ("mean", "low", "high")]
    with whole_file(path) as place, place.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["network", *heads, "texts", "words", "raters", "alpha text", "alpha attention"])
        for row in rows:
            values = [value for name in measures for value in (getattr(row, name) or (math.nan,) * 3)]
            shared = [row.texts, row.words, len(ratings.raters), text, attention]
            writer.writerow([guard(row.name), *("" if math.isnan(value) else value for value in (*values, *shared))])
