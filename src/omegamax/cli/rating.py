"""The part that every ``rate`` shares: how many pictures, which seed, where to write, and what is said of the page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from omegamax.cli._checks import CommandError, at_least, check_file

if TYPE_CHECKING:
    from omegamax.tasks.rating import Survey


def add_arguments(parser: argparse.ArgumentParser, runs: str) -> None:
    """Add the arguments that all have.

    Args:
        runs: what ``--runs`` asks for.
    """
    add = parser.add_argument
    add("--runs", nargs="+", required=True, type=Path, metavar="RUN", help=runs)
    add("--images", type=at_least(1), default=100, metavar="N", help="pictures to rate, drawn at random (100)")
    add("--seed", type=at_least(0), default=0, metavar="N", help="of the draw and of the order of networks (0)")
    add("--out", type=Path, default=Path("rating.html"), metavar="FILE", help="the page (rating.html)")


def check_page(path: Path) -> None:
    """Refuse a page that cannot be written, or that a browser would not open as one."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise CommandError(f"--out must end in .html, got {path}")
    check_file(path)


def write_rating(survey: Survey, wanted: int, out: Path, command: str) -> None:
    """Write the page, and say what is on it and what to do with it.

    Args:
        wanted: how many pictures were asked for.
        command: that evaluates the answers.
    """
    from omegamax.tasks.rating import write_survey

    path = write_survey(survey, out)
    units = sum(1 + len(look["rated"]) for looks in survey.shown for look in looks)
    few = f" (there are no more, {wanted} were asked for)" if len(survey.pictures) < wanted else ""
    networks = "1 network" if len(survey.networks) == 1 else f"{len(survey.networks)} networks"
    print(f"{len(survey.pictures)} pictures{few} and {networks}, {units:,} grades for each rater")
    print(f"The page to send to raters, {path.stat().st_size / 1e6:.1f} MB: {path}")
    print(f"What they send back: omegamax {command} *.json")
