"""One basis function under a truncated paraboloid: the five rules of the thesis (Sec. 4.3) timed beside ours.

Writes ``results/ellipses_cpu.csv`` and ``results/ellipses_cpu.md``.

    python benchmarks/bench_ellipses.py
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import _runner
import numpy as np
import torch
from numpy.typing import NDArray
from scipy import integrate, special

from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian

Array = NDArray[np.float64]
INTEGRALS, ANGLES = 100, 100
PATIENCE = 20.0  # seconds for a rule; a slow one computes fewer integrals, at least five
BOX = 5.0  # half the side of the box of the plain rule
# Table 4.1 of the thesis: seconds for an integral, on its machine.
THESIS = {"2D-Num": 25.749633, "2D-Num-Circle": 5.290754, "2D-Num-Polar": 0.247879}
THESIS |= {"1D-Num": 0.023887, "1D-Naive": 0.014022}
COLUMNS = ("rule", "seconds", "integrals", "worst_error", "thesis")
ABOUT = {
    "2D-Num": "adaptive, over a box of 10 x 10",
    "2D-Num-Circle": "adaptive, the support brought to the unit disc",
    "2D-Num-Polar": "adaptive, the same in polar coordinates",
    "1D-Num": "radius in closed form, adaptive over the angle",
    "1D-Naive": f"radius in closed form, {ANGLES} angles",
    "omegamax": "one integral a call",
    "omegamax, 6400 at once": "64 densities x 100 functions a call",
}


@dataclass(frozen=True)
class Integral:
    r"""E_p[psi] of a truncated paraboloid :math:`p(\mu + A u) = c (1 - |u|^2)_+` and :math:`\psi = N(m, S)`."""

    mu: Array
    root: Array  # A
    peak: float  # c
    centre: Array  # m
    covariance: Array  # S

    @property
    def measure(self) -> float:
        """Return the determinant of A."""
        return float(np.linalg.det(self.root))

    def psi(self, t: Array) -> float:
        """Return the basis function at a point."""
        gap = t - self.centre
        power = -0.5 * gap @ np.linalg.solve(self.covariance, gap)
        return math.exp(power) / (2 * math.pi * math.sqrt(np.linalg.det(self.covariance)))

    def at(self, u: Array) -> float:
        """Return p times psi at the point whose coordinates in the unit disc are u."""
        return self.peak * max(0.0, 1 - u @ u) * self.psi(self.mu + self.root @ u)

    def along(self, angle: float | Array) -> Array:
        r"""Return :math:`\int_0^1 c (1 - r^2) \psi(\mu + r v) r \, dr` for the ray v at each angle, in closed form."""
        v = self.root @ np.stack([np.cos(angle), np.sin(angle)])
        precision, gap = np.linalg.inv(self.covariance), self.centre - self.mu
        # Along the ray psi is a Gaussian in r of this deviation and centre, times a constant.
        curve = np.einsum("i...,ij,j...->...", v, precision, v)
        s, r0 = 1 / np.sqrt(curve), np.einsum("i...,ij,j->...", v, precision, gap) / curve
        rest = np.exp(-0.5 * gap @ precision @ gap + 0.5 * r0**2 * curve) * s * math.sqrt(2 * math.pi)
        low, high = -r0 / s, (1 - r0) / s
        bells = [np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi) for x in (low, high)]
        first = special.ndtr(high) - special.ndtr(low)
        moments = [first, r0 * first - s * (bells[1] - bells[0])]
        for k in (2, 3):  # of r^k from 0 to 1
            moments.append(r0 * moments[-1] + (k - 1) * s**2 * moments[-2] - s * bells[1])
        scale = self.peak / (2 * math.pi * math.sqrt(np.linalg.det(self.covariance)))
        return scale * rest * (moments[1] - moments[3])


def plain(integral: Integral) -> float:
    """2D-Num."""
    inverse = np.linalg.inv(integral.root)

    def f(y: float, x: float) -> float:
        return integral.at(inverse @ (np.array([x, y]) - integral.mu))

    return integrate.dblquad(f, -BOX, BOX, -BOX, BOX)[0]


def circle(integral: Integral) -> float:
    """2D-Num-Circle."""
    return integral.measure * integrate.dblquad(lambda v, u: integral.at(np.array([u, v])), -1, 1, -1, 1)[0]


def polar(integral: Integral) -> float:
    """2D-Num-Polar."""

    def f(r: float, angle: float) -> float:
        return r * integral.at(r * np.array([math.cos(angle), math.sin(angle)]))

    return integral.measure * integrate.dblquad(f, 0, 2 * math.pi, 0, 1)[0]


def one_dimension(integral: Integral) -> float:
    """1D-Num."""
    return integral.measure * integrate.quad(lambda angle: float(integral.along(angle)), 0, 2 * math.pi)[0]


def naive(integral: Integral) -> float:
    """1D-Naive: the mean over angles, of which 2 pi, which is 0 again, is left out."""
    angles = np.arange(ANGLES) * (2 * math.pi / ANGLES)
    return float(integral.measure * 2 * math.pi * integral.along(angles).mean())


def ours(integral: Integral, density: BetaGaussian, basis: GaussianRBF) -> float:
    """Return the expectation that the library computes."""
    return float(density.expect(basis))


RULES: dict[str, Callable[[Integral], float]] = {
    "2D-Num": plain,
    "2D-Num-Circle": circle,
    "2D-Num-Polar": polar,
    "1D-Num": one_dimension,
    "1D-Naive": naive,
}


def random_covariances(count: int, low: float, high: float, make: torch.Generator) -> torch.Tensor:
    """Draw covariances with deviations from ``low`` to ``high`` along axes in any direction."""
    axes = torch.linalg.qr(torch.randn(count, 2, 2, dtype=torch.float64, generator=make)).Q
    deviation = low + (high - low) * torch.rand(count, 2, dtype=torch.float64, generator=make)
    return axes @ torch.diag_embed(deviation.square()) @ axes.mT


def problems() -> tuple[list[Integral], list[BetaGaussian], list[GaussianRBF]]:
    """Draw the integrals: centres in the unit square, densities and basis functions of widths 0.05 to 0.3."""
    make = torch.Generator().manual_seed(0)
    mu, centres = (torch.rand(INTEGRALS, 2, dtype=torch.float64, generator=make) for _ in range(2))
    wide, narrow = (random_covariances(INTEGRALS, 0.05, 0.3, make) for _ in range(2))
    densities = [BetaGaussian.from_moments(mu[i], wide[i], 2.0) for i in range(INTEGRALS)]
    bases = [GaussianRBF(centres[i : i + 1], narrow[i : i + 1]) for i in range(INTEGRALS)]
    integrals = [
        Integral(
            p.loc.numpy(), p.support_tril.numpy(), math.exp(p.log_peak), basis.centers[0].numpy(), narrow[i].numpy()
        )
        for i, (p, basis) in enumerate(zip(densities, bases, strict=True))
    ]
    return integrals, densities, bases


def together() -> float:
    """Return the seconds for one of 6400 integrals at once."""
    make = torch.Generator().manual_seed(1)
    mu = torch.rand(64, 2, dtype=torch.float64, generator=make)
    density = BetaGaussian.from_moments(mu, random_covariances(64, 0.05, 0.3, make), 2.0)
    basis = GaussianRBF.grid(10, 2, variance=1e-3, dtype=torch.float64)
    times = _runner.interleave({"ours": lambda: density.expect(basis)}, 15, 3, PATIENCE)["ours"]
    return float(np.median(times)) / (64 * len(basis))


def measure() -> list[dict]:
    """Time each rule, and compare it with 1D-Num: adaptive, and its integrand is smooth and periodic."""
    integrals, densities, bases = problems()
    truth = [one_dimension(integral) for integral in integrals]
    rows = []
    for name in (*RULES, "omegamax"):
        errors, start, done = [], time.perf_counter(), 0
        for i, integral in enumerate(integrals):
            value = RULES[name](integral) if name in RULES else ours(integral, densities[i], bases[i])
            errors.append(abs(value - truth[i]))
            done = i + 1
            if done >= 5 and time.perf_counter() - start > PATIENCE:
                break
        seconds = (time.perf_counter() - start) / done
        worst = "" if name == "1D-Num" else f"{max(errors):.1e}"
        thesis = THESIS.get(name, "")
        rows.append(
            {"rule": name, "seconds": f"{seconds:.3g}", "integrals": done, "worst_error": worst, "thesis": thesis}
        )
    rows.append({"rule": "omegamax, 6400 at once", "seconds": f"{together():.3g}", "integrals": 6400})
    return rows


def table(rows: list[dict]) -> str:
    """Return the rows in Markdown."""
    lines = [
        f"{_runner.machine()}. Forward alone, float64: E_p[psi] of a truncated paraboloid p and a Gaussian bump psi in "
        f"the plane, both of random centre, width and direction; the mean of up to {INTEGRALS} integrals. Error: the "
        "largest, against 1D-Num. The last column is Table 4.1 of Farinhas (thesis, 2021), on its machine.",
        "",
        "| rule | | seconds | integrals | worst error | seconds, thesis |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = (row["rule"], ABOUT[row["rule"]], *(row.get(c, "") or "-" for c in list(row)[1:3]))
        lines.append(
            "| " + " | ".join(map(str, (*cells, row.get("worst_error") or "-", row.get("thesis") or "-"))) + " |"
        )
    return "\n".join(lines)


def main() -> None:
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", integrate.IntegrationWarning)  # of the box, which is mostly zero
        rows = measure()
    _runner.write_csv("ellipses_cpu", [{c: row.get(c, "") for c in COLUMNS} for row in rows])
    text = table(rows)
    (_runner.RESULTS / "ellipses_cpu.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
