"""The numbers of all language models side by side."""

from __future__ import annotations

from collections.abc import Sequence

from omegamax.tasks.language.report.records import LanguageRow
from omegamax.tasks.report.table import Column, percent

PREDICTED, DRAWN, WRITTEN, COST = "predictions", "tokens drawn in their place", "texts", "cost"


def _score(title: str, key: str, text: str, best: object, hint: str, group: str) -> Column:
    return Column(title, key, lambda row: row.scores.get(key), text.format, best, hint, group)  # type: ignore[arg-type]


_COLUMNS = (
    _score("\u03b5-perplexity", "epsilon_perplexity", "{:.2f}", min, "Epsilon found on the validation part", PREDICTED),
    _score("perplexity", "perplexity", "{:.2f}", min, "None where a true token had no probability", PREDICTED),
    _score("sparsemax score", "sparsemax_score", "{:.4f}", max, "One minus the sparsemax loss", PREDICTED),
    _score("JS", "jensen_shannon", "{:.4f}", min, "Divergence from the true token, in nats", PREDICTED),
    Column("right, %", "accuracy", lambda row: row.scores.get("accuracy"), percent, max, "Most probable", PREDICTED),
    _score("possible", "support", "{:,.1f}", None, "Tokens that could have come at a step", PREDICTED),
    Column("REP, %", "rep", lambda row: row.scores.get("rep"), percent, None, "Had just been there", DRAWN),
    Column("WREP, %", "wrep", lambda row: row.scores.get("wrep"), percent, min, "Wrong besides", DRAWN),
    *(
        Column(
            f"distinct-{n}, %",
            f"distinct_{n}",
            lambda row, n=n: row.scores.get(f"distinct_{n}"),  # type: ignore[misc]
            percent,
            None,
            f"Share of distinct {n}-grams of what was written",
            WRITTEN,
        )
        for n in (1, 2, 4)
    ),
    Column("parameters", "parameters", lambda row: row.parameters or None, "{:,}".format, group=COST),
    Column("ms / step", "step_ms", lambda row: row.step_ms, "{:.1f}".format, min, "One training step", COST),
)


def columns(rows: Sequence[LanguageRow]) -> list[Column]:
    """List the columns of which some row has the number."""
    return [column for column in _COLUMNS if any(column.value(row) is not None for row in rows)]
