"""Train and measure: every kind of attention from several seeds, on features of the photographs of Flickr8k.

    omegamax features flickr8k/images_*.zip --backbone efficientnet_lite:0@320 --layer _blocks.15 --dtype float16 \
        --out flickr8k-features
    python experiments/captioning/run.py --data FOLDER --features flickr8k-features

``FOLDER`` holds ``flickr8k``. Rows are added to ``results/runs.csv`` as they are done; what is there is not run again.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
from pathlib import Path

from job import HERE, KINDS, MEASURED, Place, run

from omegamax.tasks.experiment import Arguments, tell_end
from omegamax.tasks.trials import Trials

KEYS = ("kind", "seed", "peak", "dropout")
COLUMNS = (*KEYS, *MEASURED, "val_bleu4", "epochs", "parameters", "seconds", "device")


def runs(folder: Path) -> Trials:
    """Return the rows of the tables."""
    return Trials(folder / "runs.csv", COLUMNS, KEYS)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = Arguments(__doc__, HERE / "results", workers=1)
    add = parser.add_argument
    add("--features", required=True, help="folder with the features of the photographs")
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    add("--epochs", type=int, default=20, help="of each network (20)")
    add("--peak", type=float, default=4e-4, help="the highest learning rate (0.0004)")
    add("--dropout", type=float, default=0.3, help="of embeddings and of what words are read from (0.3)")
    add("--precision", default="32-true", help="as Lightning's trainer takes it (32-true)")
    add("--runs", type=Path, help="folder of the trained networks (none is kept)")
    return parser.parse_args()


def main() -> int:
    """Run what has no row yet."""
    options = parse()
    folder = str(Path(options.data) / "flickr8k")
    place = Place(folder, options.features, options.device, options.epochs, options.precision)
    same = {"peak": options.peak, "dropout": options.dropout}
    jobs = [{"kind": kind, "seed": seed, **same} for seed in options.seeds for kind in options.kinds]
    table = runs(options.results)
    with tempfile.TemporaryDirectory() as scratch:
        work = functools.partial(run, place=place, out=options.runs or Path(scratch))
        failed = table.run(jobs, work, options.workers)
    return tell_end(table, failed)


if __name__ == "__main__":
    sys.exit(main())
