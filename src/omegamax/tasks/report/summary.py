"""What the rows of a comparison show, in words: computed from their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from omegamax.tasks.report.records import ModelRow


def summarise_rows(rows: Sequence[ModelRow], asked: str) -> str:
    """Say which models answer as well as the first, better or worse, by the intervals of their differences.

    A model is said to differ if the 95 % interval of the difference on the same examples leaves out 0. Empty if no
    differences are known.

    Args:
        asked: what the examples are, ``"questions"``.

    >>> from types import SimpleNamespace as Row
    >>> rows = [
    ...     Row(name="softmax", accuracy={"overall": 0.8, "number": 0.7}, difference=None),
    ...     Row(name="tvmax", accuracy={"overall": 0.79}, difference=(-0.01, -0.03, 0.01)),
    ...     Row(name="other", accuracy={"overall": 0.7, "number": 0.4}, difference=(-0.1, -0.12, -0.08)),
    ... ]
    >>> print(summarise_rows(rows, "questions").replace(". ", ".\\n"))
    softmax answers 80.0% of the questions.
    Not told apart from it: tvmax (79.0%, -1.0 points, -3.0 to +1.0).
    Worse: other (70.0%, -10.0 points, -12.0 to -8.0; most in number, -30.0).
    The intervals (95%) are of differences on the same questions; another training would change more.
    """
    known = [row for row in rows[1:] if row.difference is not None]
    if not known or rows[0].accuracy.get("overall") is None:
        return ""
    first = rows[0]
    groups: dict[str, list[str]] = {"Better": [], "Not told apart from it": [], "Worse": []}
    for row in known:
        assert row.difference is not None
        _, low, high = row.difference
        name = "Better" if low > 0 else "Worse" if high < 0 else "Not told apart from it"
        groups[name].append(_describe(row, first))
    said = [f"{first.name} answers {_percent(first.accuracy['overall'])} of the {asked}."]
    said += [f"{name}: {'; '.join(models)}." for name, models in groups.items() if models]
    said.append(f"The intervals (95%) are of differences on the same {asked}; another training would change more.")
    return " ".join(said)


def _describe(row: ModelRow, first: ModelRow) -> str:
    assert row.difference is not None
    mean, low, high = (f"{100 * value:+.1f}" for value in row.difference)
    numbers = f"{_percent(row.accuracy.get('overall'))}, {mean} points, {low} to {high}"
    return f"{row.name} ({numbers}{_where(row, first)})"


def _where(row: ModelRow, first: ModelRow) -> str:
    """Name the part of the examples in which a model that differs differs most, in the direction in which it does."""
    assert row.difference is not None
    mean, low, high = row.difference
    if low <= 0 <= high:
        return ""
    gaps: dict[str, float] = {}
    for kind, value in row.accuracy.items():
        other = first.accuracy.get(kind)
        if kind != "overall" and value is not None and other is not None:
            gaps[kind] = value - other
    if not gaps:
        return ""
    most = max(gaps, key=lambda kind: gaps[kind] if mean > 0 else -gaps[kind])
    return f"; most in {most}, {100 * gaps[most]:+.1f}"


def _percent(value: float | None) -> str:
    return "\u2013" if value is None else f"{100 * value:.1f}%"
