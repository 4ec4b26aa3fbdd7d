"""``omegamax play``: the playground, as one page for a browser."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from omegamax.cli._checks import check_file

SUMMARY = "a playground: every map and density in one page, with scores to drag and images to draw on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax play``."""
    file = Path("playground.html")
    parser.add_argument("--out", type=Path, default=file, metavar="FILE", help=f"where to write the page ({file})")
    parser.add_argument("--no-browser", action="store_true", help="write the page and do not open it")


def run(options: argparse.Namespace) -> int:
    """Write the page, open it, and say where it is."""
    check_file(options.out)
    from omegamax.play import make_playground

    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(make_playground(), encoding="utf-8")
    size = options.out.stat().st_size / 1024
    print(f"{options.out}: {size:.0f} KB, computes in the browser and loads nothing.")
    if options.no_browser or not webbrowser.open(options.out.resolve().as_uri()):
        print(f"Open {options.out} in a browser.")
    return 0
