"""Timing of rivals side by side, and the tables that come of it."""

from __future__ import annotations

import csv
import ctypes
import gc
import platform
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results"


SLOW = 0.2  # seconds; a call that takes longer needs no warming up


def keep_memory() -> None:
    """Ask glibc to keep freed memory, as a training loop's allocator does.

    Otherwise a call is charged, or spared, the page faults for its result depending on what the rival before it left.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        libc.mallopt(-4, 0)  # M_MMAP_MAX


def interleave(
    rivals: dict[str, Callable[[], object]],
    rounds: int,
    calls: int,
    patience: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds a call of each rival, round by round, the rivals taking turns so that drift meets them all alike.

    Each reading follows an untimed call of the same rival, so that none inherits the caches of another. A rival that
    has used up ``patience`` seconds sits out the rest, but has run at least twice.
    """
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, run in rivals.items():
            taken = times[name]
            if len(taken) >= 2 and sum(taken) * calls > patience:
                continue
            if not taken or taken[-1] < SLOW:
                run()
            start = clock()
            for _ in range(calls):
                run()
            taken.append((clock() - start) / calls)
    return times


def ratio(times: list[float], baseline: list[float]) -> float:
    """Median over the rounds of one rival's time over the baseline's in the same round."""
    return statistics.median(a / b for a, b in zip(times, baseline, strict=False))


def peak_mebibytes(run: Callable[[], object]) -> float:
    """Growth of the process's resident memory, at its peak, during a call. Linux only; NaN elsewhere."""
    try:
        run()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    except (OSError, AttributeError):
        return float("nan")
    before = _resident("VmRSS")
    held = run()
    peak = _resident("VmHWM")
    del held
    return (peak - before) / 1024


def _resident(field: str) -> int:
    match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(match.group(1)) if match else 0


def machine() -> str:
    """One line that says where numbers come from."""
    information = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", information.read_text()) if information.exists() else []
    processor = names[0] if names else platform.processor()
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{processor} ({capability}), {torch.get_num_threads()} threads, torch {torch.__version__}"


def write_csv(name: str, rows: list[dict]) -> Path:
    """Raw rows under ``results/``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_between(path: Path, marker: str, text: str) -> None:
    """Put ``text`` between ``<!-- marker:begin -->`` and ``<!-- marker:end -->`` in a file."""
    begin, end = f"<!-- {marker}:begin -->", f"<!-- {marker}:end -->"
    before, rest = path.read_text().split(begin)
    path.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")
