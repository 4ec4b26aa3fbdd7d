"""``omegamax vqa figures``: pictures like those of the papers, from what ``omegamax vqa compare`` wrote."""

from __future__ import annotations

import argparse
from pathlib import Path

from omegamax.cli._checks import CommandError, at_least, check_folder
from omegamax.cli.explanation import drawing

SUMMARY = "draw figures like the papers' from a comparison: kinds of questions, failures, wide ellipses, K = 1, 2, ..."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax vqa figures``."""
    add = parser.add_argument
    add("comparison", type=Path, metavar="COMPARISON", help="the folder that `omegamax vqa compare` or `demo` wrote")
    add("--out", type=Path, metavar="FOLDER", help="where the PNG files go (figures, in that folder)")
    add("--rows", type=at_least(1), default=3, metavar="N", help="the most questions in a figure (3)")


@drawing()
def run(options: argparse.Namespace) -> int:
    """Draw, and list the files."""
    from omegamax.tasks.vqa.report import Comparison
    from omegamax.tasks.vqa.report.figures import write_figures

    folder = options.comparison
    path = folder / "comparison.json" if folder.is_dir() else folder
    out = options.out or path.parent / "figures"
    check_folder(out)
    if not path.is_file():
        raise CommandError(f"{path} does not exist; give a folder that `omegamax vqa compare` wrote")
    written = write_figures(Comparison.load(path), out, options.rows)
    if not written:
        raise CommandError(f"{path} has no examples; compare with --examples, at least 1")
    print(*written, sep="\n")
    return 0
