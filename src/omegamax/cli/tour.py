"""``omegamax tour``: a tour of every map, as pictures and one page."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from omegamax.cli import _table
from omegamax.cli._checks import VIZ, check_folder, require

DPI = 140
SUMMARY = "a tour: what each map does to a score vector and to an image, as pictures and one page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax tour``."""
    parser.add_argument("--out", type=Path, default=Path("tour"), metavar="FOLDER", help="where to write (tour)")
    parser.add_argument("--seed", type=int, default=2, help="of the scores and the image's texture (2)")


def run(options: argparse.Namespace) -> int:
    """Compute, draw, write the page, and say where it is."""
    require(VIZ)
    check_folder(options.out)
    from omegamax.viz.style import pyplot

    # A picture is written, never shown: no window system is needed or started.
    pyplot().switch_backend("agg")
    from omegamax.cli._page import Shown, page
    from omegamax.cli._plates import PLATES, cut
    from omegamax.cli._tour import tour
    from omegamax.viz import marks_of, style

    start = time.perf_counter()
    options.out.mkdir(parents=True, exist_ok=True)
    steps = len(PLATES) + 2
    print(f"[1/{steps}] sending scores through every map", flush=True)
    trip = tour(options.seed)
    shown = []
    for i, plate in enumerate(PLATES):
        print(f"[{i + 2}/{steps}] {options.out / plate.file}", flush=True)
        with style():
            figure = plate.draw(trip)
            figure.savefig(options.out / plate.file, dpi=DPI)
            shown.append(Shown(plate, cut(figure, DPI), marks_of(figure)))
            pyplot().close(figure)
    index = options.out / "index.html"
    print(f"[{steps}/{steps}] {index}\n", flush=True)
    index.write_text(page(trip, shown, options.seed), encoding="utf-8")

    print("scores: " + "  ".join(f"{z:.2f}" for z in trip.scores.tolist()))
    rows = [
        [
            stop.name,
            "  ".join("0   " if p == 0 else f"{p:.2f}" for p in stop.vector.tolist()),
            f"{int((stop.vector > 0).sum())} of {stop.vector.numel()}",
            f"{int((stop.grid > 0).sum())} of {stop.grid.numel()}",
            "none" if stop.margin == math.inf else f"{stop.margin:g}",
        ]
        for stop in trip.stops
    ]
    _table.show(["map", "probabilities of the scores", "support", "cells", "margin"], rows)
    print(f"\n{time.perf_counter() - start:.1f} s. Open {index} in a browser.")
    return 0
