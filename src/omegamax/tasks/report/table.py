"""The numbers of all models side by side, as HTML and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from omegamax.tasks.csv_text import guard
from omegamax.tasks.report.colours import BASELINE, colours
from omegamax.tasks.report.records import ModelRow

DASH = "\u2013"  # stands for a number that is not known


@dataclass(frozen=True)
class Column:
    """One number of a row: its heading on the page and in the CSV, how to read and to write it, which end is good."""

    title: str
    key: str
    value: Callable[[Any], float | None]
    text: Callable[[float], str]
    best: Callable[[Sequence[float]], float] | None = None
    hint: str = ""
    group: str = ""

    def shown(self, row: ModelRow) -> str:
        """Return the number as text, a dash if it is not known."""
        value = self.value(row)
        return DASH if value is None else self.text(value)


def accuracy_columns(rows: Sequence[ModelRow]) -> list[Column]:
    """List a column for the accuracy over all examples, and one for each part of them that occurs."""
    parts = dict.fromkeys(["overall", *(part for row in rows for part in row.accuracy)])
    return [
        Column(
            title=part,
            key=f"accuracy {part}",
            value=lambda row, part=part: row.accuracy.get(part),  # type: ignore[misc]
            text=percent,
            best=max,
            group="accuracy, %",
        )
        for part in parts
    ]


def cost_columns() -> list[Column]:
    """List what a model costs: parameters, and the time of a training step."""
    return [
        Column("parameters", "parameters", lambda row: row.parameters, "{:,}".format, group="cost"),
        Column("ms / step", "step_ms", lambda row: row.step_ms, "{:.1f}".format, min, "One training step", "cost"),
    ]


def make_table(rows: Sequence[ModelRow], shown: Sequence[Column], baseline: ModelRow | None = None) -> str:
    """Return the HTML of the table, the best of each column in bold, the baseline last."""
    groups = dict.fromkeys(column.group for column in shown)
    spans = "".join(
        f'<th colspan="{sum(c.group == g for c in shown)}" scope="colgroup"><span>{escape(g)}</span></th>'
        for g in groups
    )
    first = {next(c for c in shown if c.group == g).key for g in groups}
    heads = "".join(f'<th scope="col"{_starts(c, first)}{_hint(c.hint)}>{escape(c.title)}</th>' for c in shown)
    best = {c.key: _best(c, rows) for c in shown}
    body = "".join(_line(row, colour, shown, best, first, "") for row, colour in zip(rows, colours(rows), strict=True))
    if baseline:
        body += _line(baseline, BASELINE, shown, {}, first, "baseline")
    return (
        '<p class="sideways" hidden>More columns to the right: scroll sideways \u2192</p>\n'
        '<div class="scroll" tabindex="0" role="region" aria-label="Comparison table"><table id="table">\n'
        f'<thead><tr><th rowspan="2" scope="col">model</th>{spans}</tr><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>\n"
    )


def make_csv(rows: Sequence[ModelRow], shown: Sequence[Column]) -> str:
    """Write all numbers unrounded, unknown ones empty; names that would be formulas have a quote before them."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["model", "attention", *(guard(c.key) for c in shown)])
    for row in rows:
        writer.writerow([guard(row.name), guard(row.kind), *("" if (v := c.value(row)) is None else v for c in shown)])
    return file.getvalue()


def _line(
    row: ModelRow, colour: str, shown: Sequence[Column], best: dict[str, str | None], first: set[str], mark: str
) -> str:
    cells = []
    for column in shown:
        text = column.shown(row)
        strong = f"<strong>{text}</strong>" if best.get(column.key) == text else text
        bar = _bar(row, colour) if column.key == "accuracy overall" else ""
        cells.append(f'<td class="number{" starts" if column.key in first else ""}">{strong}{bar}</td>')
    dot = f'<span class="dot{" ring" if mark else ""}" style="--colour:{colour}"></span>'
    name = f'<span class="name">{dot}{escape(row.name)}</span>'
    return f'<tr class="{mark}"><th scope="row">{name}</th>{"".join(cells)}</tr>\n'


def _bar(row: ModelRow, colour: str) -> str:
    value = row.accuracy.get("overall")
    width = 0.0 if value is None else 100 * min(max(value, 0.0), 1.0)
    return f'<span class="bar" aria-hidden="true"><span style="--colour:{colour};width:{width:.1f}%"></span></span>'


def _best(column: Column, rows: Sequence[ModelRow]) -> str | None:
    """Return the best text of a column, so that ties as shown all win; None where there is nothing to win."""
    values = [v for v in map(column.value, rows) if v is not None]
    if column.best is None or len({column.text(v) for v in values}) < 2:
        return None
    return column.text(column.best(values))


def _starts(column: Column, first: set[str]) -> str:
    return ' class="starts"' if column.key in first else ""


def _hint(hint: str) -> str:
    return f' title="{escape(hint)}"' if hint else ""


def percent(value: float) -> str:
    """Write a share as a percentage.

    >>> percent(0.5)
    '50.0'
    """
    return f"{100 * value:.1f}"
