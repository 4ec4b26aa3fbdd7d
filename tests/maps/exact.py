"""The defining equations solved in high precision."""

from __future__ import annotations

import mpmath
import torch
from torch import Tensor

DIGITS = 50


def entmax(z: Tensor, alpha: float) -> list[mpmath.mpf]:
    """Sum of [1 + e (z - l)]_+^(1/e) = 1 by bisection on l, e = alpha - 1, then on a fixed support."""
    with mpmath.workdps(DIGITS):
        scores = [mpmath.mpf(x) for x in z.tolist()]
        e = mpmath.mpf(alpha) - 1

        def probabilities(shift):
            if e == 0:
                return [mpmath.exp(x - shift) for x in scores]
            bases = [1 + e * (x - shift) for x in scores]
            return [b ** (1 / e) if b > 0 else mpmath.mpf(0) for b in bases]

        low, high = max(scores), max(scores)
        while mpmath.fsum(probabilities(high)) > 1:
            high += 1
        for _ in range(200):
            middle = (low + high) / 2
            if mpmath.fsum(probabilities(middle)) > 1:
                low = middle
            else:
                high = middle
        return probabilities((low + high) / 2)


def normmax(z: Tensor, alpha: float) -> list[mpmath.mpf]:
    """Sum of [z - tau]_+^(a / (a - 1)) = 1 by bisection on tau; p is proportional to [z - tau]_+^(1 / (a - 1))."""
    with mpmath.workdps(DIGITS):
        scores = [mpmath.mpf(x) for x in z.tolist()]
        a = mpmath.mpf(alpha)
        low, high = max(scores) - 1, max(scores)
        for _ in range(200):
            middle = (low + high) / 2
            mass = mpmath.fsum((x - middle) ** (a / (a - 1)) for x in scores if x > middle)
            low, high = (middle, high) if mass > 1 else (low, middle)
        tau = (low + high) / 2
        parts = [(x - tau) ** (1 / (a - 1)) if x > tau else mpmath.mpf(0) for x in scores]
        total = mpmath.fsum(parts)
        return [x / total for x in parts]


def as_tensor(values: list[mpmath.mpf]) -> Tensor:
    return torch.tensor([float(v) for v in values], dtype=torch.float64)


def slope(solve, z: Tensor, alpha: float) -> Tensor:
    """d solve(z, alpha) / d alpha by a central difference that keeps about thirty digits."""
    with mpmath.workdps(DIGITS):
        h = mpmath.mpf(10) ** -14
        above, below = solve(z, mpmath.mpf(alpha) + h), solve(z, mpmath.mpf(alpha) - h)
        return as_tensor([(a - b) / (2 * h) for a, b in zip(above, below, strict=True)])
