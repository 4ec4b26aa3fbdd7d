"""Where a training step of the text classifier spends its time: operations, kernels, launches, and ways to have fewer.

Writes ``results/text_profile_cpu.csv``, or with ``--device cuda`` ``results/text_profile_cuda.csv``, a row for each
attention as it is done. On a CPU the number of operations is what tells: each is a kernel on a GPU.

    python benchmarks/profile_text.py
    python benchmarks/profile_text.py --device cuda --seconds 60
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import _runner
import torch
from bench_text import KINDS, Replay, Step
from torch.profiler import ProfilerActivity, profile

COLUMNS = (
    "attention",
    "operations",
    "kernels",
    "launch_ms",
    "gpu_ms",
    "eager_ms",
    "graph_ms",
    "compiled_ms",
    "machine",
)
# Operations that compute nothing: views, and room for results.
FREE = (
    "alias as_strided as_strided_ chunk detach detach_ empty empty_like empty_strided expand is_nonzero "
    "lift_fresh narrow permute promote_types reshape _reshape_alias resize_ resolve_conj resolve_neg "
    "result_type select set_ slice split squeeze t to transpose unbind unsqueeze _unsafe_view view"
).split()


def make_step(kind: dict[str, Any], device: str, make: type[Step] = Step) -> Step:
    """Return the step of a benchmark, made once at a time."""
    step = make(kind, device)
    step.times = 1
    return step


def count(step: Step, device: str) -> dict[str, float]:
    """Count operations and kernels of a step, and sum up the time of launching and running them."""
    cuda = device == "cuda"
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA] if cuda else [ProfilerActivity.CPU]
    with profile(activities=activities) as found:
        step()
    events = list(found.events())
    names = [e for e in events if e.name.startswith("aten::")]
    leaves = [e for e in names if not any(child.name.startswith("aten::") for child in e.cpu_children)]
    row: dict[str, float] = {"operations": sum(e.name.removeprefix("aten::") not in FREE for e in leaves)}
    if cuda:
        kernels = [e for e in events if str(e.device_type).endswith("CUDA")]
        launches = [e for e in events if e.name.startswith(("cudaLaunch", "cuLaunch", "cudaMemcpy", "cudaMemset"))]
        row["kernels"] = len(kernels)
        row["launch_ms"] = round(sum(e.cpu_time_total for e in launches) / 1e3, 3)
        row["gpu_ms"] = round(sum(e.device_time_total for e in kernels) / 1e3, 3)
    return row


def clock(step: Callable[[], Any], device: str, rounds: int) -> float:
    """Return the milliseconds of a step, the median over rounds of several."""
    several = 10 if device == "cuda" else 1
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(several):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / several * 1e3)
    return round(statistics.median(times), 2)


def capture(kind: dict[str, Any], rounds: int) -> float:
    """Return the milliseconds of a step that is replayed as a CUDA graph."""
    return clock(make_step(kind, "cuda", Replay), "cuda", rounds)


def compile_attention(kind: dict[str, Any], rounds: int) -> float:
    """Return the milliseconds of a step whose attention is compiled."""
    step = make_step(kind, "cuda")
    step.task.model.attention = torch.compile(step.task.model.attention)
    for _ in range(3):
        step()
    return clock(step, "cuda", rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=300.0, help="compile nothing after so many")
    options = parser.parse_args()
    began, cuda = time.perf_counter(), options.device == "cuda"
    where = torch.cuda.get_device_name() if cuda else _runner.machine()
    rows: dict[str, dict[str, Any]] = {}

    def note(name: str, **found: Any) -> None:
        rows.setdefault(name, {"attention": name, "machine": f"{where}, torch {torch.__version__}"}).update(found)
        table = [{column: row.get(column, "") for column in COLUMNS} for row in rows.values()]
        _runner.write_csv(f"text_profile_{options.device}", table)
        print(f"{time.perf_counter() - began:4.0f} s  {name}: {found}", flush=True)

    for name, kind in KINDS.items():
        step = make_step(kind, options.device)
        for _ in range(3):
            step()
        note(name, eager_ms=clock(step, options.device, options.rounds), **count(step, options.device))
    for column, work in (("graph_ms", capture), ("compiled_ms", compile_attention)) if cuda else ():
        for name, kind in KINDS.items():
            if column == "compiled_ms" and time.perf_counter() - began > options.seconds:
                return
            try:
                note(name, **{column: work(kind, options.rounds)})
            except Exception as error:  # what cannot be captured or compiled is told, and the others are measured
                note(name, **{column: f"{type(error).__name__}: {error}".splitlines()[0][:120]})


if __name__ == "__main__":
    main()
