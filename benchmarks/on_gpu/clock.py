"""Time and memory of rivals on a GPU, taking turns, each with a cold L2 cache.

The GPU and the processor have a clock each. Before a reading the GPU is kept busy until the call has been issued, so
that its time is what it does, not what it waits for; the processor's time to issue the call is read beside it. A
program takes about the larger of the two, each summed over all that it calls.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import _runner
import torch

from on_gpu.sheet import said

Run = Callable[[], object]
Name = Hashable
FLUSH = 256 * 2**20  # bytes written before each reading; more than the L2 cache of any GPU
ROUNDS = 5  # of calls back to back
LONGEST_WAIT = 20.0  # milliseconds that the GPU waits for the processor before a reading


@dataclass
class Reading:
    """Milliseconds of one rival, and its time over the baseline's; NaN where it did not run, for the reason noted."""

    ms: float = float("nan")  # of the GPU
    over: float = float("nan")
    call_ms: float = float("nan")  # of the processor
    call_over: float = float("nan")
    note: str = ""


class Clock:
    """Readings of rivals, by CUDA events on a stream of its own; by the processor's clock where there is no GPU.

    Args:
        seconds: for one group of rivals, roughly.
        rounds: fewest and most readings of each. A rival that used up its share after the fewest sits out the rest.
    """

    def __init__(self, device: str = "cuda", seconds: float = 0.4, rounds: tuple[int, int] = (5, 60)):
        self.on_gpu = device == "cuda"
        self.seconds, self.rounds = seconds, rounds
        if self.on_gpu:
            self.stream = torch.cuda.Stream()
            self.cache = torch.empty(FLUSH, dtype=torch.int8, device=device)
            self.cycles = self._cycles_per_millisecond()

    def compare(self, rivals: dict[Name, Run], baseline: Name) -> dict[Name, Reading]:
        """One reading for each rival."""
        readings = {name: Reading() for name in rivals}
        if not self.on_gpu:
            self._compare(rivals, readings, baseline)
            return readings
        # Backward passes run on the stream of their forward pass: all is done on one.
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._compare(rivals, readings, baseline)
        torch.cuda.synchronize()
        return readings

    def _compare(self, rivals: dict[Name, Run], readings: dict[Name, Reading], baseline: Name) -> None:
        expected: dict[Name, tuple[float, float]] = {}
        for name, run in rivals.items():
            try:
                for _ in range(2):  # the first call compiles
                    run()
                expected[name] = self._reading(run, LONGEST_WAIT)
            except Exception as problem:
                self._recover(problem)
                readings[name].note = said(problem)
        fewest, most = self.rounds
        share = 1e3 * self.seconds / max(len(expected), 1)
        rounds = {name: max(fewest, min(most, int(share / max(*both, 1e-3)))) for name, both in expected.items()}
        if baseline in rounds:
            rounds[baseline] = max(rounds.values())
        taken: dict[Name, list[tuple[float, float]]] = {name: [] for name in expected}
        for turn in range(max(rounds.values(), default=0)):
            for name, (_, call) in expected.items():
                if turn < rounds[name]:
                    taken[name].append(self._reading(rivals[name], min(2 * call, LONGEST_WAIT)))
        times = {name: tuple(zip(*several, strict=True)) for name, several in taken.items()}
        for name, (gpu, call) in times.items():
            reading = readings[name]
            reading.ms, reading.call_ms = statistics.median(gpu), statistics.median(call)
            if baseline in times:
                reading.over = _runner.ratio(gpu, times[baseline][0])
                reading.call_over = _runner.ratio(call, times[baseline][1])

    def _reading(self, run: Run, wait: float) -> tuple[float, float]:
        """Milliseconds of the GPU and of the processor for one call, for which the GPU waits so many milliseconds."""
        if not self.on_gpu:
            start = time.perf_counter()
            run()
            taken = 1e3 * (time.perf_counter() - start)
            return taken, taken
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        self.cache.zero_()
        torch.cuda._sleep(int(self.cycles * wait))
        begin.record()
        start = time.perf_counter()
        run()
        call = 1e3 * (time.perf_counter() - start)
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end), call

    def _cycles_per_millisecond(self) -> float:
        cycles = 10_000_000
        for _ in range(2):  # the first wakes the GPU up
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            torch.cuda._sleep(cycles)
            end.record()
            torch.cuda.synchronize()
        return cycles / begin.elapsed_time(end)

    def _recover(self, problem: Exception) -> None:
        """After a failure others may go on, unless the GPU itself no longer answers."""
        if isinstance(problem, torch.cuda.OutOfMemoryError):
            torch.cuda.empty_cache()
        if self.on_gpu:
            torch.cuda.synchronize()


def back_to_back(rivals: dict[Name, Run], baseline: Name, seconds: float, device: str) -> dict[Name, Reading]:
    """One reading for each rival, called again and again without a wait, as a program calls it; rivals take turns.

    A call takes what the GPU or the processor takes, whichever is more. ``ms`` is the median over rounds.
    """
    readings = {name: Reading() for name in rivals}
    calls: dict[Name, int] = {}
    for name, run in rivals.items():
        try:
            run()  # compiles
            once = _elapsed(run, 2, device) / 2
            calls[name] = max(1, min(200, int(1e3 * seconds / (ROUNDS * len(rivals)) / max(once, 1e-3))))
        except Exception as problem:
            readings[name].note = said(problem)
    taken: dict[Name, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, count in calls.items():
            taken[name].append(_elapsed(rivals[name], count, device) / count)
    for name, several in taken.items():
        readings[name].ms = statistics.median(several)
        if baseline in taken:
            readings[name].over = readings[name].ms / statistics.median(taken[baseline])
    return readings


def _elapsed(run: Run, count: int, device: str) -> float:
    """Milliseconds until so many calls have been made and all they began is done."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        run()
    if device == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def peak_mebibytes(run: Run) -> float:
    """GPU memory that a call needs at its peak, beyond what is held before it and what it returns.

    Results and gradients have to be somewhere whoever computes them. NaN without a GPU.
    """
    if not torch.cuda.is_available():
        return float("nan")
    run()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    held = run()
    torch.cuda.synchronize()
    results = held if isinstance(held, tuple) else (held,)
    given = sum(x.nbytes for x in results if isinstance(x, torch.Tensor))
    return (torch.cuda.max_memory_allocated() - before - given) / 2**20
