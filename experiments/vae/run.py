"""Train and measure: every set with every distribution of codes from several seeds, several runs at a time.

    python experiments/vae/run.py --trials                                    # settings, by the validation part
    python experiments/vae/run.py                                             # all rows, with the best of them
    python experiments/vae/run.py --sets mnist --codes bits --kinds gaussian_sparsemax --seeds 0 --results again

Rows are added to ``results/runs.csv`` (``results/trials.csv``) as they are done; those that are there are not run
again. What has one distribution is trained side by side, in one job. ``tables.py`` makes the tables of them,
``pictures.py`` the pictures.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
from collections.abc import Mapping, Sequence
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
    WITH_TEMPERATURE,
    Place,
    Size,
    best_settings,
    measure,
    settings_of,
    trial,
)

from omegamax.tasks.experiment import Arguments, tell_end
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
    parser = Arguments(__doc__, HERE / "results", seeds=range(5), workers=1)
    parser.add_argument("--trials", action="store_true", help="try settings in place of making rows")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--codes", nargs="+", choices=list(CODES), default=list(CODES))
    parser.add_argument("--kinds", nargs="+", choices=KINDS["simplex"], help="distributions; by default all")
    parser.add_argument("--pictures", type=Path, help="folder of what is to be drawn; by default that of the rows")
    parser.add_argument("--rate", type=float, help="to run with, in place of what the trials chose")
    parser.add_argument("--temperature", type=float, help="to run with, where --rate is given")
    parser.add_argument("--file", default="runs.csv", help="of the rows of runs; name another for settings of your own")
    parser.add_argument("--graph", action="store_true", help="capture steps as CUDA graphs, where that is possible")
    parser.add_argument("--size", choices=list(SIZES), default="full", help="of networks and training, see job.py")
    for name in (each.name for each in dataclasses.fields(Size)):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help="in place of that of the size")
    return parser.parse_args()


def main() -> int:
    """Try settings, or make the rows with the best of them."""
    options = parse()
    tried = Trials(options.results / "trials.csv", TRIAL_COLUMNS, TRIAL_KEYS)
    changed = {each.name: getattr(options, each.name) for each in dataclasses.fields(Size)}
    size = dataclasses.replace(SIZES[options.size], **{name: value for name, value in changed.items() if value})
    pictures = None if options.trials else str(options.pictures or options.results / "pictures")
    place = Place(
        options.data,
        options.device,
        {options.size: size},
        pictures,
        options.seeds[0],
        options.workers > 1,
        options.graph,
    )
    if options.trials:
        jobs, file, work = trial_jobs(wanted(options), tried), tried, trial
    else:
        # Trials of this folder or, if it has none, those that came with the experiment.
        known = tried.rows() or Trials(HERE / "results" / "trials.csv", TRIAL_COLUMNS, TRIAL_KEYS).rows()
        file, work = Trials(options.results / options.file, COLUMNS, KEYS), measure
        given = {"rate": options.rate, "temperature": options.temperature or ""} if options.rate else None
        jobs = run_jobs(wanted(options), file, known, options.seeds, given)
    failed = file.run(jobs, functools.partial(work, place=place), options.workers, within=options.seconds)
    return tell_end(file, failed)


def trial_jobs(kinds: list[dict[str, Any]], file: Trials) -> list[Mapping[str, Any]]:
    """One for each distribution, of all sets and settings that have no row."""
    return _together([{**job, **each} for job in kinds for each in settings_of(job["kind"])], file)


def run_jobs(
    kinds: list[dict[str, Any]],
    file: Trials,
    tried: Sequence[Mapping[str, str]],
    seeds: Sequence[int],
    given: Mapping[str, Any] | None = None,
) -> list[Mapping[str, Any]]:
    """One for each distribution, of all sets and seeds that have no row, with the settings of the best trials."""
    jobs = []
    for job in kinds:
        try:
            settings = best_settings(tried, job) if given is None else dict(given)
            if job["kind"] not in WITH_TEMPERATURE:
                settings["temperature"] = ""
            jobs += [{**job, "seed": seed, **settings} for seed in seeds]
        except LookupError as error:
            print(error)
    return _together(jobs, file)


def _together(jobs: Sequence[Mapping[str, Any]], file: Trials) -> list[Mapping[str, Any]]:
    """Put what has no row together, by codes and distribution."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for job in file.missing(jobs):
        found.setdefault((job["codes"], job["kind"]), []).append(job)
    return [{**variants[0], "variants": tuple(variants)} for variants in found.values()]


if __name__ == "__main__":
    sys.exit(main())
