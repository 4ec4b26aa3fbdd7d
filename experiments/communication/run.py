"""Train and measure: two networks that talk about clothes, with every law of symbols, from several seeds.

    python experiments/communication/run.py                                      # the whole table
    python experiments/communication/run.py --kinds gaussian_sparsemax --seeds 0  # one law, one seed
    python experiments/communication/run.py --trials                             # what settings are chosen by

Rows are added to ``results/runs.csv`` as they are done; those that are there are not run again (``--results`` names
another folder, to run them anew). Settings are those of the best rows of ``results/trials.csv``.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from itertools import product
from pathlib import Path

import torch
from job import run, trial
from settings import CHOICES, KINDS, PARAMETERS, RATES, RESULTS, chosen, runs_of, trials_of


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--choices", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(10)))
    parser.add_argument("--trials", action="store_true", help="try settings, rather than run those that were chosen")
    parser.add_argument("--data", default=os.environ.get("OMEGAMAX_DATA"), help="folder with fashion_mnist")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the rows")
    parser.add_argument("--chosen-by", type=Path, default=RESULTS, help="folder of the trials")
    parser.add_argument("--file", default="runs.csv", help="of the rows of runs; name another for other epochs")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.data is None:
        raise SystemExit("give the folder with the sets: --data, or the variable OMEGAMAX_DATA")
    where = {"data": options.data, "device": options.device, "epochs": options.epochs}
    if options.trials:
        table, work = trials_of(options.results), partial(trial, **where)
        grid = product(options.kinds, PARAMETERS, RATES)
        jobs = [{"kind": kind, "parameter": parameter, "rate": rate} for kind, parameter, rate in grid]
    else:
        table, work = runs_of(options.results, options.file), partial(run, **where)
        tried = trials_of(options.chosen_by).rows()
        jobs = [
            {"kind": kind, "choice": choice, "seed": seed, **chosen(tried, kind, choice)}
            for seed, choice, kind in product(options.seeds, options.choices, options.kinds)
        ]
    failed = table.run(jobs, work, options.workers, say=lambda line: print(line.partition(", curve")[0], flush=True))
    print(f"{len(failed)} failed: {table.path}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
