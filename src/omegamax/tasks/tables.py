"""Tables of experiments in Markdown, from rows of results."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path


def mean(
    rows: Sequence[Mapping[str, str]], column: str, scale: float = 100, digits: int = 1, seeds: int | None = 3
) -> str:
    """Return mean and standard deviation of a column, and the number of values where it is not ``seeds``.

    >>> mean([{"accuracy": "0.5"}, {"accuracy": "0.6"}, {"accuracy": "0.7"}], "accuracy")
    '60.0 ± 10.0'
    >>> mean([{"accuracy": "0.5"}], "accuracy"), mean([], "accuracy")
    ('50.0 (n = 1)', '-')
    """
    values = [scale * float(row[column]) for row in rows if row[column]]
    if not values:
        return "-"
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    count = "" if seeds is None or len(values) == seeds else f" (n = {len(values)})"
    return f"{statistics.mean(values):.{digits}f}{spread}{count}"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose first column is text and whose others are numbers.

    >>> print(table(["kind", "all"], [["softmax", "77.6"]]))
    | kind | all |
    | --- | ---: |
    | softmax | 77.6 |
    """
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def fill(page: str | os.PathLike[str], tables: Mapping[str, str]) -> None:
    """Write tables into a page, each between the lines ``<!-- table NAME -->`` and ``<!-- end -->``.

    The page is written once all have a place.
    """
    path = Path(page)
    text = path.read_text(encoding="utf-8")
    for name, new in tables.items():
        before, begin, rest = text.partition(f"<!-- table {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not end:
            raise ValueError(
                f"fill: {path} must have a place for the table {name!r}: <!-- table {name} --> ... <!-- end -->"
            )
        text = f"{before}{begin}{new}\n{end}{after}"
    path.write_text(text, encoding="utf-8")
