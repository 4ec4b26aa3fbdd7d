"""Train and measure: every kind of attention from several seeds, on features of the photographs of Flickr8k.

    omegamax features flickr8k/images_*.zip --backbone efficientnet_lite:2@256 --layer _blocks.20 --dtype float16 \
        --out flickr8k-features
    python experiments/captioning/run.py --data FOLDER --features flickr8k-features
    python experiments/captioning/score.py --data FOLDER
    python experiments/captioning/run.py --data FOLDER --features flickr8k-features --small --device cpu --epochs 7 \
        --peaks 0.001 --dropouts 0.3 --smoothings 0.1 --results experiments/captioning/results/small

``FOLDER`` holds ``flickr8k``. First softmax, of one seed, with several dropouts, smoothings and rates; then the other
kinds with what was best for the captions of the validation part, each with several rates; then all kinds with the rate
that was best for each, from the other seeds. Rows are added to ``results/runs.csv`` as they are done; what is there is
not run again. Captions go to ``results/captions``, and with ``--networks`` weights and maps of the first seed to a
folder.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from job import COLUMNS, HERE, KEYS, KINDS, Place, run

from omegamax.tasks.experiment import Arguments, tell_end
from omegamax.tasks.trials import Job, Trials

PEAKS, DROPOUTS, SMOOTHINGS = (5e-4, 1e-3), (0.3, 0.5), (0.0, 0.1)


def runs(folder: Path) -> Trials:
    """Return the rows of the tables."""
    return Trials(folder / "runs.csv", COLUMNS, KEYS)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = Arguments(__doc__, HERE / "results", workers=1)
    add = parser.add_argument
    add("--features", required=True, help="folder with the features of the photographs")
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    add("--epochs", type=int, default=15, help="of each network (15)")
    add("--peaks", nargs="+", type=float, default=PEAKS, help="highest learning rates to choose from")
    add("--dropouts", nargs="+", type=float, default=DROPOUTS, help="dropouts to choose from")
    add("--smoothings", nargs="+", type=float, default=SMOOTHINGS, help="label smoothings to choose from")
    add("--networks", type=Path, help="folder for weights and maps of the first seed (they are not kept)")
    add("--plain", action="store_true", help="capture no steps as CUDA graphs")
    add("--small", action="store_true", help="networks of a size that a CPU trains in twenty minutes")
    return parser.parse_args()


def best(rows: list[dict[str, str]], kind: str, seed: int, names: tuple[str, ...]) -> dict[str, float]:
    """Return the settings with which captions of the validation part were best.

    >>> rows = [{"kind": "tvmax", "seed": "0", "peak": p, "val_bleu4": b} for p, b in (("0.1", "0.2"), ("1.0", "0.1"))]
    >>> best(rows, "tvmax", 0, ("peak",))
    {'peak': 0.1}
    """
    own = [row for row in rows if row["kind"] == kind and row["seed"] == str(seed)]
    found = max(own, key=lambda row: float(row["val_bleu4"]))
    return {name: float(found[name]) for name in names}


def main() -> int:
    """Run what has no row yet."""
    options, began = parse(), time.perf_counter()
    table, first, base = runs(options.results), options.seeds[0], options.kinds[0]
    with tempfile.TemporaryDirectory() as scratch:
        place = Place(
            str(Path(options.data) / "flickr8k"),
            options.features,
            options.device,
            options.epochs,
            str(options.results),
            str(options.networks or scratch),
            options.plain,
            options.small,
        )
        work = functools.partial(run, place=place)
        others = [kind for kind in options.kinds if kind != base]
        failed: list[Job] = []

        def do(jobs: list[dict[str, Any]]) -> None:
            left = None if options.seconds is None else options.seconds - (time.perf_counter() - began)
            failed.extend(table.run(jobs, work, options.workers, within=left))

        # What there is nothing to choose from for is not waited for.
        grid = list(itertools.product(options.dropouts, options.smoothings, options.peaks))
        jobs = [{"kind": base, "seed": first, "peak": p, "dropout": d, "smoothing": s} for d, s, p in grid]
        if len(grid) > 1:
            do(jobs)
            if not any(row["kind"] == base for row in table.rows()):
                return tell_end(table, failed)
            jobs, same = [], best(table.rows(), base, first, ("dropout", "smoothing"))
        else:
            same = {"dropout": options.dropouts[0], "smoothing": options.smoothings[0]}
        jobs += [{"kind": kind, "seed": first, "peak": p, **same} for p in options.peaks for kind in others]
        peaks = dict.fromkeys(options.kinds, options.peaks[0])
        if len(options.peaks) > 1:
            do(jobs)
            rows, jobs = table.rows(), []
            tried = [kind for kind in options.kinds if any(row["kind"] == kind for row in rows)]
            peaks = {kind: best(rows, kind, first, ("peak",))["peak"] for kind in tried}
        again = itertools.product(options.seeds[1:], peaks.items())
        do(jobs + [{"kind": kind, "seed": seed, "peak": p, **same} for seed, (kind, p) in again])
    return tell_end(table, failed)


if __name__ == "__main__":
    sys.exit(main())
