"""The numbers of all networks side by side."""

from __future__ import annotations

from collections.abc import Sequence

from omegamax.tasks.captioning.report.records import CaptionRow
from omegamax.tasks.report.table import Column, percent

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


def columns(rows: Sequence[CaptionRow]) -> list[Column]:
    """List the columns of which some row has the number.

    BLEU, METEOR, ROUGE-L and SPICE are written in hundreds, as papers do, CIDEr as it is; ``rep`` is in percent;
    ``objects`` and ``zero`` are shares; ``js`` in bits; ``rate`` in words a second.
    """
    return [column for column in _COLUMNS if any(column.value(row) is not None for row in rows)]
