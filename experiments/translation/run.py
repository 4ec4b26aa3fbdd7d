"""Train and measure: every kind of network from several seeds, several networks at a time.

    python experiments/translation/run.py --pack                    # read Multi30k once, into --cache
    python experiments/translation/run.py                           # trials, then all that has no row yet
    python experiments/translation/run.py --kinds softmax --seeds 1 --results /tmp/again            # one row
    python experiments/translation/run.py --small --device cpu --results experiments/translation/results/small
    python experiments/translation/tables.py                        # the tables of README.md

Rows are added to ``results/*.csv`` as they are done, translations to ``results/outputs``; what is there is not run
again. Settings are chosen by the BLEU of validation of networks with softmax (``results/trials.csv``); label smoothing
and dropout are chosen for each map of the output.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from job import (
    ALPHA_COLUMNS,
    ALPHA_KEYS,
    COLUMNS,
    HERE,
    KEYS,
    KINDS,
    RECURRENT_SETTINGS,
    TRIAL_COLUMNS,
    TRIAL_KEYS,
    WIDE,
    WIDTH_COLUMNS,
    WIDTH_KEYS,
    Place,
    Settings,
    grid,
    run,
    small,
    tried_kind,
    try_out,
)
from sets import SIZES, pack

from omegamax.tasks.experiment import Arguments
from omegamax.tasks.trials import Trials, work_through

Work = dict[str, Any]


class Files:
    """The files of rows in a folder."""

    def __init__(self, folder: Path) -> None:
        self.trials = Trials(folder / "trials.csv", TRIAL_COLUMNS, TRIAL_KEYS)
        self.runs = Trials(folder / "runs.csv", COLUMNS, KEYS)
        self.widths = Trials(folder / "widths.csv", WIDTH_COLUMNS, WIDTH_KEYS)
        self.alphas = Trials(folder / "alphas.csv", ALPHA_COLUMNS, ALPHA_KEYS)

    def add(self, result: dict[str, Any]) -> dict[str, Any]:
        """Write what came of a job; return its row."""
        if "trial" in result:
            self.trials.add([result["trial"]])
            return result["trial"]
        for name in ("widths", "alphas"):
            file: Trials = getattr(self, name)
            file.add(file.missing(result[name]))
        self.runs.add([result["run"]])  # last: with this row the job is done
        return result["run"]


def choose(rows: list[dict[str, str]], kind: str, most: int | None = None) -> Settings:
    """Return the settings with the best validation: sizes by softmax, smoothing and dropout by the kind's own trials.

    Those of sparse outputs were tried with other sizes, too; zero is the smoothing of one that has no trial. With
    ``most`` trials of more steps are not looked at.
    """
    rows = [row for row in rows if most is None or int(row["steps"]) <= most]
    family = tried_kind(kind)
    own = [row for row in rows if row["kind"] == family]
    best = max(own, key=lambda row: float(row["val_bleu"]), default=None)
    first = RECURRENT_SETTINGS if family == "recurrent" else WIDE
    settings = first if best is None else Settings.of(best)
    tried = [row for row in rows if row["kind"] == kind != family]
    if tried:
        found = max(tried, key=lambda row: float(row["val_bleu"]))
        settings = replace(settings, smoothing=float(found["smoothing"]), dropout=float(found["dropout"]))
    elif "output" in KINDS[kind]:
        settings = replace(settings, smoothing=0.0)
    return settings


def list_jobs(options: argparse.Namespace, files: Files) -> list[Work]:
    """List what has no row yet, in the order of its worth: trials, then all kinds of one seed after the other."""
    wanted = [{"kind": kind, "seed": seed} for seed in options.seeds for kind in options.kinds]
    runs = [{"what": "run", **job} for job in files.runs.missing(wanted)]
    if options.small:
        return runs
    kinds = dict.fromkeys(each for job in runs for each in (tried_kind(job["kind"]), job["kind"]))
    if options.trials is not None:
        kinds = dict.fromkeys(options.trials)
    tried = [{"kind": kind, **settings.columns} for kind in kinds for settings in grid(kind)]
    return [*({"what": "trial", **job} for job in files.trials.missing(tried)), *runs]


class Progress:
    """What is done so far, and what can begin."""

    def __init__(self, jobs: list[Work], files: Files, seconds: float | None) -> None:
        self.jobs, self.files, self.seconds = jobs, files, seconds
        self.began, self.count, self.failed = time.perf_counter(), 0, 0
        self.waits: dict[str, int] = {}
        for job in jobs:
            if job["what"] == "trial":
                self.waits[job["kind"]] = self.waits.get(job["kind"], 0) + 1

    def can_begin(self, job: Work) -> bool:
        """Tell whether the trials it waits for are done, and time is left."""
        if self.seconds is not None and time.perf_counter() - self.began > self.seconds:
            return False
        return job["what"] == "trial" or not any(self.waits.get(k) for k in (tried_kind(job["kind"]), job["kind"]))

    def note(self, job: Work, result: Any) -> None:
        """Write what came of a job, and say so."""
        at = f"{time.perf_counter() - self.began:5.0f} s"
        if job["what"] == "trial":
            self.waits[job["kind"]] -= 1  # one that failed is not waited for
        if isinstance(result, str):
            self.failed += 1
            print(f"{at}  {job} failed\n{result}", flush=True)
            return
        self.count += 1
        row = self.files.add(result)
        names = (*TRIAL_KEYS, "seed", "val_bleu", "bleu", "curve", "captured", "train_seconds", "seconds")
        print(f"{at}  {self.count}/{len(self.jobs)} ", *(f"{k} {row[k]}" for k in names if k in row), flush=True)


def do(job: Work, place: Place) -> Any:
    """Do one job."""
    if job["what"] == "trial":
        return try_out(job, place)
    rows = Files(Path(place.results)).trials.rows()
    settings = small(job["kind"]) if place.small else choose(rows, job["kind"], place.most)
    return run({**job, **settings.columns}, place)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = Arguments(__doc__, HERE / "results", seeds=range(3), needs_data=False)
    add = parser.add_argument
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    add("--cache", default=str(HERE / "cache"), help="folder of the set as numbers")
    add("--pack", action="store_true", help="read Multi30k from --data into --cache, and end")
    add("--small", action="store_true", help="networks of a size that a CPU trains in half an hour, without trials")
    add("--eager", action="store_true", help="do not make CUDA graphs of steps")
    add("--steps", type=int, help="of training; by default those of the tables")
    add("--tokens", type=int, help="of a batch; by default those of the tables")
    add(
        "--trials",
        nargs="*",
        choices=KINDS,
        help="kinds to try settings with first, if any; by default those of the rows",
    )
    add("--most", type=int, help="steps of settings that rows take from trials; by default any")
    add("--pairs", type=int, help="of each part at most, for a trial of the script")
    return parser.parse_args()


def main() -> int:
    """Do all that has no row yet."""
    options = parse()
    if options.pack:
        for size in SIZES:
            for form in ("lower", "cased"):
                pack(options.data, options.cache, size, form, options.pairs)
        return 0
    part = {"steps": options.steps, "tokens": options.tokens, "pairs": options.pairs, "small": options.small}
    place = Place(options.cache, str(options.results), options.device, not options.eager, most=options.most, **part)
    files = Files(options.results)
    progress = Progress(list_jobs(options, files), files, options.seconds)
    for job, result in work_through(progress.jobs, partial(do, place=place), options.workers, progress.can_begin):
        progress.note(job, result)
    print(f"{progress.count} rows done, {progress.failed} failed or not begun: {options.results}")
    return 1 if progress.failed else 0


if __name__ == "__main__":
    sys.exit(main())
