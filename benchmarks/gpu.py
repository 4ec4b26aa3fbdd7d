"""Everything that is promised of the GPU, checked and timed by one command, in less than ten minutes.

    python benchmarks/gpu.py                        # all of it, on the GPU at hand
    python benchmarks/gpu.py --only rows,attention  # some of it
    python benchmarks/gpu.py --only goals           # what is aimed at next, line by line, in less than eight minutes
    python benchmarks/gpu.py --scale quick          # a shorter look at everything
    python benchmarks/gpu.py --scale tiny           # a rehearsal, on the CPU if need be; its numbers mean nothing
    python benchmarks/gpu.py --tables               # the tables again, from the CSV; needs no GPU

First the contracts: every map, loss and attention against float64, on ordinary and odd input, in every precision,
while the kernels to be timed are compiled. Then the tables: time over ``torch.softmax`` or over
``scaled_dot_product_attention``, rivals taking turns in one run: cuDNN's attention, FlexAttention, and the packages
``entmax``, ``adasplash`` and ``liger-kernel`` where they are installed, which the tables say. Writes
``results/gpu-<name>.csv`` and ``.md`` and the tables in ``docs/gpu.md`` and the README. The exit status is nonzero if a
contract is broken; the tables are written all the same.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

import _runner
import torch
from on_gpu import SCALES, machine, pool, tables, warm
from on_gpu.sheet import Sheet, read

# In the order in which they run; those in TIMED have the GPU to themselves.
CONTRACTS = ("contract_rows", "contract_losses", "contract_attention")
CHECKED = (*CONTRACTS, "compilation", "models")
TIMED = ("goals", "rows", "attention", "decoding", "losses", "first", "model_speed")
DEFAULT = (*CHECKED, *TIMED[1:])  # goals have a command of their own
MODULES = {"model_speed": "models"}  # where it is not called like the section
# The most seconds that all may take, and that each may take of them.
SECONDS = 580.0
GOAL_SECONDS = 470.0  # for goals alone
LIMITS = {"checks": 260.0, "rows": 130.0, "attention": 150.0, "decoding": 60.0}
LIMITS |= {"losses": 70.0, "first": 70.0, "model_speed": 70.0, "goals": 300.0}
START = time.monotonic()


def say(line: str) -> None:
    print(f"{time.monotonic() - START:6.1f} s  {line}", flush=True)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ",".join(CHECKED + TIMED)
    words = f"some of {every}; contracts for the first three; all but goals by default"
    parser.add_argument("--only", default=",".join(DEFAULT), help=words)
    parser.add_argument("--scale", choices=SCALES, default="full", help="quick: less of it; tiny: a rehearsal")
    parser.add_argument("--tables", action="store_true", help="only write the tables, from the CSV")
    parser.add_argument("--name", help="of the GPU, in the names of the files; found out by default")
    parser.add_argument("--results", type=Path, default=_runner.RESULTS, help="folder of the CSV and the tables")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for everything; the rest is left out")
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 16), help="processes that compile")
    options = parser.parse_args(given)
    options.only = options.only.replace("contracts", ",".join(CONTRACTS)).split(",")
    if options.only == ["goals"]:
        options.seconds = min(options.seconds, GOAL_SECONDS)
    unknown = set(options.only) - set(CHECKED + TIMED)
    if unknown:
        parser.error(f"--only takes {', '.join(CHECKED + TIMED)}, got {', '.join(sorted(unknown))}")
    return options


def main(given: list[str] | None = None) -> int:
    options = arguments(given)
    if options.tables:
        path = tables.newest(options.results, options.name)
    elif not torch.cuda.is_available() and options.scale != "tiny":
        print("gpu.py: no GPU here; --tables makes the tables of an earlier run", file=sys.stderr)
        return 2
    else:
        path = run(options)
    rows = read(path)
    tables.write(path, rows, into_pages=options.results == _runner.RESULTS and options.scale == "full")
    broken = tables.broken(rows)
    for row in broken:
        say(f"BROKEN {row['section']} {row['work']} {row['shape']} {row['dtype']} {row['way']}: "
            f"error {row['error']} limit {row['limit']} {row['note']}")  # fmt: skip
    say(f"{tables.kept(rows)} contracts kept, {len(broken)} broken; {path}")
    return 1 if broken else 0


def run(options: argparse.Namespace) -> Path:
    """The CSV with all rows, put together from those of the processes."""
    name = options.name or machine.short_name()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        machine.describe(Sheet(folder / "machine-0.csv", section="machine"), options.only)
        checks(options, folder)
        for section in TIMED:
            if section in options.only:
                timed(section, options, folder)
        path = options.results / f"gpu-{name}.csv"
        parts = [row for part in sorted(folder.glob("*.csv"), key=_place) for row in read(part)]
    # Sections that were left out this time stay as they are.
    done = {"warm", *options.only}
    before = [row for row in read(path) if row["section"] not in done] if path.exists() else []
    for row in (row for row in before if row["section"] == "machine"):
        row["work"] = " ".join(section for section in row["work"].split() if section not in done)
    before = [row for row in before if row["section"] != "machine" or row["work"]]
    path.unlink(missing_ok=True)
    whole = Sheet(path)
    order = ("machine", *CHECKED, *TIMED)
    for section in order:
        mine = [row for row in [*parts, *before] if row["section"] == section]
        for row in sorted(mine, key=lambda row: row["work"]) if section in CHECKED else mine:
            whole.add(**row)
    return path


def checks(options: argparse.Namespace, folder: Path) -> None:
    """Contracts, and the kernels that will be timed, side by side."""
    jobs = []
    for section in ("models", *CHECKED[:-1]):  # what takes longest begins first
        if section in options.only:
            jobs += importlib.import_module(f"on_gpu.{section}").jobs(options.scale)
    jobs += warm.jobs(options.only, options.scale)
    say(f"checking and compiling: {len(jobs)} jobs for {options.workers} processes")
    pool.work_through(jobs, folder, options.workers, limit("checks", options), say)


def limit(section: str, options: argparse.Namespace) -> float:
    left = options.seconds - (time.monotonic() - START)
    return max(min(LIMITS[section], left), 1.0)


def timed(section: str, options: argparse.Namespace, folder: Path) -> None:
    """One section in a process of its own, which may fail or hang without harm to the others."""
    say(f"{section}:")
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_measure, args=(section, options.scale, folder))
    process.start()
    process.join(limit(section, options))
    if process.exitcode != 0:
        problem = "ran out of time" if process.exitcode is None else f"ended with status {process.exitcode}"
        process.kill()
        say(f"{section} {problem}")
        Sheet(folder / f"{section}-9.csv", section=section).add(name="omegamax", ok="no", work="all", note=problem)


def _measure(section: str, scale: str, folder: Path) -> None:
    sheet = Sheet(folder / f"{section}-0.csv", section=section)
    for line in importlib.import_module(f"on_gpu.{MODULES.get(section, section)}").measure(sheet, scale):
        print(f"          {line}", flush=True)


def _place(part: Path) -> int:
    """Rows of one process stay together, in the order in which the processes began."""
    return part.stat().st_ctime_ns


if __name__ == "__main__":
    sys.exit(main())
