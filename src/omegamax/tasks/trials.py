"""Runs of an experiment as rows of a file: what is there is not run again."""

from __future__ import annotations

import csv
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from omegamax.tasks.csv_text import guard, unguard

Job = Mapping[str, Any]
T = TypeVar("T")
JobFunction = Callable[[Job], "Mapping[str, Any] | Iterable[Mapping[str, Any]]"]


class Trials:
    """Rows of a CSV file, told apart by the columns ``keys``.

    A job is a mapping from the keys to their values; a row has all ``columns``, those of its job among them. Text
    that a spreadsheet would take for a formula is written with a quote before it, which is gone when it is read.

        >>> import tempfile
        >>> def square(job):
        ...     return {**job, "square": job["number"] ** 2}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trials = Trials(Path(folder, "squares.csv"), columns=("number", "square"), keys=("number",))
        ...     failed = trials.run([{"number": 2}, {"number": 3}], square, say=None)
        ...     trials.rows(), trials.missing([{"number": 3}, {"number": 4}])
        ([{'number': '2', 'square': '4'}, {'number': '3', 'square': '9'}], [{'number': 4}])

    Args:
        path: The file; it need not be there yet.
        columns: Names of all columns, in their order.
        keys: Names of those that tell rows apart.
    """

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str], keys: Sequence[str]) -> None:
        self.path, self.columns, self.keys = Path(path), tuple(columns), tuple(keys)
        unknown = [name for name in self.keys if name not in self.columns]
        if unknown:
            raise ValueError(f"Trials: keys must be among the columns {list(self.columns)}, got {unknown}")

    def rows(self) -> list[dict[str, str]]:
        """Return the rows of the file, as text."""
        if not self.path.exists():
            return []
        with self.path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != self.columns:
                raise ValueError(f"Trials: {self.path} must have the columns {self.columns}, got {reader.fieldnames}")
            return [{name: unguard(cell or "") for name, cell in row.items() if name is not None} for row in reader]

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs that have no row."""
        there = {self._key(row) for row in self.rows()}
        return [job for job in jobs if self._key(job) not in there]

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows, and refuse one whose keys are there already."""
        rows, there = list(rows), {self._key(row) for row in self.rows()}
        for row in rows:
            if self._key(row) in there:
                raise ValueError(f"Trials: {self.path} has a row for {self._key(row)} already")
            if set(row) - set(self.columns):
                raise ValueError(f"Trials: a row must have the columns {self.columns}, got {tuple(row)}")
            there.add(self._key(row))
        fresh = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            if fresh:
                writer.writeheader()
            # Of line ends the writer quotes its own alone, but the reader knows the other, too.
            quoted = csv.DictWriter(file, self.columns, lineterminator="\n", quoting=csv.QUOTE_ALL)
            for row in rows:
                cells = {name: guard(value) for name, value in row.items()}
                (quoted if any("\r" in str(cell) for cell in cells.values()) else writer).writerow(cells)

    def run(
        self,
        jobs: Iterable[Job],
        work: JobFunction,
        workers: int = 1,
        say: Callable[[str], None] | None = print,
        within: float | None = None,
    ) -> list[Job]:
        """Do the jobs that have no row, several at a time, and write each row when it is done.

        One that fails does not end the others: its traceback goes to the error stream.

        Args:
            jobs: What is wanted.
            work: From a job to its row, or to several rows; with several workers a function of a module.
            workers: Processes; with one, all is done in this one.
            say: Called with a line for each job that is done.
            within: Seconds after which no further job is begun; None: all are. Those left are no failures.

        Returns:
            The jobs that failed.
        """
        left, failed, began = self.missing(jobs), [], time.perf_counter()
        for count, (job, result) in enumerate(work_through(left, work, workers, within=within), 1):
            if isinstance(result, str):
                failed.append(job)
                print(f"{_name(job)} failed\n{result}", file=sys.stderr, flush=True)
                continue
            rows = [result] if isinstance(result, Mapping) else list(result)
            self.add(rows)
            if say is not None:
                say(f"{time.perf_counter() - began:6.0f} s  {count}/{len(left)}  {_summarise(rows[0])}")
        return failed

    def _key(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in self.keys)


def work_through(
    jobs: Iterable[T],
    work: Callable[[T], Any],
    workers: int = 1,
    can_begin: Callable[[T], bool] | None = None,
    within: float | None = None,
) -> Iterator[tuple[T, Any]]:
    """Do jobs, several at a time; yield each when it is done, with its outcome or as text what went wrong.

        >>> list(work_through([1, 0], lambda number: 1 / number))[0]
        (1, 1.0)

    Args:
        jobs: in the order in which they begin.
        work: from a job to its outcome; with several workers a function of a module.
        workers: processes; with one, all is done in this one.
        can_begin: tells whether what a job needs is there; asked again whenever another is done. A job that never can
            begin has failed.
        within: seconds after which no further job is begun; None: all are. Those left are not yielded.
    """
    left, running, start = list(jobs), dict[Future[Any], T](), time.perf_counter()
    with ExitStack() as stack:
        # Fresh processes: CUDA and OpenMP do not outlive a fork.
        pool = stack.enter_context(ProcessPoolExecutor(workers, get_context("spawn"))) if workers > 1 else None
        while left or running:
            if within is not None and time.perf_counter() - start >= within:
                left = []
            ready = [job for job in left if can_begin is None or can_begin(job)][: workers - len(running)]
            left = [job for job in left if not any(job is other for other in ready)]
            if pool is None:
                yield from ((job, _attempt(work, job)) for job in ready)
            else:
                running |= {pool.submit(_attempt, work, job): job for job in ready}
            if not ready and not running:
                break
            if running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
    yield from ((job, "what it needs was not made") for job in left)


def _attempt(work: Callable[[T], Any], job: T) -> Any:
    """Return the outcome of a job, or the text of its error."""
    try:
        return work(job)
    except Exception:
        return traceback.format_exc()


def _name(job: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in job.items())


def _summarise(row: Mapping[str, Any]) -> str:
    return _name({name: f"{value:.4g}" if isinstance(value, float) else value for name, value in row.items()})
