"""Expectations under densities: time and worst error, beside the rules in use. Attention with them, beside discrete.

Writes ``results/continuous_cpu.csv`` and ``results/continuous_cpu.md``.

    python benchmarks/bench_continuous.py
"""

from __future__ import annotations

import math
import statistics

import _integration
import _runner
import numpy as np
import torch
from rich.progress import Progress

from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian
from omegamax.nn import ContinuousAttention

DENSITIES = 64
GRIDS = {1: 100, 2: 10, 3: (4, 5, 5)}  # 100 basis functions each
VARIANCES = {1: 1e-3, 2: 1e-3, 3: 1e-2}
ALPHAS = (1.0, 1.5, 2.0)
# Pairs of a density and a basis function that the referee looks at, and its nodes along each axis.
REFEREED = {1: (6400, 300), 2: (1000, 160), 3: (100, 100)}
ROUNDS = 15


def densities(n: int, alpha: float) -> BetaGaussian:
    """Centres anywhere in the unit cube, deviations from 0.01 to 0.5 along axes in any direction; float64."""
    g = torch.Generator().manual_seed(n)
    loc = torch.rand(DENSITIES, n, dtype=torch.float64, generator=g)
    axes = torch.linalg.qr(torch.randn(DENSITIES, n, n, dtype=torch.float64, generator=g)).Q
    log_deviation = torch.empty(DENSITIES, n, dtype=torch.float64).uniform_(math.log(0.01), math.log(0.5), generator=g)
    return BetaGaussian.from_moments(loc, axes @ torch.diag_embed((2 * log_deviation).exp()) @ axes.mT, alpha)


def rules(n: int, alpha: float) -> dict:
    table = {"omegamax": lambda density, basis: density.expect(basis), "trapezoid, 1000": _integration.trapezoid}
    if n == 2 and alpha > 1:
        table["polar, 100 angles"] = _integration.polar
    return table


def expectations(n: int, alpha: float) -> list[dict]:
    density = densities(n, alpha)
    basis = GaussianRBF.grid(GRIDS[n], n, variance=VARIANCES[n], dtype=torch.float64)
    count, order = REFEREED[n]
    chosen = np.random.default_rng(0).choice(DENSITIES * len(basis), count, replace=False)
    pairs = np.stack(np.unravel_index(chosen, (DENSITIES, len(basis))), -1)
    truth = _integration.referee(density, basis, pairs, order)

    loc, scale = density.loc.clone().requires_grad_(), density.scale.clone().requires_grad_()
    g = torch.randn(DENSITIES, len(basis), dtype=torch.float64)

    def both_ways(rule):
        rule(BetaGaussian(loc, scale, alpha), basis).backward(g)
        loc.grad = scale.grad = None

    runs = {name: (lambda rule=rule: both_ways(rule)) for name, rule in rules(n, alpha).items()}
    times = _runner.interleave(runs, ROUNDS, 1, patience=20.0)
    rows = []
    for name, rule in rules(n, alpha).items():
        values = rule(density, basis).numpy()[pairs[:, 0], pairs[:, 1]]
        rows.append(
            {
                "what": f"expect, {n}-D",
                "alpha": alpha,
                "rival": name,
                "ms": round(statistics.median(times[name]) * 1e3, 2),
                "over_omegamax": round(_runner.ratio(times[name], times["omegamax"]), 2),
                "worst_error": f"{np.abs(values - truth).max():.1e}",
            }
        )
    return rows


def attention(batch: int, length: int, features: int) -> list[dict]:
    """One query for each of ``batch`` images: from discrete weights to a context and back, float32."""
    side = math.isqrt(length)
    values = torch.randn(batch, length, features, requires_grad=True)
    scores = torch.randn(batch, length, requires_grad=True)
    g = torch.randn(batch, features)
    basis = GaussianRBF.grid(10, 2, variance=1e-3)
    layers = {alpha: ContinuousAttention(basis, alpha, positions=(side, side)) for alpha in ALPHAS}

    def discrete():
        return (scores.softmax(-1).unsqueeze(-2) @ values).squeeze(-2)

    forms = {"discrete": discrete}
    forms |= {f"alpha = {alpha}": lambda f=f: f(values, scores.softmax(-1))[0] for alpha, f in layers.items()}
    return _race(f"attention, L = {length}", forms, g, (values, scores))


def repeated(queries: int, length: int, features: int) -> list[dict]:
    """Many queries to one long sequence: weights over L places, or a density over a value function fitted once."""
    values = torch.randn(length, features)
    keys, query = torch.randn(length, features), torch.randn(queries, features, requires_grad=True)
    g = torch.randn(queries, features)
    forms = {"discrete": lambda: (query @ keys.T / math.sqrt(features)).softmax(-1) @ values}
    for alpha in ALPHAS:
        basis = GaussianRBF.grid(100, 1, variance=1e-3)
        layer = ContinuousAttention(basis, alpha, query_dim=features)
        coefficients = layer.fit(values)
        forms[f"alpha = {alpha}"] = lambda f=layer, c=coefficients: f.attend(c, f.predict(query))
    return _race(f"{queries} queries, L = {length}", forms, g, (query,))


def _race(what: str, forms: dict, g: torch.Tensor, leaves: tuple) -> list[dict]:
    def both_ways(form):
        form().backward(g)
        for leaf in leaves:
            leaf.grad = None

    times = _runner.interleave({k: (lambda f=f: both_ways(f)) for k, f in forms.items()}, 2 * ROUNDS, 1, patience=20.0)
    return [
        {
            "what": what,
            "alpha": name.removeprefix("alpha = ") if name != "discrete" else "",
            "rival": name,
            "ms": round(statistics.median(times[name]) * 1e3, 2),
            "over_discrete": round(_runner.ratio(times[name], times["discrete"]), 2),
        }
        for name in forms
    ]


def table(rows: list[dict]) -> str:
    """Markdown: the expectations, then the attention."""
    lines = [
        f"{_runner.machine()}. {DENSITIES} densities of every width and direction, 100 Gaussian basis functions, "
        "forward and backward, float64, rivals taking turns. Worst error: the largest absolute one, against nested "
        "Gauss-Legendre quadrature in NumPy.",
        "",
        "| | alpha | rule | ms | time over ours | worst error |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for r in rows:
        if "worst_error" in r:
            cells = (r["what"], r["alpha"], r["rival"], r["ms"], r["over_omegamax"], r["worst_error"])
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += [
        "",
        "Attention forward and backward, float32, D = 512, J = 100: 64 grids of 14 x 14 values with one query each, "
        "matched moments; then 256 queries to one sequence of 4096 values, with keys, or with predicted densities over "
        "a value function fitted once.",
        "",
        "| | attention | ms | time over discrete |",
        "|---|---|---:|---:|",
    ]
    for r in rows:
        if "over_discrete" in r:
            lines.append("| " + " | ".join(map(str, (r["what"], r["rival"], r["ms"], r["over_discrete"]))) + " |")
    return "\n".join(lines)


def main() -> None:
    _runner.keep_memory()
    torch.manual_seed(0)
    rows: list[dict] = []
    with Progress() as progress:
        task = progress.add_task("measuring", total=len(GRIDS) * len(ALPHAS) + 2)
        for n in GRIDS:
            for alpha in ALPHAS:
                rows += expectations(n, alpha)
                progress.advance(task)
        rows += attention(batch=64, length=196, features=512)
        progress.advance(task)
        rows += repeated(queries=256, length=4096, features=512)
        progress.advance(task)
    columns = ("what", "alpha", "rival", "ms", "worst_error", "over_omegamax", "over_discrete")
    _runner.write_csv("continuous_cpu", [{c: r.get(c, "") for c in columns} for r in rows])
    text = table(rows)
    (_runner.RESULTS / "continuous_cpu.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
