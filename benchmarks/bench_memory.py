"""What a segment costs when much has passed: a long-term memory beside attention to a cache of everything.

Writes ``results/memory_cpu.csv`` and ``.md``, and the picture ``docs/assets/cost.png``.

    python benchmarks/bench_memory.py
"""

from __future__ import annotations

from pathlib import Path

import _runner
import torch

from omegamax import attention, viz
from omegamax.nn import LongTermMemory
from omegamax.viz.style import pyplot

DIM, HEADS, FUNCTIONS, SEGMENT = 64, 4, 64, 64
PASSED = [256 * 4**k for k in range(5)]  # vectors, 256 to 65,536
PICTURE = Path(__file__).parents[1] / "docs" / "assets" / "cost.png"
NAMES = {"memory": "memory of 64 coefficients", "softmax": "cache, softmax", "entmax15": "cache, entmax15"}


@torch.no_grad()
def make_rivals(passed: int) -> dict[str, object]:
    """Return what reads one more segment after so many vectors: an update and a look, or a look at all of them."""
    torch.manual_seed(0)
    memory = LongTermMemory(DIM, FUNCTIONS, heads=HEADS)
    state = memory.initial_state(1)
    for _ in range(min(passed // SEGMENT, 64)):  # the state is as large after any number of them
        state = memory.update(state, torch.randn(1, SEGMENT, DIM))
    hidden = torch.randn(1, SEGMENT, DIM)
    width = DIM // HEADS
    q = torch.randn(1, HEADS, SEGMENT, width)
    keys, values = (torch.randn(1, HEADS, passed, width) for _ in range(2))

    def remember() -> object:
        with torch.no_grad():
            return memory(hidden, memory.update(state, hidden))[0]

    def look(map: str) -> object:
        with torch.no_grad():
            return attention(q, keys, values, map)

    return {"memory": remember, "softmax": lambda: look("softmax"), "entmax15": lambda: look("entmax15")}


def main() -> None:
    """Time all, and write the files."""
    torch.set_num_threads(1)
    _runner.keep_memory()
    rows = []
    for passed in PASSED:
        times = _runner.interleave(make_rivals(passed), rounds=25, calls=1, patience=15.0)  # type: ignore[arg-type]
        for name, taken in times.items():
            held = FUNCTIONS * DIM if name == "memory" else 2 * passed * DIM
            rows.append(
                {
                    "passed": passed,
                    "kind": name,
                    "milliseconds": round(1e3 * min(taken), 3),
                    "kibibytes": held * 4 // 1024,
                }
            )
    path = _runner.write_csv("memory_cpu", rows)
    what = f"a segment of {SEGMENT} vectors (the least of up to 25), and KiB kept, of a layer of {DIM} features"
    lines = [f"Milliseconds of {what}."]
    lines += [f"{_runner.machine()}.", "", "| passed | " + " | ".join(NAMES.values()) + " |", "|---:|---:|---:|---:|"]
    for passed in PASSED:
        mine = {row["kind"]: row for row in rows if row["passed"] == passed}
        cells = [f"{mine[kind]['milliseconds']:.2f} ({mine[kind]['kibibytes']:,} KiB)" for kind in NAMES]
        lines.append(f"| {passed:,} | " + " | ".join(cells) + " |")
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw(rows)


def draw(rows: list[dict]) -> None:
    """Draw time and size against how much has passed."""
    colours = {"memory": viz.colour("sparsemax"), "softmax": viz.colour("softmax"), "entmax15": viz.colour("entmax15")}
    with viz.style():
        figure, axes = pyplot().subplots(1, 2, figsize=(8, 3), layout="constrained")
        for ax, column, label in zip(
            axes, ("milliseconds", "kibibytes"), ("milliseconds of a segment", "KiB that are kept"), strict=True
        ):
            for kind, name in NAMES.items():
                points = [(row["passed"], row[column]) for row in rows if row["kind"] == kind]
                ax.plot(*zip(*points, strict=True), marker="o", markersize=3, color=colours[kind], label=name)
            ax.set(xscale="log", yscale="log", xlabel="vectors that have passed", ylabel=label)
        axes[0].legend(fontsize=8)
        figure.savefig(PICTURE, dpi=110)
        pyplot().close(figure)


if __name__ == "__main__":
    main()
