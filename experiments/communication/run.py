"""Train and measure: two networks that talk about clothes, with every distribution of symbols, from several seeds.

    python experiments/communication/run.py                                      # the whole table
    python experiments/communication/run.py --kinds gaussian_sparsemax --seeds 0  # one distribution, one seed
    python experiments/communication/run.py --trials                             # what settings are chosen by

Rows are added to ``results/runs.csv`` as they are done; those that are there are not run again (``--results`` names
another folder, to run them anew). Settings are those of the best rows of ``results/trials.csv``.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from itertools import product
from pathlib import Path

from job import run, trial
from settings import CHOICES, KINDS, PARAMETERS, RATES, RESULTS, chosen, runs_of, trials_of

from omegamax.tasks.experiment import Arguments, tell_end


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = Arguments(__doc__, RESULTS, seeds=range(10))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--choices", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--trials", action="store_true", help="try settings, rather than run those that were chosen")
    parser.add_argument("--chosen-by", type=Path, default=RESULTS, help="folder of the trials")
    parser.add_argument("--file", default="runs.csv", help="of the rows of runs; name another for other epochs")
    parser.add_argument("--epochs", type=int, default=10)
    return parser.parse_args()


def main() -> int:
    """Try settings, or run those that were chosen."""
    options = parse()
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
    return tell_end(table, failed)


if __name__ == "__main__":
    sys.exit(main())
