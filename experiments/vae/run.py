"""Train and measure: every set with every distribution of codes from several seeds, several runs at a time.

    python experiments/vae/run.py --trials                                    # settings, by the validation part
    python experiments/vae/run.py                                             # all rows, with the best of them
    python experiments/vae/run.py --sets mnist --codes bits --kinds gaussian_sparsemax --seeds 0 --results again

Rows are added to ``results/runs.csv`` (``results/trials.csv``) as they are done; those that are there are not run
again. ``tables.py`` makes the tables of them, ``pictures.py`` the pictures.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any

from job import (
    CODES,
    COLUMNS,
    KEYS,
    KINDS,
    SETS,
    SIZES,
    TRIAL_COLUMNS,
    TRIAL_KEYS,
    Place,
    Size,
    best_settings,
    measure,
    settings_of,
    trial,
)

from omegamax.tasks.experiment import Arguments
from omegamax.tasks.trials import Trials

HERE = Path(__file__).parent
LONGEST = ("gaussian_sparsemax", "mixed_dirichlet", "hard_concrete")  # with many vertices, they go first


def wanted(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Sets, codes and kinds, those that take long first."""
    found = [
        {"set": name, "codes": codes, "kind": kind, "size": options.size}
        for codes in options.codes
        for name in options.sets
        for kind in KINDS[codes]
        if options.kinds is None or kind in options.kinds
    ]

    def urgency(job: dict[str, Any]) -> tuple[bool, int]:
        place = LONGEST.index(job["kind"]) if job["kind"] in LONGEST else len(LONGEST)
        return job["codes"] != "simplex", place

    return sorted(found, key=urgency)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = Arguments(__doc__, HERE / "results", workers=1)
    parser.add_argument("--trials", action="store_true", help="try settings in place of making rows")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--codes", nargs="+", choices=list(CODES), default=list(CODES))
    parser.add_argument("--kinds", nargs="+", choices=KINDS["simplex"], help="distributions; by default all")
    parser.add_argument("--pictures", type=Path, help="folder of what is to be drawn; by default that of the rows")
    parser.add_argument("--size", choices=list(SIZES), default="full", help="of networks and training, see job.py")
    for name in (each.name for each in dataclasses.fields(Size)):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help="in place of that of the size")
    return parser.parse_args()


def main() -> int:
    """Try settings, or make the rows with the best of them."""
    options = parse()
    tried = Trials(options.results / "trials.csv", TRIAL_COLUMNS, TRIAL_KEYS)
    given = {each.name: getattr(options, each.name) for each in dataclasses.fields(Size)}
    size = dataclasses.replace(SIZES[options.size], **{name: value for name, value in given.items() if value})
    pictures = None if options.trials else str(options.pictures or options.results / "pictures")
    place = Place(options.data, options.device, {options.size: size}, pictures, options.seeds[0], options.workers > 1)
    kinds = wanted(options)
    if options.trials:
        jobs = [{**job, **settings} for job in kinds for settings in settings_of(job["kind"])]
        failed = tried.run(jobs, functools.partial(trial, place), options.workers)
    else:
        # Trials of this folder or, if it has none, those that came with the experiment.
        known = tried.rows() or Trials(HERE / "results" / "trials.csv", TRIAL_COLUMNS, TRIAL_KEYS).rows()
        rows = Trials(options.results / "runs.csv", COLUMNS, KEYS)
        jobs = []
        for job in kinds:
            try:
                settings = best_settings(known, job)
            except LookupError as error:
                print(error)
                continue
            jobs += [{**job, "seed": seed, **settings} for seed in options.seeds]
        failed = rows.run(jobs, functools.partial(measure, place), options.workers)
    print(f"{len(jobs)} wanted, {len(failed)} failed: {options.results}")
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
