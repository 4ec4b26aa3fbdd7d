"""Train and measure: every set with every attention from several seeds, several networks at a time.

    python experiments/text/run.py --pack                                     # read the sets once, into --cache
    python experiments/text/run.py                                            # trials, then all that has no row yet
    python experiments/text/run.py --sets imdb --kinds softmax --seeds 1 --results /tmp/again      # one row
    python experiments/text/tables.py                                         # the tables of README.md

Rows are added to ``results/*.csv`` as they are done; what is there is not run again. Settings are chosen by validation
of networks with softmax (``results/trials.csv``), as the paper does.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from human import HUMAN_COLUMNS, HUMAN_KEYS
from job import (
    ALPHA_COLUMNS,
    ALPHA_KEYS,
    COLUMNS,
    CONTINUOUS,
    HERE,
    KEYS,
    KINDS,
    LANGUAGE_MODEL,
    LM_FILE,
    RIGHT_COLUMNS,
    SHORT,
    TRANSFORMERS,
    TRIAL_COLUMNS,
    TRIAL_KEYS,
    TRIED_FUNCTIONS,
    Place,
    Settings,
    grid,
    prepare_start,
    run,
    try_out,
)
from sets import HUMAN, SETS, folds_of, pack, pack_vectors

from omegamax.tasks.experiment import Arguments
from omegamax.tasks.trials import Trials, work_through

Work = dict[str, Any]
START = {"what": "start"}


class Files:
    """The files of rows in a folder."""

    def __init__(self, folder: Path) -> None:
        self.trials = Trials(folder / "trials.csv", TRIAL_COLUMNS, TRIAL_KEYS)
        self.runs = Trials(folder / "runs.csv", COLUMNS, KEYS)
        self.right = Trials(folder / "right.csv", RIGHT_COLUMNS, KEYS)
        self.alphas = Trials(folder / "alphas.csv", ALPHA_COLUMNS, ALPHA_KEYS)
        self.human = Trials(folder / "human.csv", HUMAN_COLUMNS, HUMAN_KEYS)

    def add(self, result: dict[str, Any]) -> dict[str, Any]:
        """Write what came of a job; return its row."""
        if "trial" in result:
            self.trials.add([result["trial"]])
            return result["trial"]
        for name in ("right", "alphas", "human"):
            file: Trials = getattr(self, name)
            file.add(file.missing(result.get(name, [])))
        self.runs.add([result["run"]])  # last: with this row the job is done
        return result["run"]


def tried_kind(name: str, kind: str) -> str:
    """Return the kind whose trials a kind has its settings from: on IMDB its own, of one number of basis functions."""
    if kind in TRANSFORMERS:
        return "transformer"
    if name != "imdb":
        return "softmax"
    return f"{kind.rpartition('_')[0]}_{TRIED_FUNCTIONS}" if kind in CONTINUOUS else kind


def choose(rows: list[dict[str, str]], name: str, kind: str) -> Settings:
    """Return the settings with the best validation, by accuracy, then by loss; the default ones without trials."""
    own = [row for row in rows if (row["set"], row["kind"]) == (name, tried_kind(name, kind))]
    best = max(own, key=lambda row: (float(row["val_accuracy"]), -float(row["val_loss"])), default=None)
    return Settings() if best is None else Settings.of(best)


def kinds_of(name: str, asked: list[str] | None) -> list[str]:
    """List the attentions of a set's table."""
    every = [*KINDS] if name == "imdb" else [*SHORT]
    return every if asked is None else [kind for kind in asked if kind in every]


def list_jobs(options: argparse.Namespace, files: Files) -> list[Work]:
    """List what has no row yet, in the order of its worth: trials, then all kinds of one seed after the other."""
    trials: list[Work] = []
    runs: list[Work] = []
    for seed in options.seeds:
        for name in options.sets:
            wanted = [{"set": name, "kind": kind, "seed": seed} for kind in kinds_of(name, options.kinds)]
            runs += [{"what": "run", **job} for job in files.runs.missing(wanted)]
    for name in () if options.chosen else dict.fromkeys(job["set"] for job in runs):
        for kind in dict.fromkeys(tried_kind(name, job["kind"]) for job in runs if job["set"] == name):
            wanted = [{"set": name, "kind": kind, **settings.columns} for settings in grid(name, kind)]
            trials += [{"what": "trial", **job} for job in files.trials.missing(wanted)]
    # What others wait for first, and of that what takes longest.
    trials.sort(key=lambda job: (job["set"] != "imdb", job["kind"] not in CONTINUOUS))
    rows = files.trials.rows()
    chosen = [choose(rows, job["set"], job["kind"]).start for job in runs]
    needs = LANGUAGE_MODEL in (*chosen, *(job["start"] for job in trials))
    return [*([START] if needs and "imdb" in options.sets else []), *trials, *([] if options.trials else runs)]


class Progress:
    """What is done so far, and what can begin."""

    def __init__(self, jobs: list[Work], files: Files, place: Place, seconds: float | None) -> None:
        self.jobs, self.files, self.place, self.seconds = jobs, files, place, seconds
        self.began, self.count, self.failed = time.perf_counter(), 0, 0
        self.waits: dict[tuple[str, str], int] = {}
        for job in jobs:
            if job["what"] == "trial":
                self.waits[job["set"], job["kind"]] = self.waits.get((job["set"], job["kind"]), 0) + 1

    def can_begin(self, job: Work) -> bool:
        """Tell whether trials, and the weights to start from, are there, and time is left."""
        if self.seconds is not None and time.perf_counter() - self.began > self.seconds:
            return False
        there = Path(self.place.cache, LM_FILE).exists()
        if job["what"] == "trial":
            return there or job["start"] != LANGUAGE_MODEL
        if job["what"] == "run" and not there:
            rows = self.files.trials.rows()
            if choose(rows, job["set"], job["kind"]).start == LANGUAGE_MODEL:
                return False
        if job["what"] == "run":
            return self.waits.get((job["set"], tried_kind(job["set"], job["kind"])), 0) == 0
        return True

    def note(self, job: Work, result: Any) -> None:
        """Write what came of a job, and say so."""
        at = f"{time.perf_counter() - self.began:5.0f} s"
        if job["what"] == "trial":
            self.waits[job["set"], job["kind"]] -= 1  # one that failed is not waited for
        if isinstance(result, str):
            self.failed += 1
            if job["what"] == "start":  # nor is what needs it
                for other in self.jobs:
                    if other["what"] == "trial" and other["start"] == LANGUAGE_MODEL:
                        self.waits[other["set"], other["kind"]] -= 1
            print(f"{at}  {job} failed\n{result}", flush=True)
        elif job["what"] == "start":
            print(f"{at}  language model in {result:.0f} s", flush=True)
        else:
            self.count += 1
            row = self.files.add(result)
            names = ("set", "kind", "seed", "start", "rate", "dropout", "freeze", "val_accuracy", "accuracy", "seconds")
            print(f"{at}  {self.count}/{len(self.jobs)} ", *(f"{k} {row[k]}" for k in names if k in row), flush=True)


def do(job: Work, place: Place, results: Path) -> Any:
    """Do one job."""
    if job["what"] == "start":
        return prepare_start(place)
    if job["what"] == "trial":
        return try_out(job, place)
    settings = choose(Files(results).trials.rows(), job["set"], job["kind"])
    return run({**job, **settings.columns}, place)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = Arguments(__doc__, HERE / "results", seeds=range(3), needs_data=False)
    add = parser.add_argument
    add("--sets", nargs="+", choices=SETS, default=list(SETS))
    add("--kinds", nargs="+", choices=[*KINDS, *TRANSFORMERS], help="by default all of a set")
    add("--cache", default=str(HERE / "cache"), help="folder of the sets as numbers")
    add("--trials", action="store_true", help="validate settings, and end")
    add("--chosen", action="store_true", help="make no trials: settings are those of the trials that are there")
    add("--pack", action="store_true", help="read the sets from --data into --cache, and end")
    add("--half", action="store_true", help="half precision on a GPU")
    add("--texts", type=int, help="of each part at most, for a trial of the script")
    add("--epochs", type=int, help="at most; by default those of the tables")
    return parser.parse_args()


def pack_all(options: argparse.Namespace) -> int:
    """Read all sets, once."""
    for name in (*SETS, *HUMAN):
        for fold in dict.fromkeys(folds_of(name, seed) for seed in options.seeds):
            pack(options.data, options.cache, name, fold)
    pack_vectors(options.cache)
    return 0


def main() -> int:
    """Do all that has no row yet."""
    options = parse()
    if options.pack:
        return pack_all(options)
    place = Place(options.cache, options.device, options.half, options.texts, options.epochs)
    files = Files(options.results)
    progress = Progress(list_jobs(options, files), files, place, options.seconds)
    work = partial(do, place=place, results=options.results)
    for job, result in work_through(progress.jobs, work, options.workers, progress.can_begin):
        progress.note(job, result)
    print(f"{progress.count} rows done, {progress.failed} failed or not begun: {options.results}")
    return 1 if progress.failed else 0


if __name__ == "__main__":
    sys.exit(main())
