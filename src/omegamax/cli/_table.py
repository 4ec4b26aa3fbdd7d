"""Tables in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

Rows = Sequence[Sequence[str]]


def show(headers: Sequence[str], rows: Rows) -> None:
    """Print a table: with rich in a terminal that has it, in plain columns otherwise (pipes, files, no rich)."""
    from omegamax.data.errors import printable

    # Names and answers come from files, and a terminal obeys some characters.
    headers, rows = [printable(cell) for cell in headers], [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        try:
            from rich import box
            from rich.console import Console
            from rich.table import Table
        except ImportError:
            pass
        else:
            table = Table(*headers, box=box.SIMPLE_HEAD)
            for row in rows:
                table.add_row(*row)
            Console().print(table, markup=False)
            return
    print(plain(headers, rows))


def plain(headers: Sequence[str], rows: Rows) -> str:
    """Return columns padded to their widest cell.

    >>> print(plain(["map", "margin"], [["sparsemax", "1"], ["softmax", "inf"]]))
    map        margin
    sparsemax  1
    softmax    inf
    """
    lines = [headers, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def markdown(headers: Sequence[str], rows: Rows) -> str:
    """Return the same as a Markdown table.

    >>> print(markdown(["map", "margin"], [["sparsemax", "1"]]))
    | map | margin |
    |---|---|
    | sparsemax | 1 |
    """
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("|---" * len(headers) + "|" if i == 1 else f"| {' | '.join(x)} |" for i, x in enumerate(lines))
