"""What the rows of a comparison show, in words: computed from their numbers."""

from __future__ import annotations

from omegamax.tasks.vqa.report.records import Comparison, Row


def summarise(comparison: Comparison) -> str:
    """Say which models answer as well as the first, better or worse, by the intervals of their differences.

    A model is said to differ if the 95 % interval of the difference on the same questions leaves out 0. Empty if no
    differences are known.

    >>> rows = [
    ...     Row("softmax", "softmax", {"overall": 0.8, "number": 0.7}, 0),
    ...     Row("tvmax", "tvmax", {"overall": 0.79}, 0, difference=(-0.01, -0.03, 0.01)),
    ...     Row("other", "other", {"overall": 0.7, "number": 0.4}, 0, difference=(-0.1, -0.12, -0.08)),
    ... ]
    >>> print(summarise(Comparison("", "", rows)).replace(". ", ".\\n"))
    softmax answers 80.0% of the questions.
    Not told apart from it: tvmax (79.0%, -1.0 points, -3.0 to +1.0).
    Worse: other (70.0%, -10.0 points, -12.0 to -8.0; most in number, -30.0).
    The intervals (95%) are of differences on the same questions; another training would change more.
    """
    first, *rest = comparison.rows or [None]  # type: ignore[list-item]
    known = [row for row in rest if row.difference is not None]
    if first is None or not known or first.accuracy.get("overall") is None:
        return ""
    groups: dict[str, list[str]] = {"Better": [], "Not told apart from it": [], "Worse": []}
    for row in known:
        assert row.difference is not None
        _, low, high = row.difference
        name = "Better" if low > 0 else "Worse" if high < 0 else "Not told apart from it"
        groups[name].append(_describe(row, first))
    said = [f"{first.name} answers {_percent(first.accuracy['overall'])} of the questions."]
    said += [f"{name}: {'; '.join(models)}." for name, models in groups.items() if models]
    said.append("The intervals (95%) are of differences on the same questions; another training would change more.")
    return " ".join(said)


def _describe(row: Row, first: Row) -> str:
    assert row.difference is not None
    mean, low, high = (f"{100 * value:+.1f}" for value in row.difference)
    numbers = f"{_percent(row.accuracy.get('overall'))}, {mean} points, {low} to {high}"
    return f"{row.name} ({numbers}{_where(row, first)})"


def _where(row: Row, first: Row) -> str:
    """Name the kind of question in which a model that differs differs most, in the direction in which it does."""
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
