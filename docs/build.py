"""Build the site: ``python docs/build.py``, or ``make docs``.

The gallery is run once, and again for scripts that change; ``make clean`` makes it forget. What a page links to is on
the site, so that it can be read from a folder, without a network.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from _extensions import tree  # noqa: E402


def build(out: Path, work: Path, jobs: int, gallery: bool = True) -> int:
    """Write the site to ``out`` and return the exit status of Sphinx; ``work`` keeps what the next build can use."""
    from sphinx.cmd.build import main

    tree.lay_out(work / "source")
    tree.lay_out_examples(work / "examples")
    options = ["--builder", "html", "--conf-dir", str(HERE), "--doctree-dir", str(work / "doctrees")]
    options += ["--jobs", str(jobs), "--fail-on-warning", "--quiet"]
    options += [] if gallery else ["--define", "plot_gallery=0"]
    return main([*options, str(work / "source"), str(out)])


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=tree.ROOT / "site", help="where to write the site (site)")
    parser.add_argument(
        "--work", type=Path, default=tree.ROOT / "build" / "site", help="what a build leaves to the next"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one for each processor)")
    parser.add_argument(
        "--no-gallery", action="store_true", help="show the scripts of the gallery without running them"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    chosen = parse()
    sys.exit(build(chosen.out, chosen.work, chosen.jobs, not chosen.no_gallery))
