"""Time and memory of rivals on a GPU, taking turns, each with a cold L2 cache."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass

import _runner
import torch

from on_gpu.sheet import said

Run = Callable[[], object]
Name = Hashable
FLUSH = 256 * 2**20  # bytes written before each reading; more than the L2 cache of any GPU
LAUNCHES_MATTER = 1.0  # milliseconds; a longer call hides what its launches cost


@dataclass
class Reading:
    """Milliseconds of one rival, and its time over the baseline's; NaN where it did not run, for the reason noted."""

    ms: float = float("nan")
    over: float = float("nan")
    graph_ms: float = float("nan")
    graph_over: float = float("nan")
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

    def compare(self, rivals: dict[Name, Run], baseline: Name, graphs: Collection[Name] = ()) -> dict[Name, Reading]:
        """One reading for each rival. ``graphs``: whose calls, if short, are also replayed from a CUDA graph."""
        readings = {name: Reading() for name in rivals}
        if not self.on_gpu:
            self._compare(rivals, readings, baseline, ("ms", "over"))
            return readings
        # Backward passes run on the stream of their forward pass: all is done on one.
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._compare(rivals, readings, baseline, ("ms", "over"))
            if graphs:
                short = {name: rivals[name] for name in graphs if readings[name].ms < LAUNCHES_MATTER}
                replays = {name: g.replay for name, run in short.items() if (g := self._captured(run)) is not None}
                if baseline in replays:
                    self._compare(replays, readings, baseline, ("graph_ms", "graph_over"))
        torch.cuda.synchronize()
        return readings

    def _compare(self, rivals: dict[Name, Run], readings: dict[Name, Reading], baseline: Name, into: tuple) -> None:
        expected: dict[Name, float] = {}
        for name, run in rivals.items():
            try:
                for _ in range(2):  # the first call compiles
                    run()
                expected[name] = self._milliseconds([self._reading(run)])[0]
            except Exception as problem:
                self._recover(problem)
                readings[name].note = said(problem)
        fewest, most = self.rounds
        share = 1e3 * self.seconds / max(len(expected), 1)
        rounds = {name: max(fewest, min(most, int(share / max(ms, 1e-3)))) for name, ms in expected.items()}
        if baseline in rounds:
            rounds[baseline] = max(rounds.values())
        taken: dict[Name, list] = {name: [] for name in expected}
        for turn in range(max(rounds.values(), default=0)):
            for name in expected:
                if turn < rounds[name]:
                    taken[name].append(self._reading(rivals[name]))
        times = {name: self._milliseconds(several) for name, several in taken.items()}
        for name, several in times.items():
            setattr(readings[name], into[0], statistics.median(several))
            if baseline in times:
                setattr(readings[name], into[1], _runner.ratio(several, times[baseline]))

    def _reading(self, run: Run):
        """One call: its events, which the GPU has yet to reach, or its seconds."""
        if not self.on_gpu:
            start = time.perf_counter()
            run()
            return time.perf_counter() - start
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.cache.zero_()
        begin.record()
        run()
        end.record()
        return begin, end

    def _milliseconds(self, taken: list) -> list[float]:
        if not self.on_gpu:
            return [1e3 * seconds for seconds in taken]
        torch.cuda.synchronize()  # only now, so that the processor could run ahead
        return [begin.elapsed_time(end) for begin, end in taken]

    def _captured(self, run: Run) -> torch.cuda.CUDAGraph | None:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                run()
        except Exception as problem:
            self._recover(problem)
            return None
        return graph

    def _recover(self, problem: Exception) -> None:
        """After a failure others may go on, unless the GPU itself no longer answers."""
        if isinstance(problem, torch.cuda.OutOfMemoryError):
            torch.cuda.empty_cache()
        if self.on_gpu:
            torch.cuda.synchronize()


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
