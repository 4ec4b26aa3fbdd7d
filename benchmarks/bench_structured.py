"""How long the structured maps take on a CPU: total variation beside ``prox_tv``, the others beside ``torch.softmax``.

``prox_tv`` has no batches, no simplex and no backward pass: it is looped over the images, its results are projected
onto the simplex, and that is set against our forward and backward together. The duality gap of both is measured with
one dual, which belongs to neither. Writes ``results/structured_cpu.csv`` and ``results/structured_cpu.md``.

    python benchmarks/bench_structured.py

``prox_tv`` is the package ``prox-tv`` of PyPI, to be built with Debian's ``liblapacke-dev``; without it its rows are
left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

import _runner
import numpy as np
import torch
from rich.progress import Progress
from torch import Tensor

import omegamax
from omegamax import structured
from omegamax.structured import sparsemap

try:
    import prox_tv
except ImportError:
    prox_tv = None

GRIDS = [(512, 14), (64, 64)]  # images x side
STRENGTHS = [0.01, 0.1, 1.0]
ROWS, SIZE = 4096, 1000
ROUNDS = 9
THREADS = torch.get_num_threads()
CHECKED = 4  # images whose gap is measured
DUAL_STEPS = 4000


def both_ways(function: Callable[[Tensor], Tensor], z: Tensor, g: Tensor) -> None:
    function(z).backward(g)
    z.grad = None


def projected(x: np.ndarray) -> np.ndarray:
    """Onto the simplex, by sorting."""
    top = np.sort(x, axis=None)[::-1]
    excess = np.cumsum(top) - 1
    size = np.count_nonzero(top * np.arange(1, x.size + 1) > excess)
    return np.maximum(x - excess[size - 1] / size, 0)


def smoothed(images: np.ndarray, strength: float) -> list[np.ndarray]:
    """By prox_tv on one thread, its default and with images this small its best."""
    try:
        return [prox_tv.tv1_2d(image, strength) for image in images]
    finally:
        torch.set_num_threads(THREADS)  # it has set the number for everyone


def looped(images: np.ndarray, strength: float) -> list[np.ndarray]:
    return [projected(image) for image in smoothed(images, strength)]


def objective(w: Tensor, x: Tensor, strength: float) -> Tensor:
    """``1/2 |w - x|^2 + strength TV(w)``, ``[B, H, W] -> [B]``."""
    variation = w.diff(dim=-1).abs().sum((-2, -1)) + w.diff(dim=-2).abs().sum((-2, -1))
    return (w - x).square().sum((-2, -1)) / 2 + strength * variation


def dual_bound(x: Tensor, strength: float) -> Tensor:
    """A lower bound of the objective by accelerated gradient ascent on the dual with restarts, ``[B, H, W] -> [B]``."""
    right, down = torch.zeros_like(x[..., 1:]), torch.zeros_like(x[..., 1:, :])
    ahead, t = (right, down), 1.0
    best = before = torch.full(x.shape[:1], -torch.inf, dtype=x.dtype)
    for step in range(1, DUAL_STEPS + 1):
        w = x - divergence(*ahead)
        new = tuple((a + w.diff(dim=d) / 8).clamp(-strength, strength) for a, d in zip(ahead, (-1, -2), strict=True))
        value = (x.square() - (x - divergence(*new)).square()).sum((-2, -1)) / 2
        fell = bool((value < best).all())
        best = torch.maximum(best, value)
        t, last = (1.0, 1.0) if fell else ((1 + (1 + 4 * t * t) ** 0.5) / 2, t)
        ahead = tuple(n + (last - 1) / t * (n - o) for n, o in zip(new, (right, down), strict=True))
        right, down = new
        if step % 100 == 0:
            if torch.equal(best, before):
                break
            before = best
    return best


def divergence(right: Tensor, down: Tensor) -> Tensor:
    """The transpose of the differences along both axes."""
    pad = torch.nn.functional.pad
    return pad(right, (1, 0)) - pad(right, (0, 1)) + pad(down, (0, 0, 1, 0)) - pad(down, (0, 0, 0, 1))


def images(count: int, side: int, strength: float) -> list[dict]:
    """tvmax, forward and backward, beside the loop."""
    z = torch.randn(count, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(side))
    g = torch.randn_like(z)
    tvmax = partial(omegamax.tvmax, strength=strength)
    leaf, single = z.clone().requires_grad_(), z.float().requires_grad_()
    runs = {
        "omegamax tvmax, float32": partial(both_ways, tvmax, single, g.float()),
        "omegamax tvmax, float64": partial(both_ways, tvmax, leaf, g),
    }
    if prox_tv is not None:
        runs["prox_tv in a loop, forward only"] = partial(looped, z.numpy(), strength)
    times = _runner.interleave(runs, ROUNDS, 1, patience=6.0)
    few = z[:CHECKED]
    bound = dual_bound(few, strength)
    solutions = {
        "omegamax tvmax, float32": omegamax.tv_prox_2d(few.float(), strength).double(),
        "omegamax tvmax, float64": omegamax.tv_prox_2d(few, strength),
    }
    if prox_tv is not None:
        theirs = np.stack(smoothed(few.numpy(), strength))
        solutions["prox_tv in a loop, forward only"] = torch.from_numpy(theirs)
    ours = times["omegamax tvmax, float64"]
    return [
        {
            "what": f"{count} images of {side} x {side}, strength {strength:g}",
            "rival": name,
            "ms": round(statistics.median(times[name]) * 1e3, 2),
            "over": round(_runner.ratio(times[name], ours), 2),
            "gap": f"{(objective(solutions[name], few, strength) - bound).max().item():.1e}",
        }
        for name in runs
    ]


def rows() -> list[dict]:
    """Maps of rows, over softmax: forward / forward and backward."""
    z = torch.randn(ROWS, SIZE)
    leaf, g = z.clone().requires_grad_(), torch.randn_like(z)
    maps = {
        "torch.softmax": lambda z: torch.softmax(z, -1),
        "fusedmax(1)": lambda z: omegamax.fusedmax(z, 1.0),
        "fusedmax(0.1)": lambda z: omegamax.fusedmax(z, 0.1),
        "k_subsets(4)": lambda z: omegamax.k_subsets(z, 4),
        "oscarmax(0.001)": lambda z: omegamax.oscarmax(z, 0.001),
        "constrained_softmax(0.01)": lambda z: omegamax.constrained_softmax(z, 0.01),
        "constrained_sparsemax(0.01)": lambda z: omegamax.constrained_sparsemax(z, 0.01),
    }
    found = []
    for way in ("forward", "forward and backward"):
        runs = {n: partial(f, z) if way == "forward" else partial(both_ways, f, leaf, g) for n, f in maps.items()}
        times = _runner.interleave(runs, ROUNDS, 1, patience=3.0)
        found += [
            {
                "what": f"{ROWS} x {SIZE}, float32, {way}",
                "rival": name,
                "ms": round(statistics.median(times[name]) * 1e3, 2),
                "over": round(_runner.ratio(times[name], times["torch.softmax"]), 2),
                "target": {"fusedmax(1)": 40, "fusedmax(0.1)": 40, "k_subsets(4)": 3}.get(name, ""),
            }
            for name in maps
        ]
    return found


def structures() -> list[dict]:
    """SparseMAP of standard normal scores, over softmax of as many."""
    edges = torch.combinations(torch.arange(30)).T
    factors = {
        "SequentialSubsets(5, 0.5), 128 x 50": ((128, 50), structured.SequentialSubsets(5, 0.5)),
        "Subsets(5), 128 x 50": ((128, 50), structured.Subsets(5)),
        "Sequence, 64 x (30 x 10)": ((64, 30, 10), structured.Sequence(transition=torch.eye(10))),
        "Matching, 64 x (20 x 20)": ((64, 20, 20), structured.Matching()),
        "DependencyTree, 32 x 30 words": ((32, 30, 30), structured.DependencyTree()),
        "DependencyTree, projective, 32 x 30 words": ((32, 30, 30), structured.DependencyTree(projective=True)),
        "SpanningTree, 32 x 30 nodes, all edges": ((32, edges.shape[1]), structured.SpanningTree(edges)),
    }
    found = []
    for name, (shape, factor) in factors.items():
        solve = partial(sparsemap, factor=factor)
        z = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        leaf, g = z.clone().requires_grad_(), torch.randn_like(z)
        runs = {
            "forward": partial(solve, z),
            "both": partial(both_ways, solve, leaf, g),
            "softmax": partial(both_ways, lambda z: torch.softmax(z, -1), leaf, g),
        }
        times = _runner.interleave(runs, ROUNDS, 1, patience=4.0)
        found.append(
            {
                "what": name,
                "ms": round(statistics.median(times["forward"]) * 1e3, 2),
                "ms_both_ways": round(statistics.median(times["both"]) * 1e3, 2),
                "over": round(_runner.ratio(times["both"], times["softmax"]), 1),
            }
        )
    return found


def table(found: list[dict]) -> str:
    """Markdown: images, rows, structures."""
    lines = [
        f"{_runner.machine()}. Standard normal scores, rivals taking turns, median of {ROUNDS} rounds or fewer.",
        "",
        "Total variation on images, forward and backward. `prox_tv` (defaults, one thread: with two it is a hundred "
        "times slower on images this small) has neither batches nor a backward pass: it is looped over the images, "
        "followed by a projection onto the simplex. The gap is that of the "
        f"proximal operator, the largest of {CHECKED} images.",
        "",
        "| | | ms | time over ours in float64 | duality gap |",
        "|---|---|---:|---:|---:|",
    ]
    lines += [_line(r, ("what", "rival", "ms", "over", "gap")) for r in found if "gap" in r]
    lines += [
        "",
        "Rows. Time over `torch.softmax` in the same round; a star marks a target missed: 40 for fusedmax, 3 for "
        "k_subsets.",
        "",
        "| | | ms | over softmax |",
        "|---|---|---:|---:|",
    ]
    for r in found:
        if "target" in r:
            star = "*" if r["target"] != "" and r["over"] > r["target"] else ""
            lines.append(_line({**r, "over": f"{r['over']}{star}"}, ("what", "rival", "ms", "over")))
    lines += [
        "",
        "SparseMAP, float32 scores (solved in float64). Time over forward and backward of `torch.softmax` of as many "
        "scores.",
        "",
        "| | ms, forward | ms, forward and backward | over softmax |",
        "|---|---:|---:|---:|",
    ]
    lines += [_line(r, ("what", "ms", "ms_both_ways", "over")) for r in found if "ms_both_ways" in r]
    return "\n".join(lines)


def _line(row: dict, columns: tuple[str, ...]) -> str:
    return "| " + " | ".join(str(row[c]) for c in columns) + " |"


def main() -> None:
    _runner.keep_memory()
    torch.manual_seed(0)
    parts = [partial(images, *grid, strength) for grid in GRIDS for strength in STRENGTHS] + [rows, structures]
    found: list[dict] = []
    with Progress() as progress:
        for part in progress.track(parts, description="measuring"):
            found += part()
    columns = ("what", "rival", "ms", "ms_both_ways", "over", "gap", "target")
    _runner.write_csv("structured_cpu", [{c: r.get(c, "") for c in columns} for r in found])
    text = table(found)
    (_runner.RESULTS / "structured_cpu.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
