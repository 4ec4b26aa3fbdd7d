"""Tables in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from omegamax.cli._checks import CommandError, check_file

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


def write_between(path: Path, name: str, table: str) -> None:
    """Write a table into a text file, between the lines that :func:`replace_between` looks for."""
    from omegamax.tasks.whole import whole_file

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CommandError(f"--into must be a text file that is there: {error}") from error
    changed = replace_between(text, name, table)
    check_file(path, "--into")
    with whole_file(path.resolve()) as place:  # a link stays one
        place.write_text(changed, encoding="utf-8")


def replace_between(text: str, name: str, table: str) -> str:
    """Return ``text`` with ``table`` between the two lines that mark where the table called ``name`` stands.

    >>> replace_between("<!-- maps:begin --><!-- maps:end -->", "maps", "| map |")
    '<!-- maps:begin -->\\n| map |\\n<!-- maps:end -->'
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise CommandError(f"the file needs the lines {begin} and {end}, in this order")
    return f"{before}{begin}\n{table}\n{end}{after}"
