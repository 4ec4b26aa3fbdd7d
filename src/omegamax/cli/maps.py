"""``omegamax maps``: the register, as a table."""

from __future__ import annotations

import argparse
from pathlib import Path

from omegamax.cli import _table
from omegamax.cli._bibliography import work_of
from omegamax.cli._checks import CommandError, check_file
from omegamax.tasks.whole import whole_file

SUMMARY = "list the maps: what each is for, its cost, its reference"
BEGIN, END = "<!-- maps:begin -->", "<!-- maps:end -->"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax maps``."""
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--into", type=Path, metavar="FILE", help=f"write the table between {BEGIN} and {END} of FILE")


def run(options: argparse.Namespace) -> int:
    """Print the table, or write it into a file."""
    if options.into is not None:
        try:
            text = options.into.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CommandError(f"--into must be a text file that is there: {error}") from error
        changed = replaced(text, markdown())
        check_file(options.into, "--into")
        with whole_file(options.into.resolve()) as place:  # a link stays one
            place.write_text(changed, encoding="utf-8")
    elif options.markdown:
        print(markdown())
    else:
        _table.show(["map", "what for", "cost of a row of K", "reference"], _rows(linked=False))
    return 0


def markdown() -> str:
    """Return the table of the README."""
    return _table.markdown(["map", "what for", "cost of a row of K", "reference"], _rows(linked=True))


def replaced(text: str, table: str) -> str:
    """Return ``text`` with ``table`` between the two markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise CommandError(f"the file needs the lines {BEGIN} and {END}, in this order")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def _rows(linked: bool) -> list[list[str]]:
    from omegamax.maps import records

    rows = []
    for t in records().values():
        work = work_of(t.cite)
        name, reference = t.name, work.short if work else ""
        if linked:
            name = f"`{name}`"
            reference = f"[{reference}]({work.url})" if work and work.url else reference
        rows.append([name, t.summary, t.complexity, reference])
    return rows
