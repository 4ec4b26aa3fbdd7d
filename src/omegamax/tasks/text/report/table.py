"""The numbers of all networks side by side."""

from __future__ import annotations

from collections.abc import Sequence

from omegamax.tasks.report.table import Column, accuracy_columns, cost_columns, percent
from omegamax.tasks.text.report.records import TextRow


def columns(rows: Sequence[TextRow]) -> list[Column]:
    """List the columns: accuracy, its difference from the first, the words, the cost."""
    group = "difference from the first, points"
    differences = [
        Column("mean", "difference", lambda row: _difference(row, 0), _points, None, "On the same texts", group),
        Column("from", "difference from", lambda row: _difference(row, 1), _points, None, "95% interval", group),
        Column("to", "difference to", lambda row: _difference(row, 2), _points, None, "95% interval", group),
    ]
    looked = [Column("zero, %", "zero", lambda row: row.zero, percent, None, "With exactly no attention", LOOKED)]
    marked = [
        Column("inside, %", "inside", lambda row: row.inside, percent, max, "Attention on marked words", LOOKED),
        Column("token F1, %", "token_f1", lambda row: row.token_f1, percent, max, "Against marked words", LOOKED),
    ]
    known = [each for each in marked if any(each.value(row) is not None for row in rows)]
    compared = differences if any(row.difference is not None for row in rows) else []
    return accuracy_columns(rows) + compared + looked + known + cost_columns()


LOOKED = "where it looked"


def _difference(row: TextRow, place: int) -> float | None:
    return None if row.difference is None else row.difference[place]


def _points(value: float) -> str:
    return f"{100 * value:+.1f}"
