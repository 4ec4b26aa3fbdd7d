"""How long ``sequential_k_subsets`` takes on a CPU, beside the search over sequences that it does without where it can.

Both are SparseMAP, exact. The search is :func:`omegamax.structured.sparsemap` of ``SequentialSubsets``, which returns
structures if asked; the map first tries a relaxation, row by row. One thread, and its processor time, which others on
the machine do not change much. Writes ``results/sequences_cpu.csv`` and
``results/sequences_cpu.md``.

    python benchmarks/bench_sequences.py
"""

from __future__ import annotations

import statistics
import time
from functools import partial

import _runner
import torch
from rich.progress import Progress
from torch import Tensor

import omegamax
from omegamax.kernels.structures import solve_relaxation
from omegamax.structured import SequentialSubsets, sparsemap

# Rows, entries, k, transition; rationales choose 5, 20 or 40% of the words of a text.
SIZES = [(128, 50, 5, 0.5), (256, 200, 10, 0.1), (256, 200, 40, 0.1), (64, 200, 80, 0.1)]
SCALES = {"flat": 0.01, "nearly flat": 0.3, "normal": 1.0, "peaked": 10.0}
ROUNDS = 7
COLUMNS = ("size", "scores", "tight", "forward", "both_ways", "search_both_ways", "over")


def both_ways(function, z: Tensor, g: Tensor) -> None:
    function(z).backward(g)
    z.grad = None


def measure(rows: int, n: int, k: int, transition: float, scores: str) -> dict:
    """Time the map and the search on the same scores, forward and backward, taking turns."""
    z = SCALES[scores] * torch.randn(rows, n, generator=torch.Generator().manual_seed(0))
    leaf, g = z.clone().requires_grad_(), torch.randn_like(z)
    choose = partial(omegamax.sequential_k_subsets, k=k, transition=transition)
    runs = {
        "forward": partial(choose, z),
        "both_ways": partial(both_ways, choose, leaf, g),
        "search_both_ways": partial(both_ways, partial(sparsemap, factor=SequentialSubsets(k, transition)), leaf, g),
    }
    times = _runner.interleave(runs, ROUNDS, 1, patience=4.0, clock=time.process_time)
    pairs = torch.full((rows, n - 1), transition, dtype=torch.float64)
    return {
        "size": f"{rows} x {n}, k = {k}, transition {transition:g}",
        "scores": f"{scores}, {SCALES[scores]:g} x normal",
        "tight": f"{solve_relaxation(z.double(), pairs, k, False)[2].double().mean():.0%}",
        **{name: round(statistics.median(taken) * 1e3, 2) for name, taken in times.items()},
        "over": round(_runner.ratio(times["both_ways"], times["search_both_ways"]), 3),
    }


def table(found: list[dict]) -> str:
    lines = [
        f"{_runner.machine()}. Milliseconds of the processor, median of {ROUNDS} rounds or fewer, taking turns; "
        "float32 scores, solved in float64. Tight: the rows in which a relaxation is proved to be the solution, so "
        "that nothing is searched.",
        "",
        "| | scores | tight | forward | forward and backward | by search alone | over search |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    return "\n".join(lines + ["| " + " | ".join(str(row[c]) for c in COLUMNS) + " |" for row in found])


def main() -> None:
    _runner.keep_memory()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases = [(*size, scores) for size in SIZES for scores in SCALES]
    with Progress() as progress:
        found = [measure(*case) for case in progress.track(cases, description="measuring")]
    _runner.write_csv("sequences_cpu", found)
    text = table(found)
    (_runner.RESULTS / "sequences_cpu.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
