"""The numbers of all networks side by side."""

from __future__ import annotations

from collections.abc import Sequence

from omegamax.tasks.report.table import Column, cost_columns, percent
from omegamax.tasks.translation.report.records import TranslationRow

_SCORE, _SEARCH, _WORDS = "BLEU", "searches", "translations"


def columns(rows: Sequence[TranslationRow]) -> list[Column]:
    """List the columns: BLEU, what searches know, what translations are like, the cost."""
    score = [
        Column("score", "accuracy overall", lambda row: row.accuracy.get("overall"), percent, max, "", _SCORE),
        Column("gain", "gain", lambda row: row.gain, "{:+.1f}".format, None, "Over the first", _SCORE),
        Column("p", "p_value", lambda row: row.p_value, "{:.3f}".format, None, "Of a paired bootstrap", _SCORE),
    ]
    follow = "Words that can follow, given the reference"
    search = [
        Column("can follow", "support", lambda row: row.support, "{:.1f}".format, None, follow, _SEARCH),
        Column("exact, %", "exact", lambda row: row.exact, percent, max, "Proven to be the best", _SEARCH),
        Column("only one, %", "complete", lambda row: row.complete, percent, None, "No other is possible", _SEARCH),
    ]
    words = [
        Column("empty, %", "empty", lambda row: row.empty, percent, min, "Without words", _WORDS),
        Column("repeated, %", "repeated", lambda row: row.repeated, percent, min, "Words twice in a row", _WORDS),
        Column("REP", "rep", lambda row: row.rep, "{:.2f}".format, min, "Repetitions", _WORDS),
        Column("DROP", "drop", lambda row: row.drop, "{:.2f}".format, min, "Source words left out, %", _WORDS),
    ]
    every = [*score, *search, *words]
    return [each for each in every if any(each.value(row) is not None for row in rows)] + cost_columns()
