"""The numbers of all models side by side, as HTML and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from omegamax.tasks.csv_text import guard
from omegamax.tasks.vqa.report.colours import BASELINE, colours
from omegamax.tasks.vqa.report.records import Comparison, Row

DASH = "\u2013"  # stands for a number that is not known


@dataclass(frozen=True)
class Column:
    """One number of a row: its heading on the page and in the CSV, how to read and to write it, which end is good."""

    title: str
    key: str
    value: Callable[[Row], float | None]
    text: Callable[[float], str]
    best: Callable[[Sequence[float]], float] | None = None
    hint: str = ""
    group: str = ""

    def shown(self, row: Row) -> str:
        """Return the number as text, a dash if it is not known."""
        value = self.value(row)
        return DASH if value is None else self.text(value)


def columns(rows: Sequence[Row]) -> list[Column]:
    """List the columns: accuracy of each kind of question that occurs, then the cost, then the attention."""
    kinds = dict.fromkeys(["overall", *(kind for row in rows for kind in row.accuracy)])
    accuracy = [
        Column(
            title=kind,
            key=f"accuracy {kind}",
            value=lambda row, kind=kind: row.accuracy.get(kind),  # type: ignore[misc]
            text=_percent,
            best=max,
            group="accuracy, %",
        )
        for kind in kinds
    ]
    rest = [
        Column("parameters", "parameters", lambda row: row.parameters, "{:,}".format, group="cost"),
        Column("ms / step", "step_ms", lambda row: row.step_ms, "{:.1f}".format, min, "One training step", "cost"),
        Column(
            "JSD", "divergence", lambda row: row.divergence, "{:.3f}".format, min, "In bits, less is nearer", LOOKED
        ),
        Column("inside, %", "inside", lambda row: row.inside, _percent, max, "Of the attention", LOOKED),
        Column("zero, %", "zero", lambda row: row.zero, _percent, None, "Cells with exactly no attention", LOOKED),
    ]
    if any(row.components for row in rows):
        rest.append(Column("K*", "components", mean_components, "{:.2f}".format, None, "Mean over questions", LOOKED))
    return accuracy + rest


LOOKED = "where it looked"


def table(comparison: Comparison) -> str:
    """Return the HTML of the table, the best of each column in bold, the model that saw no picture last."""
    rows, baseline = comparison.rows, comparison.baseline
    shown = columns([*rows, *([baseline] if baseline else [])])
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


def table_csv(comparison: Comparison) -> str:
    """Write all numbers unrounded, unknown ones empty; names that would be formulas have a quote before them."""
    rows = [*comparison.rows, *([comparison.baseline] if comparison.baseline else [])]
    shown = columns(rows)
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["model", "attention", *(guard(c.key) for c in shown)])
    for row in rows:
        writer.writerow([guard(row.name), guard(row.kind), *("" if (v := c.value(row)) is None else v for c in shown)])
    return file.getvalue()


def mean_components(row: Row) -> float | None:
    """Return the mean of K* over the questions, None where it was never selected."""
    total = sum((row.components or {}).values())
    return sum(k * n for k, n in (row.components or {}).items()) / total if total else None


def _line(row: Row, colour: str, shown: list[Column], best: dict[str, str | None], first: set[str], mark: str) -> str:
    cells = []
    for column in shown:
        text = column.shown(row)
        strong = f"<strong>{text}</strong>" if best.get(column.key) == text else text
        bar = _bar(row, colour) if column.key == "accuracy overall" else ""
        cells.append(f'<td class="number{" starts" if column.key in first else ""}">{strong}{bar}</td>')
    dot = f'<span class="dot{" ring" if mark else ""}" style="--colour:{colour}"></span>'
    name = f'<span class="name">{dot}{escape(row.name)}</span>'
    return f'<tr class="{mark}"><th scope="row">{name}</th>{"".join(cells)}</tr>\n'


def _bar(row: Row, colour: str) -> str:
    value = row.accuracy.get("overall")
    width = 0.0 if value is None else 100 * min(max(value, 0.0), 1.0)
    return f'<span class="bar" aria-hidden="true"><span style="--colour:{colour};width:{width:.1f}%"></span></span>'


def _best(column: Column, rows: Sequence[Row]) -> str | None:
    """Return the best text of a column, so that ties as shown all win; None where there is nothing to win."""
    values = [v for v in map(column.value, rows) if v is not None]
    if column.best is None or len({column.text(v) for v in values}) < 2:
        return None
    return column.text(column.best(values))


def _starts(column: Column, first: set[str]) -> str:
    return ' class="starts"' if column.key in first else ""


def _hint(hint: str) -> str:
    return f' title="{escape(hint)}"' if hint else ""


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"
