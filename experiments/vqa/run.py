"""Train and measure: every set with every kind of attention from several seeds, several runs at a time.

    python experiments/vqa/run.py                                             # all tables
    python experiments/vqa/run.py --sets shapes --kinds tvmax --seeds 1       # one row
    python experiments/vqa/run.py --sets scenes --kinds softmax --seeds 0 --trainer.max_steps 100

Rows are added to ``results/<set>.csv`` as they are done; those that are there are not run again. What this script does
not know goes to every run, as to ``omegamax vqa fit``.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from job import AGAIN, BLIND, BORROWS, COLUMNS, HERE, KEYS, START, Job, Place, prepare, run, weights_file

from omegamax.tasks.experiment import Arguments
from omegamax.tasks.trials import Trials, work_through

DISCRETE = ("softmax", "sparsemax", "entmax", "tvmax", "k_subsets")
CONTINUOUS = ("continuous_softmax", "continuous_sparsemax", "continuous_entmax", "multimodal")
KINDS = (*DISCRETE, *CONTINUOUS, BLIND)
LONGEST = ("multimodal", "tvmax", "4_mca", "2_mca", "continuous_sparsemax", "continuous_entmax", "continuous_softmax")
BASES = tuple(f"continuous_{a}_{b}" for a in ("sparsemax", "softmax") for b in ("49", "unpadded", "49_unpadded"))
GRID = {
    "scenes": (*KINDS, *BASES, "2_mca", "4_mca"),
    "easy_vqa": KINDS,
    "daquar": KINDS,
    "shapes": KINDS,
}


def rows_of(folder: Path, name: str) -> Trials:
    """Return the rows of a set."""
    return Trials(folder / f"{name}.csv", COLUMNS, KEYS)


def jobs_left(options: argparse.Namespace, settings: list[str], place: Place) -> list[Job]:
    """List what has no row yet, and the starts that it needs."""
    found: dict[Job, None] = {}
    for name in options.sets:
        rows = rows_of(options.results, name)
        for kind in (START, *GRID[name]):
            if options.kinds is not None and kind not in options.kinds:
                continue
            for seed in options.seeds:
                job = Job(name, kind, seed, tuple(settings))
                if rows.missing(job.row(each) for each in (kind, *AGAIN.get((name, kind), []))):
                    found |= dict.fromkeys(with_needs(job, place))
    return list(found)


def with_needs(job: Job, place: Place) -> list[Job]:
    """List a run, after those that make what it begins with, where that is not there."""
    if job.needs is None or weights_file(job.needs, place).exists():
        return [job]
    return [*with_needs(job.needs, place), job]


def urgency(job: Job) -> tuple[int, ...]:
    """Order jobs: what is waited for comes first, then what takes long."""
    long = next((place for place, kind in enumerate(LONGEST) if job.kind.startswith(kind)), len(LONGEST))
    return job.goes_on, job.kind == BLIND, job.set in BORROWS, list(GRID).index(job.set), long


def parse() -> tuple[argparse.Namespace, list[str]]:
    """Read the command line; what is not known goes to every run."""
    parser = Arguments(__doc__, HERE / "results", needs_data=False)
    parser.add_argument("--sets", nargs="+", choices=GRID, default=list(GRID))
    parser.add_argument("--kinds", nargs="+", help="names of files in attention; by default all of a set")
    parser.add_argument("--cnn", default=str(HERE / "results" / "cells.safetensors"), help="CNN to start from")
    parser.add_argument(
        "--starts", type=Path, help="folder that keeps the networks all kinds start from; else made anew"
    )
    return parser.parse_known_args()


def do(work: Job | str, place: Place, options: tuple[str, ...], readers: dict[str, int]) -> list[dict[str, Any]]:
    """Make a set ready, by its name, or run a job."""
    if isinstance(work, Job):
        return run(work, place)
    prepare(work, place, options, readers[work])
    return []


class Progress:
    """What is made so far: sets that are ready and starts that are trained; and the rows written on the way."""

    def __init__(self, jobs: list[Job], place: Place, results: Path) -> None:
        self.jobs, self.results = jobs, results
        self.sets = list(dict.fromkeys(job.set for job in jobs))
        self.made: set[Job | str | None] = {None}
        self.made |= {job.needs for job in jobs if job.needs and weights_file(job.needs, place).exists()}
        self.failed: list[Job | str] = []
        self.began, self.count = time.perf_counter(), 0

    def can_begin(self, work: Job | str) -> bool:
        """Tell whether all that it needs is made; sets are made one after the other."""
        if isinstance(work, Job):
            return work.set in self.made and work.needs in self.made
        return all(name in self.made or name in self.failed for name in self.sets[: self.sets.index(work)])

    def note(self, work: Job | str, result: Any) -> None:
        """Write the rows of what is done, and say so."""
        at = f"{time.perf_counter() - self.began:5.0f} s"
        if isinstance(result, str):
            self.failed.append(work)
            print(f"{at}  {work} failed\n{result}", flush=True)
            return
        self.made.add(work)
        if isinstance(work, str):
            print(f"{at}  {work} is made", flush=True)
            return
        self.count += 1
        rows = rows_of(self.results, work.set)
        rows.add(rows.missing(result))
        row = result[0]
        said = f"accuracy {row['accuracy']:.3f}, {row['steps']} steps in {row['seconds']:.0f} s"
        print(f"{at}  {self.count}/{len(self.jobs)}  {work.set} {work.kind} seed {work.seed}: {said}", flush=True)


def main() -> int:
    """Make sets, train starts, then all that goes on from them; what can run does, in several processes."""
    options, settings = parse()
    with TemporaryDirectory() as folder:
        starts = str(options.starts or Path(folder) / "starts")
        place = Place(options.cnn, options.data, folder, starts, options.device)
        jobs = jobs_left(options, settings, place)
        progress = Progress(jobs, place, options.results)
        # While the first set is made, nothing else can run: all processes read it.
        readers = {name: max(1, options.workers // 4) for name in progress.sets}
        readers |= dict.fromkeys(progress.sets[:1], options.workers)
        work = partial(do, place=place, options=tuple(settings), readers=readers)
        wanted = [*progress.sets, *sorted(jobs, key=urgency)]
        for each, result in work_through(wanted, work, options.workers, progress.can_begin):
            progress.note(each, result)
    print(f"{progress.count} runs done, {len(progress.failed)} failed or not begun: {options.results}")
    return 1 if progress.failed else 0


if __name__ == "__main__":
    sys.exit(main())
