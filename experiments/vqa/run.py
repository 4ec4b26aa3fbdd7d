"""Train and measure: every set with every kind of attention from several seeds, several runs at a time.

    python experiments/vqa/run.py --trials                                    # rates, chosen by validation
    python experiments/vqa/run.py                                             # all tables
    python experiments/vqa/run.py --sets shapes --kinds tvmax --seeds 1       # one row
    python experiments/vqa/run.py --sets scenes --kinds softmax --seeds 0 --trainer.max_steps 100

Rows are added to ``results/<set>.csv`` as they are done, those of trials to ``results/rates.csv``; what is there is not
run again. Arguments that this script does not know go to every run, as to ``omegamax vqa fit``.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from job import (
    BLIND,
    COLUMNS,
    HERE,
    KEYS,
    MATCHED,
    NOTHING,
    SOFTMAX,
    Job,
    Place,
    Stack,
    parent,
    prepare,
    run,
    stack_jobs,
    train_jobs,
    weights_file,
)

from omegamax.tasks.experiment import Arguments
from omegamax.tasks.trials import Trials, work_through

DISCRETE = ("softmax", "sparsemax", "entmax", "tvmax", "k_subsets")
CONTINUOUS = ("continuous_softmax", "continuous_sparsemax", "continuous_entmax", "multimodal")
KINDS = (*DISCRETE, *CONTINUOUS)
LONGEST = ("multimodal", "4_mca", "2_mca", "tvmax", "continuous_sparsemax", "continuous_entmax", "continuous_softmax")
BASES = tuple(f"continuous_{a}_{b}" for a in ("sparsemax", "softmax") for b in ("49", "unpadded", "49_unpadded"))
# Ways out where a density loses the count of what it is the mean of.
WAYS = ("continuous_softmax_features", "combined_softmax", "softmax_features", "combined_multimodal")
SCALED = ("sparsemax_0.1", "sparsemax_0.2", "tvmax_0.2", "tvmax_0.1")  # factors of the scores
# Five seeds where a claim rests on it, three elsewhere.
FIVE = ("softmax", "sparsemax", "tvmax", "k_subsets", "continuous_softmax", "continuous_sparsemax", "multimodal")
FIVE += (*WAYS[:2], "sparsemax_0.1", "tvmax_0.1")
LATER = ("300", "1200")  # steps from the weights of softmax on
# What a set's tables have, by what runs begin with.
GRID: dict[str, dict[str, tuple[str, ...]]] = {
    "scenes": {
        NOTHING: (*KINDS, *SCALED, *WAYS, "2_mca", "4_mca", "multimodal_papers", BLIND),
        **{f"{SOFTMAX}-{steps}": ("softmax", "sparsemax", "tvmax", "continuous_softmax") for steps in LATER},
        **{f"{MATCHED}-{steps}": ("sparsemax", "tvmax") for steps in LATER},
        f"{SOFTMAX}-1000": (*KINDS, "2_mca", "4_mca", *BASES),
    },
    "crowds": {NOTHING: ("softmax", "sparsemax", "continuous_softmax", "continuous_sparsemax", "multimodal", "tvmax")},
    "nlvr": {NOTHING: ("softmax", "sparsemax", "tvmax", "k_subsets", "continuous_softmax", "multimodal", BLIND)},
    "easy_vqa": {"scenes": ("softmax",), NOTHING: (BLIND,), SOFTMAX: KINDS},
    "daquar": {NOTHING: ("softmax", BLIND), SOFTMAX: KINDS},
    "shapes": {"scenes": ("softmax",), NOTHING: (BLIND,), SOFTMAX: KINDS},
}
# Peak rates that are tried, and steps of a trial.
TRIED = {"scenes": ((3e-4, 5e-4, 1e-3, 2e-3), 3000), "crowds": ((5e-4, 1e-3, 2e-3), 2000)}


def rows_of(folder: Path, name: str) -> Trials:
    """Return the rows of a set, or of the trials."""
    return Trials(folder / f"{name}.csv", COLUMNS, KEYS)


def trial_jobs(options: argparse.Namespace, settings: list[str]) -> list[Job]:
    """List the trials that have no row yet: each kind with each rate."""
    found = []
    for name in (name for name in options.sets if name in TRIED):
        rates, steps = TRIED[name]
        for kind in options.kinds or KINDS:
            for rate in rates:
                given = (f"--model.rate.peak={rate}", f"--trainer.max_steps={steps}", *settings)
                found += [Job(name, kind, seed, options=given) for seed in options.seeds or (0,)]
    rows = rows_of(options.results, "rates")
    return [job for job in found if rows.missing([job.row(job.kind)])]


def table_jobs(options: argparse.Namespace, settings: list[str], place: Place) -> list[Job]:
    """List what has no row yet, and what it begins with where that is not there."""
    found: dict[Job, None] = {}
    for name in options.sets:
        rows = rows_of(options.results, name)
        for begin, kinds in GRID[name].items():
            if options.begin is not None and begin not in options.begin:
                continue
            for kind in kinds if options.kinds is None else [kind for kind in options.kinds if kind in kinds]:
                for seed in options.seeds or seeds_of(name, kind, begin):
                    job = Job(name, kind, seed, begin, tuple(settings))
                    if rows.missing(job.row(each) for each in (kind, *job.again)):
                        found |= dict.fromkeys(with_needs(job, place))
    return list(found)


def seeds_of(name: str, kind: str, begin: str) -> range:
    """Return the seeds of the tables."""
    return range(5 if name == "scenes" and begin == NOTHING and kind in FIVE else 3)


def with_needs(job: Job, place: Place) -> list[Job]:
    """List a run, after those that make what it begins with, where that is not there."""
    if job.needs is None or weights_file(job.needs, place).exists():
        return [job]
    return [*with_needs(job.needs, place), job]


def urgency(job: Job) -> tuple[int, ...]:
    """Order jobs: what is waited for comes first, then three seeds of the kinds; of each what takes long."""
    long = next((place for place, kind in enumerate(LONGEST) if job.kind.startswith(kind)), len(LONGEST))
    waited_for = job.is_trial or (job.kind == "softmax" and not job.goes_on)
    stage = 3 if job.goes_on or job.seed >= 3 else 1 if job.kind in (*FIVE, *SCALED[:3]) else 4
    return 0 if waited_for else stage, list(GRID).index(job.set), long, job.seed


def parse() -> tuple[argparse.Namespace, list[str]]:
    """Read the command line; what is not known goes to every run."""
    parser = Arguments(__doc__, HERE / "results", needs_data=False)
    parser.set_defaults(seeds=None)
    parser.add_argument("--trials", action="store_true", help="run the trials of rates, not the tables")
    parser.add_argument("--both", action="store_true", help="run the trials, then the tables")
    parser.add_argument("--readers", type=int, help="processes that make the first set; by default as --workers")
    parser.add_argument("--sets", nargs="+", choices=GRID, default=list(GRID))
    parser.add_argument("--kinds", nargs="+", help="names of files in attention; by default all of a set")
    parser.add_argument("--begin", nargs="+", help=f"{NOTHING}, {SOFTMAX}, {MATCHED} or a set; by default all")
    parser.add_argument("--cnn", default=str(HERE / "results"), help="folder of the CNNs, <set>.safetensors")
    parser.add_argument("--starts", type=Path, help="folder that keeps the networks others begin with; else made anew")
    parser.add_argument("--captured", type=Path, help="kinds whose steps are captured, as capture.py wrote them")
    parser.add_argument(
        "--stack", type=int, default=5, help="networks of a kind that are trained side by side, at most"
    )
    parser.add_argument("--quick", action="store_true", help="leave out mixtures whose steps cannot be captured")
    return parser.parse_known_args()


Work = Job | Stack | str


def do(work: Work, place: Place, options: tuple[str, ...], readers: dict[str, int]) -> list[dict[str, Any]]:
    """Make a set ready, by its name, train the networks of a stack, or measure that of a job."""
    if isinstance(work, Job):
        return run(work, place)
    if isinstance(work, Stack):
        train_jobs(work, place)
    else:
        prepare(work, place, options, readers[work])
    return []


class Progress:
    """What is made so far: sets that are ready and trained networks; and the rows written on the way."""

    def __init__(self, jobs: list[Job], place: Place, results: Path, seconds: float | None = None) -> None:
        self.jobs, self.results, self.seconds = jobs, results, seconds
        self.sets = list(dict.fromkeys(job.set for job in jobs))
        self.made: set[Job | str] = set()  # sets, and jobs whose rows are written
        self.trained = {job.needs for job in jobs if job.needs and weights_file(job.needs, place).exists()}
        self.failed: set[Job | str] = set()
        self.began, self.count = time.perf_counter(), 0

    def can_begin(self, work: Work) -> bool:
        """Tell whether all that it needs is made, and there is time to train; sets are made one after the other."""
        if isinstance(work, Job):
            return work in self.trained
        if self.seconds is not None and time.perf_counter() - self.began > self.seconds:
            return False
        if isinstance(work, Stack):
            return work.first.set in self.made and all(self._can_train(job) for job in work.jobs)
        return all(name in self.made or name in self.failed for name in self.sets[: self.sets.index(work)])

    def _can_train(self, job: Job) -> bool:
        tried = job.is_trial or all(
            other in self.made or other in self.failed
            for other in self.jobs
            if other.is_trial and other.set == job.set and parent(job.kind).startswith(other.kind)
        )
        return tried and (job.needs is None or job.needs in self.trained)

    def note(self, work: Work, result: Any) -> None:
        """Write the rows of what is done, and say so."""
        at = f"{time.perf_counter() - self.began:5.0f} s"
        if isinstance(result, str):
            self.failed |= set(work.jobs) if isinstance(work, Stack) else {work}
            print(f"{at}  {work} failed\n{result}", flush=True)
        elif isinstance(work, Stack):
            self.trained |= set(work.jobs)
            kinds = ", ".join(dict.fromkeys(job.kind for job in work.jobs))
            print(f"{at}  {work.first.set} {kinds} from {work.first.begin}: {len(work.jobs)} trained", flush=True)
        elif isinstance(work, str):
            self.made.add(work)
            print(f"{at}  {work} is made", flush=True)
        else:
            self.made.add(work)
            self._write(work, result, at)

    def _write(self, job: Job, result: list[dict[str, Any]], at: str) -> None:
        self.count += 1
        rows = rows_of(self.results, "rates" if job.is_trial else job.set)
        rows.add(rows.missing(result))
        row = result[0]
        said = f"accuracy {row['accuracy']:.3f}, {row['steps']} steps at {row['rate']:g} in {row['seconds']:.0f} s"
        name = f"{job.set} {job.kind} from {job.begin} seed {job.seed}"
        print(f"{at}  {self.count}/{len(self.jobs)}  {name}: {said}", flush=True)


def main() -> int:
    """Make sets, train what others begin with, then all that goes on from there; what can run does."""
    options, settings = parse()
    with TemporaryDirectory() as folder:
        starts = str(options.starts or Path(folder) / "starts")
        place = Place(
            options.cnn, options.data, folder, starts, options.device, str(options.captured or ""), options.quick
        )
        jobs = trial_jobs(options, settings) if options.trials or options.both else []
        jobs += [] if options.trials else table_jobs(options, settings, place)
        progress = Progress(jobs, place, options.results, options.seconds)
        # While the first set is made, nothing else can run: all processes read it.
        readers = {name: max(1, options.workers // 4) for name in progress.sets}
        readers |= dict.fromkeys(progress.sets[:1], options.readers or options.workers)
        work = partial(do, place=place, options=tuple(settings), readers=readers)
        jobs = sorted(jobs, key=urgency)
        stacks = sorted(stack_jobs(jobs, options.stack), key=lambda stack: min(urgency(job) for job in stack.jobs))
        # A trained network is measured before others are trained: rows are there as soon as they can be.
        wanted: list[Work] = [*progress.sets, *jobs, *stacks]
        for each, result in work_through(wanted, work, options.workers, progress.can_begin):
            progress.note(each, result)
    print(f"{progress.count} runs done, {len(progress.failed)} failed or not begun: {options.results}")
    return 1 if progress.failed else 0


if __name__ == "__main__":
    sys.exit(main())
