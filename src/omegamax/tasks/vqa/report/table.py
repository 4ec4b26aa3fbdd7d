"""The columns of the table: what is known of each model."""

from __future__ import annotations

from collections.abc import Sequence

from omegamax.tasks.report.table import Column, accuracy_columns, cost_columns, percent
from omegamax.tasks.vqa.report.records import Row

LOOKED = "where it looked"


def columns(rows: Sequence[Row]) -> list[Column]:
    """List the columns: accuracy of each kind of question that occurs, then the cost, then the attention.

    Sets without maps of what matters have no columns for them.
    """
    looked = [
        Column(
            "JSD", "divergence", lambda row: row.divergence, "{:.3f}".format, min, "In bits, less is nearer", LOOKED
        ),
        Column("inside, %", "inside", lambda row: row.inside, percent, max, "Of the attention", LOOKED),
    ]
    looked = [column for column in looked if any(column.value(row) is not None for row in rows)]
    looked.append(
        Column("zero, %", "zero", lambda row: row.zero, percent, None, "Cells with exactly no attention", LOOKED)
    )
    if any(row.components for row in rows):
        looked.append(Column("K*", "components", mean_components, "{:.2f}".format, None, "Mean over questions", LOOKED))
    return accuracy_columns(rows) + cost_columns() + looked


def mean_components(row: Row) -> float | None:
    """Return the mean of K* over the questions, None where it was never selected."""
    total = sum((row.components or {}).values())
    return sum(k * n for k, n in (row.components or {}).items()) / total if total else None
