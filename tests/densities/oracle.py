"""The beta-Gaussian from the raw formulas, to many digits, and integrals over it: independent of the library."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import torch
from scipy import integrate
from torch import Tensor

F64 = torch.float64


def threshold(alpha: mpmath.mpf, n: int, log_det: float) -> mpmath.mpf:
    """tau of ``[(alpha - 1)(f - tau)]^(1/(alpha - 1))``: from the ellipsoid's volume or the Student-t's constant."""
    a, det = mpmath.mpf(alpha), mpmath.e ** mpmath.mpf(log_det)
    if a > 1:
        m = 1 / (a - 1)
        volume = mpmath.gamma(n / mpmath.mpf(2) + m + 1) / (mpmath.gamma(m + 1) * mpmath.pi ** (mpmath.mpf(n) / 2))
        radius = (volume * (2 / (a - 1)) ** m) ** ((a - 1) / (2 + (a - 1) * n))
        return -(radius**2) / 2 * det ** (-1 / (n + 2 * m))
    kappa = 1 / (1 - a)
    nu = 2 * kappa - n
    constant = (1 - a) ** -kappa * (2 * mpmath.pi) ** (mpmath.mpf(n) / 2) * mpmath.sqrt(det)
    return (constant * mpmath.gamma(nu / 2) / mpmath.gamma(kappa)) ** (2 / nu)


def log_density(alpha: mpmath.mpf, n: int, log_det: float, q: float) -> mpmath.mpf:
    """At the squared Mahalanobis distance q."""
    a = mpmath.mpf(alpha)
    if a == 1:
        return -(n * mpmath.log(2 * mpmath.pi) + log_det + q) / 2
    base = (a - 1) * (-threshold(a, n, log_det) - mpmath.mpf(q) / 2)
    return mpmath.log(base) / (a - 1) if base > 0 else mpmath.mpf("-inf")


def slope(f: Callable[[mpmath.mpf], mpmath.mpf], alpha: float, step: str = "1e-12") -> mpmath.mpf:
    """A central difference, at the working precision of mpmath."""
    h = mpmath.mpf(step)
    return (f(mpmath.mpf(alpha) + h) - f(mpmath.mpf(alpha) - h)) / (2 * h)


def radial(density, h: Callable[[float, float], float], radius: float) -> float:
    """The integral of ``h(q, p) p`` for one density: along a ray, by symmetry, with scipy's adaptive rule.

    ``h`` sees the squared Mahalanobis distance and the density.
    """
    n = density.event_shape[0]
    scale = density.scale.detach().numpy()
    ray = np.linalg.cholesky(scale) @ np.ones(n) / math.sqrt(n)
    sphere = 2 * math.pi ** (n / 2) / math.gamma(n / 2) * math.sqrt(np.linalg.det(scale))

    def integrand(r: float) -> float:
        p = density.prob(density.loc + torch.as_tensor(r * ray)).item()
        return sphere * r ** (n - 1) * p * h(r * r, p) if p > 0 else 0.0

    return integrate.quad(integrand, 0, radius, epsabs=1e-12, epsrel=1e-12, limit=400)[0]


def spd(n: int, *batch: int, seed: int = 0) -> Tensor:
    """Random well-conditioned covariance matrices."""
    a = torch.randn(*batch, n, n, dtype=F64, generator=torch.Generator().manual_seed(seed))
    return a @ a.mT / n + 0.5 * torch.eye(n, dtype=F64)
