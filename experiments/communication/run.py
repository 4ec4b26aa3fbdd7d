"""Train and measure: two networks that talk about clothes, with every distribution of symbols, from several seeds.

    python experiments/communication/run.py                                      # the whole table
    python experiments/communication/run.py --kinds gaussian_sparsemax --seeds 0  # one distribution, one seed
    python experiments/communication/run.py --trials                             # what settings are chosen by

Rows are added to ``results/runs.csv`` as they are done; those that are there are not run again (``--results`` names
another folder, to run them anew). Settings are those of the best rows of ``results/trials.csv``. What differs in
settings and seeds is trained side by side, a job for each distribution.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from concepts import FILE
from job import Place, run, try_out
from settings import BATCH, CHOICES, KINDS, PARAMETERS, RATES, RESULTS, TEMPERINGS, chosen, runs_of, trials_of

from omegamax.tasks.experiment import Arguments, tell_end


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = Arguments(__doc__, RESULTS, seeds=range(10))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--choices", nargs="+", choices=list(CHOICES), default=list(CHOICES))
    parser.add_argument("--trials", action="store_true", help="try settings, rather than run those that were chosen")
    parser.add_argument("--chosen-by", type=Path, default=RESULTS, help="folder of the trials")
    parser.add_argument("--steps", type=int, help="of training; by default those of settings.py")
    parser.add_argument("--batch-size", type=int, default=BATCH, help="games in a step")
    parser.add_argument("--concepts", type=Path, default=FILE, help="file of the concepts of the pictures")
    parser.add_argument("--held-out", type=int, default=10_000, help="training pictures that are for validation")
    return parser.parse_args()


def trial_jobs(kinds: list[str], folder: Path) -> list[Mapping[str, Any]]:
    """One for each distribution, of all settings that have no row."""
    grid = list(product(TEMPERINGS, PARAMETERS, RATES))
    found: list[Mapping[str, Any]] = []
    for kind in kinds:
        wanted = [{"kind": kind, "parameter": p, "tempering": t, "rate": rate} for t, p, rate in grid]
        missing = trials_of(folder).missing(wanted)
        if missing:
            variants = tuple({name: each[name] for name in each if name != "kind"} for each in missing)
            found.append({**missing[0], "variants": variants})
    return found


def run_jobs(
    kinds: list[str], choices: list[str], seeds: list[int], folder: Path, chosen_by: Path
) -> list[Mapping[str, Any]]:
    """One for each distribution, of all choices and seeds that have no row."""
    tried, found = trials_of(chosen_by).rows(), list[Mapping[str, Any]]()
    for kind in kinds:
        wanted = [
            {"kind": kind, "choice": choice, "seed": seed, **chosen(tried, kind, choice)}
            for choice, seed in product(choices, seeds)
        ]
        missing = runs_of(folder).missing(wanted)
        if missing:
            found.append({**missing[0], "variants": tuple(missing)})
    return found


def main() -> int:
    """Try settings, or run those that were chosen."""
    options = parse()
    place = Place(options.data, options.device, options.steps, options.batch_size, options.concepts, options.held_out)
    if options.trials:
        table, work, jobs = trials_of(options.results), try_out, trial_jobs(options.kinds, options.results)
    else:
        table, work = runs_of(options.results), run
        jobs = run_jobs(options.kinds, options.choices, options.seeds, options.results, options.chosen_by)
    say = partial(print, flush=True)
    failed = table.run(
        jobs,
        partial(work, place=place),
        options.workers,
        lambda line: say(line.partition(", curve")[0]),
        options.seconds,
    )
    return tell_end(table, failed)


if __name__ == "__main__":
    sys.exit(main())
