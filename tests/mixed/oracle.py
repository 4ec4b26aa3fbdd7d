"""Independent densities and masses: scipy, enumeration and counting, nothing of the library."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from scipy import integrate, stats
from torch import Tensor

from omegamax import mixed


def projected_density(loc, cov, y):
    """Density of sparsemax(N(loc, cov)) at y, by scipy's quadrature along the fibre and its orthant probabilities."""
    loc, cov, y = (np.asarray(part, dtype=float) for part in (loc, cov, y))
    inside = y > 0
    size = int(inside.sum())
    own = stats.multivariate_normal(loc[inside], cov[np.ix_(inside, inside)])
    gain = cov[np.ix_(~inside, inside)] @ np.linalg.inv(cov[np.ix_(inside, inside)])
    left = cov[np.ix_(~inside, ~inside)] - gain @ cov[np.ix_(inside, ~inside)]

    def integrand(t):
        height = own.pdf(y[inside] + t)
        if size == len(y) or height < 1e-300:
            return height
        centre = loc[~inside] + gain @ (y[inside] + t - loc[inside])
        if len(centre) == 1:
            return height * stats.norm.cdf((t - centre[0]) / np.sqrt(left[0, 0]))
        return height * stats.multivariate_normal(centre, left).cdf(np.full(len(centre), t))

    middle = float(np.mean(loc[inside] - y[inside]))
    reach = 12 * float(np.sqrt(np.diag(cov).max()))
    value, _ = integrate.quad(integrand, middle - reach, middle + reach, epsabs=1e-13, epsrel=1e-11, limit=200)
    return size * value


def vertex_prob(loc, cov, i):
    """Probability that entry i leads all others by at least 1."""
    loc, cov = np.asarray(loc, dtype=float), np.asarray(cov, dtype=float)
    others = [j for j in range(len(loc)) if j != i]
    change = np.zeros((len(others), len(loc)))
    for row, j in enumerate(others):
        change[row, j], change[row, i] = 1.0, -1.0
    normal = stats.multivariate_normal(change @ loc, change @ cov @ change.T)
    return normal.cdf(np.full(len(others), -1.0))


def face_counts(y: Tensor) -> Tensor:
    """Shares of the faces among samples ``[S, K]``, in the library's order."""
    powers = 2 ** torch.arange(y.shape[-1])
    code = ((y > 0).long() * powers).sum(-1)
    counts = torch.bincount(code, minlength=2 ** y.shape[-1]).double() / len(y)
    return counts[(mixed.faces(y.shape[-1]).long() * powers).sum(-1)]


def subsets(vertices: int):
    """All non-empty subsets, as lists."""
    for size in range(1, vertices + 1):
        yield from (list(s) for s in itertools.combinations(range(vertices), size))


def covariance(vertices: int, seed: int = 0) -> Tensor:
    """A well-conditioned covariance matrix."""
    generator = torch.Generator().manual_seed(seed)
    root = 0.4 * torch.randn(vertices, vertices, dtype=torch.float64, generator=generator)
    return root @ root.T + 0.2 * torch.eye(vertices, dtype=torch.float64)


def assert_counts(shares: Tensor, probs: Tensor, samples: int) -> None:
    """Shares within five standard errors of the probabilities (and half a count)."""
    error = (probs * (1 - probs) / samples).clamp(min=0).sqrt()
    assert bool(((shares - probs).abs() <= 5 * error + 1 / samples).all()), (shares, probs)
