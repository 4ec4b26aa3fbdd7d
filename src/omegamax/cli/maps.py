"""``omegamax maps``: the register, as a table."""

from __future__ import annotations

import argparse
from pathlib import Path

from omegamax.cli import _table
from omegamax.cli._bibliography import work_of

SUMMARY = "list the maps: what each is for, its cost, its reference"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax maps``."""
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument(
        "--into", type=Path, metavar="FILE", help="write it between <!-- maps:begin --> and <!-- maps:end --> of FILE"
    )


def run(options: argparse.Namespace) -> int:
    """Print the table, or write it into a file."""
    if options.into is not None:
        _table.write_between(options.into, "maps", markdown())
    elif options.markdown:
        print(markdown())
    else:
        _table.show(["map", "what for", "cost of a row of K", "reference"], _rows(linked=False))
    return 0


def markdown() -> str:
    """Return the table of the README."""
    return _table.markdown(["map", "what for", "cost of a row of K", "reference"], _rows(linked=True))


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
