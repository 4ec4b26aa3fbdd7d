"""Mixtures fitted to many weighted maps at once, beside a loop over scikit-learn; and what their cost grows with.

Writes ``results/mixtures_cpu.csv`` and ``results/mixtures_cpu.md``. Needs ``pip install omegamax[bench]``.

    python benchmarks/bench_mixtures.py
"""

from __future__ import annotations

import math
import warnings

import _runner
import numpy as np
import torch
from rich.progress import Progress
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from omegamax.basis import grid_positions
from omegamax.mixtures import Mixture, select_components, weighted_em

MAPS, SIDE, COMPONENTS, RESTARTS, ITERATIONS = 256, 14, 4, 3, 10
LOOPED = 16  # maps that scikit-learn is timed on; its time is that of a map times MAPS
# Points drawn for each map, and how scikit-learn starts.
SETTINGS = {
    "scikit-learn, 196 points": (196, "k-means++"),
    "scikit-learn, 1000 points": (1000, "k-means++"),
    "scikit-learn, 1000 points, k-means": (1000, "kmeans"),
}
FLOOR = 1 / (12 * SIDE**2)  # the variance of a cell, the same for all
ROUNDS = 9  # of which the fastest counts: the machine may have other work


def maps(count: int, side: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions ``[L, 2]`` and weights ``[count, L]``: one to four ellipses each, and a twentieth spread anywhere."""
    g = torch.Generator().manual_seed(0)

    def uniform(low: float, high: float, *shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.float64).uniform_(low, high, generator=g)

    x = grid_positions((side, side), dtype=torch.float64)
    centre, deviation = uniform(0.1, 0.9, count, 4, 2), uniform(-3, -1.8, count, 4, 2).exp()
    angle = uniform(0, math.pi, count, 4)
    axes = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()], -1).unflatten(-1, (2, 2))
    offset = (x[:, None, :] - centre[:, None]).unsqueeze(-2) @ axes.unsqueeze(1) / deviation[:, None, :, None]
    bumps = (-0.5 * offset.square().sum((-1, -2))).exp()
    used = torch.arange(4) < torch.randint(1, 5, (count, 1), generator=g)
    weights = (bumps * (uniform(0.5, 1.5, count, 4) * used)[:, None]).sum(-1)
    noise = uniform(0, 1, count, side * side)
    return x, 0.95 * weights / weights.sum(-1, keepdim=True) + 0.05 * noise / noise.sum(-1, keepdim=True)


def drawn(x: torch.Tensor, weights: torch.Tensor, points: int) -> list[np.ndarray]:
    """For each map, points in the numbers that its weights ask for (scikit-learn takes no weights)."""
    generator = np.random.default_rng(0)
    return [x.numpy()[generator.choice(len(x), points, p=w)] for w in weights.numpy()]


def looped(samples: list[np.ndarray], k: int, start: str) -> list[GaussianMixture]:
    settings = {"init_params": start, "n_init": RESTARTS, "max_iter": ITERATIONS, "reg_covar": FLOOR}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [GaussianMixture(k, random_state=0, **settings).fit(each) for each in samples]


def chosen(samples: list[np.ndarray], sizes: list[float], start: str) -> list[GaussianMixture]:
    """The best of all numbers of components for each map, by BIC with the same sizes as ours: 1 / sum w^2 points."""
    tried = [looped(samples, k, start) for k in range(1, COMPONENTS + 1)]
    best = []
    for each, m, fits in zip(samples, sizes, zip(*tried, strict=True), strict=True):
        scores = [-2 * m * fit.score(each) + (6 * k - 1) * math.log(m) for k, fit in enumerate(fits, 1)]
        best.append(fits[int(np.argmin(scores))])
    return best


def likelihood(x: torch.Tensor, weights: torch.Tensor, fits: list[GaussianMixture]) -> torch.Tensor:
    """Of the weights themselves, per map."""
    scores = torch.stack([torch.from_numpy(fit.score_samples(x.numpy())) for fit in fits])
    return (weights * scores).sum(-1)


def against() -> list[dict]:
    """Every K on its own, then the choice among them."""
    x, weights = maps(MAPS, SIDE)
    few = weights[:LOOPED]
    sizes = (1 / few.square().sum(-1)).tolist()
    samples = {name: drawn(x, few, points) for name, (points, _) in SETTINGS.items()}
    rows = []
    for k in [*range(1, COMPONENTS + 1), None]:

        def ours(k: int | None = k) -> Mixture:
            same = {"init": "kmeans++", "floor": FLOOR, "generator": torch.Generator().manual_seed(0)}
            if k is None:
                return select_components(x, weights, COMPONENTS, None, RESTARTS, iterations=ITERATIONS, **same)
            return weighted_em(x, weights, k, ITERATIONS, restarts=RESTARTS, **same)

        def theirs(name: str, k: int | None = k) -> list[GaussianMixture]:
            start = SETTINGS[name][1]
            with threadpool_limits(1):
                return chosen(samples[name], sizes, start) if k is None else looped(samples[name], k, start)

        runs = {"omegamax": ours} | {name: (lambda name=name, f=theirs: f(name)) for name in SETTINGS}
        times = _runner.interleave(runs, ROUNDS, 1, patience=2.5)
        p = ours()
        fitted = (weights * p.log_prob(x[:, None]).T).sum(-1)[:LOOPED]
        for name in runs:
            share, value, count = 1.0, fitted, p.component_count[:LOOPED].double().mean().item()
            if name != "omegamax":
                fits = theirs(name)
                share, value = MAPS / LOOPED, likelihood(x, few, fits)
                count = sum(fit.n_components for fit in fits) / LOOPED
            rows.append(
                {
                    "what": f"K = {k}" if k else f"K chosen from 1 to {COMPONENTS}",
                    "rival": name,
                    "ms": round(min(times[name]) * share * 1e3, 1),
                    "over_omegamax": round(min(times[name]) / min(times["omegamax"]) * share, 1),
                    "likelihood": round(value.mean().item(), 4),
                    "components": round(count, 2),
                    "no_better": int((value <= fitted + 1e-3).sum()),
                }
            )
    return rows


def scaling() -> list[dict]:
    """One thing grows, the others stay as in the race; float32, from weights to the mixture, and back."""
    cases = [("maps", m, (m, SIDE, COMPONENTS)) for m in (64, 256, 1024)]
    cases += [("positions", s * s, (64, s, COMPONENTS)) for s in (14, 28, 56)]
    cases += [("components", k, (MAPS, SIDE, k)) for k in (2, 4, 8)]
    rows = []
    for what, value, (count, side, k) in cases:
        x, weights = maps(count, side)
        leaf = weights.float().requires_grad_()
        runs = {
            "forward": lambda x=x, w=leaf, k=k: weighted_em(x.float(), w.detach(), k, ITERATIONS),
            "both": lambda x=x, w=leaf, k=k: weighted_em(x.float(), w, k, ITERATIONS).mean.sum().backward(),
        }
        times = _runner.interleave(runs, ROUNDS, 1, patience=2.0)
        rows.append(
            {
                "what": what,
                "value": value,
                "ms": round(min(times["forward"]) * 1e3, 1),
                "ms_both_ways": round(min(times["both"]) * 1e3, 1),
            }
        )
    return rows


def table(rows: list[dict]) -> str:
    """Markdown: the race, then the growth."""
    lines = [
        f"{_runner.machine()}. {MAPS} weighted maps of {SIDE} x {SIDE} positions, one to four ellipses in each; "
        f"{RESTARTS} starts (k-means++ unless said), at most {ITERATIONS} iterations, float64, rivals taking turns, "
        f"the fastest of {ROUNDS} rounds or fewer; K chosen by BIC. scikit-learn's GaussianMixture takes no weights: "
        f"it has points drawn in proportion to them, beforehand, is looped over {LOOPED} of the maps, and its time is "
        f"scaled up to {MAPS}; it has the same BIC. The variance of a cell is the "
        "least variance here, and scikit-learn's `reg_covar`. "
        f"Log-likelihood: that of the weights, per unit of weight, a mean over the {LOOPED} maps; the last column "
        "counts those of them in which scikit-learn's is no better (by more than 0.001).",
        "",
        "| | | ms | time over ours | log-likelihood | mean K | no better |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for r in rows:
        if "rival" in r:
            beaten = "" if r["rival"] == "omegamax" else f"{r['no_better']} of {LOOPED}"
            cells = (r["what"], r["rival"], r["ms"], r["over_omegamax"], f"{r['likelihood']:.4f}")
            cells += (r["components"], beaten)
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += [
        "",
        f"What the time of `weighted_em` grows with: {ITERATIONS} iterations from one start, float32, {MAPS} maps (64 "
        f"where positions grow) of {SIDE} x {SIDE} positions, {COMPONENTS} components. Microseconds are for one map, "
        "position, component and iteration: growth is linear, and what a call costs in any case is spread over more.",
        "",
        "| | | ms | ms with backward | us each |",
        "|---|---:|---:|---:|---:|",
    ]
    for r in rows:
        if "value" in r:
            size = {"maps": MAPS if r["what"] != "positions" else 64, "positions": SIDE**2, "components": COMPONENTS}
            size[r["what"]] = r["value"]
            each = r["ms"] * 1e3 / (math.prod(size.values()) * ITERATIONS)
            cells = (r["what"], r["value"], r["ms"], r["ms_both_ways"], f"{each:.4f}")
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> None:
    _runner.keep_memory()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # arrays this small gain little from more, and scikit-learn loses
    rows: list[dict] = []
    with Progress() as progress:
        task = progress.add_task("measuring", total=2)
        for part in (against, scaling):
            rows += part()
            progress.advance(task)
    columns = ("what", "rival", "value", "ms", "ms_both_ways", "over_omegamax", "likelihood", "components", "no_better")
    _runner.write_csv("mixtures_cpu", [{c: r.get(c, "") for c in columns} for r in rows])
    text = table(rows)
    (_runner.RESULTS / "mixtures_cpu.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
