"""Scalar functions that stay accurate where the textbook form cancels."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Taylor coefficients of psi: y^n / (n! (n + 2)). Seventeen terms leave 1e-17 at |y| = 1/2.
_PSI = [1 / (math.factorial(n) * (n + 2)) for n in range(17)]
# Taylor coefficients of expm1(y) / y: y^n / (n + 1)!.
_PHI = [1 / math.factorial(n + 1) for n in range(17)]


def _series_or(y: Tensor, coefficients: list[float], direct) -> Tensor:
    small = y.abs() < 0.5
    # Each branch sees only arguments it can digest, so that neither sends a NaN back through the other.
    inner = torch.where(small, y, 0.0)
    series = torch.full_like(inner, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        series = series * inner + c
    return torch.where(small, series, direct(torch.where(small, 1.0, y)))


def psi(y: Tensor) -> Tensor:
    r"""``(exp(y)(y - 1) + 1) / y^2``, the integral of ``t exp(ty)`` over [0, 1]; 1/2 at zero."""
    return _series_or(y, _PSI, lambda y: (y.exp() * (y - 1) + 1) / y.square())


def phi(y: Tensor) -> Tensor:
    r"""``expm1(y) / y``, the integral of ``exp(ty)`` over [0, 1]; 1 at zero."""
    return _series_or(y, _PHI, lambda y: y.expm1() / y)


def on_support(p: Tensor) -> tuple[Tensor, Tensor]:
    """``(p > 0, p with its zeros replaced by ones)``: powers and logarithms are then never taken at zero."""
    support = p > 0
    return support, torch.where(support, p, 1.0)


def tsallis_log_alpha(p: Tensor, alpha: float | Tensor) -> Tensor:
    r"""``-d/de [(p^e - 1) / e]`` at ``e = alpha - 1`` on the support, 0 off it; finite through alpha = 1.

    Raising alpha by ``h`` moves entmax as adding ``h`` times this to its scores would.
    """
    support, safe = on_support(p)
    log_p = safe.log()
    return torch.where(support, -log_p.square() * psi((alpha - 1) * log_p), 0.0)
