"""Many small jobs on one GPU at once: promises to check, and kernels to compile before anything is timed.

A job that leaves the GPU unusable to its process costs that process only: another takes over.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import queue
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from on_gpu.sheet import Sheet, said

FINISHED = ".finished"


@dataclass(frozen=True)
class Job:
    """``module.function(sheet, *arguments)``; its rows belong to ``section``."""

    section: str
    module: str
    function: str
    arguments: tuple = ()

    @property
    def title(self) -> str:
        return f"{self.function} {' '.join(map(str, self.arguments))}".strip()

    def __call__(self, folder: Path) -> None:
        sheet = Sheet(folder / f"{self.section}-{os.getpid()}.csv", section=self.section)
        run = getattr(importlib.import_module(self.module), self.function)
        try:
            run(sheet, *self.arguments)
        except Exception as problem:
            sheet.add(work=self.title, name="omegamax", ok="no", note=said(problem))


def work_through(jobs: Iterable[Job], folder: Path, workers: int, seconds: float, say: Callable[[str], None]) -> None:
    """All jobs by so many processes, as long as there is time; their rows go to files in ``folder``."""
    context = multiprocessing.get_context("spawn")
    waiting = context.Queue()
    jobs = list(jobs)
    for index, job in enumerate(jobs):
        waiting.put((index, job))
    running = [_start(context, waiting, folder) for _ in range(min(workers, len(jobs)))]
    end = time.monotonic() + seconds
    while running and time.monotonic() < end:
        time.sleep(0.2)
        lost = [p for p in running if p.exitcode not in (None, 0)]
        running = [p for p in running if p.exitcode is None]
        for process in lost:
            say(f"a process ended with status {process.exitcode}; another takes over")
            running.append(_start(context, waiting, folder))
    for process in running:
        process.kill()
    for index, job in enumerate(jobs):
        if not (folder / f"{index}{FINISHED}").exists():
            say(f"not finished: {job.title}")
            sheet = Sheet(folder / f"{job.section}-unfinished.csv", section=job.section)
            sheet.add(work=job.title, name="omegamax", ok="no", note="not finished: out of time, or its process ended")


def _start(context, waiting, folder: Path):
    process = context.Process(target=_serve, args=(waiting, folder), daemon=True)
    process.start()
    return process


def _serve(waiting, folder: Path) -> None:
    torch.set_num_threads(1)
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # there are as many processes as processors
    while True:
        try:
            index, job = waiting.get(timeout=1)
        except queue.Empty:
            return
        job(folder)
        (folder / f"{index}{FINISHED}").touch()
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # raises if the GPU no longer answers, which ends this process
            torch.cuda.empty_cache()
