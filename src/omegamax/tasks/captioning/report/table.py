"""The numbers of all networks side by side."""

from __future__ import annotations

from collections.abc import Sequence

from omegamax.tasks.captioning.report.records import CaptionRow
from omegamax.tasks.report.table import DASH, Column, percent

CAPTIONS, SAID, LOOKED, COST = "against what people wrote", "what they say", "where they look", "cost"


def _hundreds(name: str, hint: str = "") -> Column:
    return Column(name, name, lambda row: row.scores.get(name), percent, max, hint, CAPTIONS)


_COLUMNS = (
    *(_hundreds(f"BLEU-{n}") for n in range(1, 5)),
    _hundreds("METEOR"),
    _hundreds("ROUGE-L"),
    Column("CIDEr", "CIDEr", lambda row: row.scores.get("CIDEr"), "{:.3f}".format, max, "Not in percent", CAPTIONS),
    _hundreds("SPICE"),
    Column(
        "REP, %", "rep", lambda row: row.scores.get("rep"), "{:.2f}".format, min, "Repetitions, less is better", SAID
    ),
    Column("words", "words", lambda row: row.scores.get("words"), "{:.1f}".format, None, "Mean length", SAID),
    Column(
        "objects, %",
        "objects",
        lambda row: row.scores.get("objects"),
        percent,
        max,
        "Share mentioned of those there",
        SAID,
    ),
    Column(
        "JS", "js", lambda row: row.scores.get("js"), "{:.3f}".format, None, "Between successive words, in bits", LOOKED
    ),
    Column(
        "zero, %", "zero", lambda row: row.scores.get("zero"), percent, None, "Cells with exactly no attention", LOOKED
    ),
    Column("words / s", "rate", lambda row: row.scores.get("rate"), "{:,.0f}".format, max, "Written in a second", COST),
    Column("parameters", "parameters", lambda row: row.parameters or None, "{:,}".format, group=COST),
)


# How differences are told: their unit in the table, and digits.
_DIFFERENCES = {"BLEU-4": (100.0, 1), "rep": (1.0, 2), "words": (1.0, 1), "js": (1.0, 3), "zero": (100.0, 1)}


class DifferenceColumn(Column):
    """The difference of a score from that of the first row, shown with its interval."""

    def shown(self, row: CaptionRow) -> str:  # type: ignore[override]
        """Return the difference with the ends of its interval, a dash if it is not known."""
        if self.key not in row.differences:
            return DASH
        scale, digits = _DIFFERENCES[self.key]
        value, low, high = (f"{scale * number:+.{digits}f}" for number in row.differences[self.key])
        return f"{value} [{low}, {high}]"


def difference_columns(rows: Sequence[CaptionRow]) -> list[Column]:
    """List the columns of differences that some row has, with the titles of their scores."""
    titles = {column.key: column.title for column in _COLUMNS}
    return [
        DifferenceColumn(titles[key], key, lambda row, key=key: row.differences.get(key, (None,))[0], str)  # type: ignore[misc]
        for key in _DIFFERENCES
        if any(key in row.differences for row in rows)
    ]


def columns(rows: Sequence[CaptionRow]) -> list[Column]:
    """List the columns of which some row has the number.

    BLEU, METEOR, ROUGE-L and SPICE are written in hundreds, as papers do, CIDEr as it is; ``rep`` is in percent;
    ``objects`` and ``zero`` are shares; ``js`` in bits; ``rate`` in words a second.
    """
    return [column for column in _COLUMNS if any(column.value(row) is not None for row in rows)]
