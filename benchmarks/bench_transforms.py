"""How long the maps take on a CPU, as a multiple of ``torch.softmax`` and beside the ``entmax`` package.

Forward, and forward with backward through autograd, float32, standard normal scores. Writes
``results/transforms_cpu.csv`` and ``results/transforms_cpu.md``, and the table in the README.

    python benchmarks/bench_transforms.py
"""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path

import _runner
import entmax as peer
import torch
from rich.progress import Progress

import omegamax

SHAPES = [(65536, 32), (16384, 197), (4096, 1000), (512, 32768), (4, 8)]  # rows x K
LARGE = (512, 32768)  # whose peak of memory is told
SMALL = 4096  # entries; a smaller tensor is called many times for one reading
BASELINE = "torch.softmax"

# map -> (ours, the entmax package's, the most it should take relative to softmax at the large shapes)
MAPS = {
    "softmax": (omegamax.softmax, None, None),
    "sparsemax": (omegamax.sparsemax, peer.sparsemax, 1.3),
    "entmax15": (omegamax.entmax15, peer.entmax15, 1.3),
    "entmax(1.25)": (lambda z: omegamax.entmax(z, 1.25), lambda z: peer.entmax_bisect(z, 1.25), 3.0),
    "entmax(1.3)": (lambda z: omegamax.entmax(z, 1.3), lambda z: peer.entmax_bisect(z, 1.3), 3.0),
    "entmax(1.75)": (lambda z: omegamax.entmax(z, 1.75), lambda z: peer.entmax_bisect(z, 1.75), 3.0),
    "normmax": (omegamax.normmax, peer.normmax_bisect, 3.0),
    "k_subsets(4)": (lambda z: omegamax.k_subsets(z, 4), lambda z: peer.budget_bisect(z, 4), 3.0),
}
TINY_TARGET = 4.0  # at 4 x 8, where calling costs more than computing


def rivals() -> dict[str, tuple]:
    """Name -> (function, target or None)."""
    table = {BASELINE: (lambda z: torch.softmax(z, -1), None)}
    for name, (ours, theirs, target) in MAPS.items():
        table[f"omegamax {name}"] = (ours, target)
        if theirs is not None:
            table[f"entmax {name}"] = (theirs, None)
    return table


def both_ways(function, z: torch.Tensor, g: torch.Tensor) -> None:
    function(z).backward(g)
    z.grad = None


def measure(shape: tuple[int, int], advance) -> list[dict]:
    torch.manual_seed(0)
    z, g = torch.randn(shape), torch.randn(shape)
    leaf = z.clone().requires_grad_()
    tiny = z.numel() < SMALL
    # With more threads torch.softmax itself takes half as long again on a small tensor, which would flatter us.
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if tiny else threads)
    calls, rounds = (300, 30) if tiny else (1, 25)
    ways = {
        "forward": {name: partial(f, z) for name, (f, _) in rivals().items()},
        "forward+backward": {name: partial(both_ways, f, leaf, g) for name, (f, _) in rivals().items()},
    }
    rows = []
    for way, runs in ways.items():
        times = _runner.interleave(runs, rounds, calls, patience=2.0)
        for name, (_, target) in rivals().items():
            quantiles = statistics.quantiles(times[name], n=5)
            rows.append(
                {
                    "rows": shape[0],
                    "K": shape[1],
                    "what": way,
                    "map": name,
                    "median_us": round(statistics.median(times[name]) * 1e6, 2),
                    "p20_us": round(quantiles[0] * 1e6, 2),
                    "p80_us": round(quantiles[3] * 1e6, 2),
                    "over_softmax": round(_runner.ratio(times[name], times[BASELINE]), 2),
                    "target": (TINY_TARGET if tiny else target) if target else "",
                    "peak_mib": "" if tiny or way != "forward" else round(_runner.peak_mebibytes(runs[name]), 1),
                }
            )
        advance()
    torch.set_num_threads(threads)
    return rows


def table(rows: list[dict]) -> str:
    """Markdown: one line for each map, ratios to softmax, forward / forward+backward; a miss is marked."""
    lines = [
        f"{_runner.machine()}, float32, standard normal scores. Time over `torch.softmax` in the same round, median of "
        "the rounds, memory warm: forward / forward+backward. Softmax itself in microseconds. A star marks a target "
        "missed: 1.3 for sparsemax and entmax15, 3 for the others, 4 at 4 x 8 (on one thread).",
        "",
        "| map | " + " | ".join(f"{n} x {k}" for n, k in SHAPES) + f" | peak memory, {LARGE[0]} x {LARGE[1]} |",
        "|---|" + "---:|" * (len(SHAPES) + 1),
    ]
    for name in rivals():
        cells = []
        for shape in SHAPES:
            mine = [r for r in rows if r["map"] == name and (r["rows"], r["K"]) == shape]
            if name == BASELINE:
                cells.append(" / ".join(f"{r['median_us']:,.1f} us" for r in mine))
            else:
                cells.append(" / ".join(_marked(r) for r in mine))
        peak = next(r["peak_mib"] for r in rows if r["map"] == name and (r["rows"], r["K"]) == LARGE)
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {peak} MiB |")
    return "\n".join(lines)


def _marked(row: dict) -> str:
    missed = row["target"] != "" and row["over_softmax"] > row["target"]
    return f"{row['over_softmax']:.2f}" + ("*" if missed else "")


def main() -> None:
    _runner.keep_memory()
    rows: list[dict] = []
    with Progress() as progress:
        task = progress.add_task("measuring", total=2 * len(SHAPES))
        for shape in SHAPES:
            rows += measure(shape, lambda: progress.advance(task))
    _runner.write_csv("transforms_cpu", rows)
    text = table(rows)
    (_runner.RESULTS / "transforms_cpu.md").write_text(text + "\n")
    _runner.write_between(Path(__file__).parents[1] / "README.md", "speed", text)
    print(text)


if __name__ == "__main__":
    main()
