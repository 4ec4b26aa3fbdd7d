"""Train and measure: every set with every kind of attention from several seeds, several runs at a time.

    python experiments/vqa/run.py                                             # all tables
    python experiments/vqa/run.py --sets shapes --kinds tvmax --seeds 1       # one row
    python experiments/vqa/run.py --sets scenes --kinds softmax --seeds 0 --trainer.max_steps 100

Rows are added to ``results/<set>.csv`` as they are done; those that are there are not run again. What this script does
not know goes to every run, as to ``omegamax vqa fit``.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from job import AGAIN, BLIND, BORROWS, COLUMNS, HERE, START, Job, Place, prepare, run, weights_file

from omegamax.tasks.csv_text import guard, unguard

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


def done(folder: Path, name: str) -> set[tuple[str, ...]]:
    """Keys of the rows that a set has."""
    path = folder / f"{name}.csv"
    if not path.exists():
        return set()
    with path.open(newline="", encoding="utf-8") as file:
        return {key({name: unguard(cell or "") for name, cell in row.items()}) for row in csv.DictReader(file)}


def key(row: dict[str, Any]) -> tuple[str, ...]:
    """What tells rows apart."""
    return tuple(str(row[name]) for name in ("set", "kind", "seed", "options"))


def add(folder: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append rows to the files of their sets."""
    for row in rows:
        path = folder / f"{row['set']}.csv"
        fresh = not path.exists()
        with path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerow({name: guard(value) for name, value in row.items()})


def attempt(work: Callable[..., Any], *arguments: Any) -> Any:
    """The outcome, or as text what went wrong: one run that fails does not end the others."""
    try:
        return work(*arguments)
    except Exception:
        return traceback.format_exc()


def jobs_left(options: argparse.Namespace, settings: list[str], place: Place) -> list[Job]:
    """What has no row yet, and the starts that it needs."""
    found: dict[Job, None] = {}
    for name in options.sets:
        there = done(options.results, name)
        for kind in (START, *GRID[name]):
            if options.kinds is not None and kind not in options.kinds:
                continue
            for seed in options.seeds:
                job = Job(name, kind, seed, tuple(settings))
                wanted = [job.key, *((name, again, *job.key[2:]) for again in AGAIN.get((name, kind), []))]
                if not there.issuperset(wanted):
                    found |= dict.fromkeys(with_needs(job, place))
    return list(found)


def with_needs(job: Job, place: Place) -> list[Job]:
    """A run, after those that make what it begins with, where that is not there."""
    if job.needs is None or weights_file(job.needs, place).exists():
        return [job]
    return [*with_needs(job.needs, place), job]


def urgency(job: Job) -> tuple[int, ...]:
    """What is waited for comes first, then what takes long."""
    long = next((place for place, kind in enumerate(LONGEST) if job.kind.startswith(kind)), len(LONGEST))
    return job.goes_on, job.kind == BLIND, job.set in BORROWS, list(GRID).index(job.set), long


def parse() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cuda = torch.cuda.is_available()
    parser.add_argument("--sets", nargs="+", choices=GRID, default=list(GRID))
    parser.add_argument("--kinds", nargs="+", help="names of files in attention; by default all of a set")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--data", default=os.environ.get("OMEGAMAX_DATA"), help="folder with the real sets")
    parser.add_argument("--cnn", default=str(HERE / "results" / "cells.safetensors"), help="CNN to start from")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the tables' rows")
    parser.add_argument(
        "--starts", type=Path, help="folder that keeps the networks all kinds start from; else made anew"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    return parser.parse_known_args()


class Work:
    """Sets are made, then starts trained, then all that goes on from them; what can run does, in several processes."""

    def __init__(self, jobs: list[Job], place: Place, results: Path, workers: int) -> None:
        self.jobs, self.place, self.results, self.workers = jobs, place, results, workers
        self.began = time.perf_counter()
        self.made: set[str] = set()
        self.trained = {job.needs for job in jobs if job.needs and weights_file(job.needs, place).exists()}
        self.failed: list[Job | str] = []
        self.count = 0

    def run(self) -> None:
        """All of it."""
        sets = list(dict.fromkeys(job.set for job in self.jobs))
        left = sorted(self.jobs, key=urgency)
        with ProcessPoolExecutor(self.workers, get_context("spawn")) as pool:
            running: dict[Future[Any], Job | str] = {}
            for _ in range(self.workers):
                pool.submit(abs, 0)  # all processes begin, and import, while the first set is made
            while True:
                if sets and not any(isinstance(what, str) for what in running.values()):
                    # One set after the other; while nothing else can run, by all processes.
                    readers, name = max(1, self.workers if not running else self.workers // 4), sets.pop(0)
                    running[pool.submit(attempt, prepare, name, self.place, self.jobs[0].options, readers)] = name
                can = [job for job in left if job.set in self.made and job.needs in {None, *self.trained}]
                for job in can[: max(0, self.workers - len(running))]:
                    left.remove(job)
                    running[pool.submit(attempt, run, job, self.place)] = job
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    self._note(running.pop(future), future.result())
        self.failed += left  # what they wait for was not made

    def _note(self, what: Job | str, result: Any) -> None:
        at = f"{time.perf_counter() - self.began:5.0f} s"
        if isinstance(result, str):
            self.failed.append(what)
            print(f"{at}  {what} failed\n{result}", flush=True)
            return
        if isinstance(what, str):
            self.made.add(what)
            print(f"{at}  {what} is made", flush=True)
            return
        self.count += 1
        if what.kind == START:
            self.trained.add(what)
        there = done(self.results, what.set)
        add(self.results, [row for row in result if key(row) not in there])
        row = result[0]
        said = f"accuracy {row['accuracy']:.3f}, {row['steps']} steps in {row['seconds']:.0f} s"
        print(f"{at}  {self.count}/{len(self.jobs)}  {what.set} {what.kind} seed {what.seed}: {said}", flush=True)


def main() -> int:
    options, settings = parse()
    options.results.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        starts = str(options.starts or Path(folder) / "starts")
        place = Place(options.cnn, options.data, folder, starts, options.device)
        jobs = jobs_left(options, settings, place)
        work = Work(jobs, place, options.results, options.workers)
        work.run()
    print(f"{work.count} runs done, {len(work.failed)} failed or not begun: {options.results}")
    return 1 if work.failed else 0


if __name__ == "__main__":
    sys.exit(main())
