"""Train and measure: every set with every pooling from several seeds, several rows at a time.

    python experiments/mil/run.py                                              # all that has no row yet
    python experiments/mil/run.py --sets mnist_2 --kinds k_subsets_2           # one line of one table
    python experiments/mil/run.py --trials                                     # the validations that settings come from

Rows are added to ``results/runs.csv``, and those of ``--trials`` to ``results/trials.csv``, as they are done; what is
there is not run again. Runs take the settings that did best in the trials.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from job import BAGS, BETAS, DIGITS, HERE, INIT_DEVIATION, KINDS, SETS, Place, Settings, family, grid, run, try_out

from omegamax.tasks.experiment import Arguments, tell_end
from omegamax.tasks.trials import Trials

CHOSEN = ("rate", "dropout", "beta")
KEYS = ("set", "kind", "heads", "seed", *CHOSEN)
MEASURED = ("accuracy", "auc", "loss", "zero", "inside")
ABOUT = ("best_epoch", "epochs", "parameters", "seconds", "device")
COLUMNS = (*KEYS, *MEASURED, "positives", *(f"val_{name}" for name in MEASURED), *ABOUT)
TRIAL_KEYS = ("set", "kind", "heads", *CHOSEN)
TRIAL_COLUMNS = (*TRIAL_KEYS, *(f"val_{name}" for name in MEASURED), *ABOUT)


def trials(folder: Path) -> Trials:
    """Return the rows of the validations that settings come from."""
    return Trials(folder / "trials.csv", TRIAL_COLUMNS, TRIAL_KEYS)


def runs(folder: Path) -> Trials:
    """Return the rows of the tables."""
    return Trials(folder / "runs.csv", COLUMNS, KEYS)


def table_rows(folder: Path, heads: int) -> list[dict[str, str]]:
    """Runs with the settings that are best by all trials: a run of before may have had others."""
    rows, tried, best = runs(folder).rows(), trials(folder).rows(), {}
    for name in SETS:
        for kind in KINDS:
            best[name, kind] = tuple(chosen(tried, name, kind, heads).columns.values())
    return [
        row
        for row in rows
        if row["heads"] == str(heads) and tuple(float(row[key]) for key in CHOSEN) == best[row["set"], row["kind"]]
    ]


def chosen(rows: list[dict[str, str]], name: str, kind: str, heads: int) -> Settings:
    """The settings with the best validation: digits by accuracy, benchmarks by area; then by loss."""
    measure = "val_accuracy" if name in DIGITS else "val_auc"
    own = [row for row in rows if (row["set"], row["kind"], row["heads"]) == (name, kind, str(heads))]
    if not own:
        return Settings()
    best = max(own, key=lambda row: (float(row[measure]), -float(row["val_loss"])))
    return Settings(*(float(best[column]) for column in CHOSEN))


def trial_jobs(options: argparse.Namespace) -> list[Mapping[str, Any]]:
    """One for each set, kind, rate and dropout, of all betas that have no row."""
    found: list[tuple[int, Mapping[str, Any]]] = []
    for name in options.sets:
        for kind in options.kinds:
            for place, settings in enumerate(grid(name, options.rates)):
                same = {"set": name, "kind": kind, "heads": options.heads, **settings.columns}
                betas = options.betas or BETAS[family(name)]
                missing = trials(options.results).missing([{**same, "beta": beta} for beta in betas])
                if missing:
                    found.append((place, {**missing[0], "betas": tuple(job["beta"] for job in missing)}))
    # Every kind tries the same settings before any tries others: what is cut short is fair.
    return [job for _, job in sorted(found, key=lambda each: each[0])]


def run_jobs(options: argparse.Namespace) -> list[Mapping[str, Any]]:
    """One for each set and kind, of all seeds that have no row."""
    rows, found = trials(options.trials_from).rows(), []
    for name in options.sets:
        for kind in options.kinds:
            same = {"set": name, "kind": kind, "heads": options.heads}
            same |= chosen(rows, name, kind, options.heads).columns
            missing = runs(options.results).missing([{**same, "seed": seed} for seed in options.seeds])
            if missing:
                found.append({**missing[0], "seeds": tuple(job["seed"] for job in missing)})
    return found


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = Arguments(__doc__, HERE / "results", seeds=range(5))
    add = parser.add_argument
    add("--sets", nargs="+", choices=SETS, default=list(SETS))
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    add("--heads", type=int, default=12, help="of the pooling (12)")
    add("--trials", action="store_true", help="validate settings instead")
    add("--betas", nargs="+", type=float, help="to try; by default those of the set, see job.py")
    add("--rates", nargs="+", type=float, help="to try; by default those of the set")
    add("--xavier", action="store_true", help="start the pooling's projections from Xavier's weights, not from 0.02")
    add("--trials-from", type=Path, default=HERE / "results", help="folder with the trials that settings come from")
    add("--epochs", type=int, help="at most (15 and 40 of digits, 50 of benchmarks)")
    add("--bags", type=int, nargs=3, default=BAGS, help="of digits: training, validation, test")
    return parser.parse_args()


def main() -> int:
    """Try settings, or run those that did best."""
    options = parse()
    start = None if options.xavier else INIT_DEVIATION
    place = Place(options.data, options.device, tuple(options.bags), options.epochs, start)
    if options.trials:
        file, jobs, work = trials(options.results), trial_jobs(options), try_out
    else:
        file, jobs, work = runs(options.results), run_jobs(options), run
    failed = file.run(jobs, functools.partial(work, place=place), options.workers, within=options.seconds)
    return tell_end(file, failed)


if __name__ == "__main__":
    sys.exit(main())
