"""Scalar functions that stay accurate where the textbook form cancels."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

# Taylor coefficients of psi: y^n / (n! (n + 2)). Seventeen terms leave 1e-17 at |y| = 1/2.
_PSI = [1 / (math.factorial(n) * (n + 2)) for n in range(17)]
# Taylor coefficients of rho: y^n / (n! (n + 3)). Twenty terms leave 1e-19 at |y| = 1.
_RHO = [1 / (math.factorial(n) * (n + 3)) for n in range(20)]
# Taylor coefficients of expm1(y) / y: y^n / (n + 1)!.
_PHI = [1 / math.factorial(n + 1) for n in range(17)]
# Coefficients of the series in gap and log_ratio, in powers of s^2 <= 1/49 (|y| <= 1/4).
_GAP = [1 / (2 * k + 3) for k in range(12)]


def working_dtype(z: Tensor) -> torch.dtype:
    """Return the dtype in which results for ``z`` are computed: its own, float32 for half precision."""
    return torch.promote_types(z.dtype, torch.float32)


def returned_dtype(z: Tensor) -> torch.dtype:
    """Return the dtype of results for ``z``: its own, but float32 for half precision under autocast."""
    if z.dtype in (torch.float16, torch.bfloat16) and torch.is_autocast_enabled(z.device.type):
        return torch.float32
    return z.dtype


def disable_autocast(device: torch.device) -> AbstractContextManager:
    """Return a context without autocast: large numbers of either sign cancel, which half precision does not survive."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def _series_or(y: Tensor, coefficients: list[float], direct, reach: float = 0.5) -> Tensor:
    small = y.abs() < reach
    # Each branch sees only arguments it can digest, so that neither sends a NaN back through the other.
    inner = torch.where(small, y, 0.0)
    series = torch.full_like(inner, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        series = series * inner + c
    return torch.where(small, series, direct(torch.where(small, 1.0, y)))


def psi(y: Tensor) -> Tensor:
    r"""Compute ``(exp(y)(y - 1) + 1) / y^2``, the integral of ``t exp(ty)`` over [0, 1]; 1/2 at zero."""
    return _series_or(y, _PSI, lambda y: (y.exp() * (y - 1) + 1) / y.square())


def rho(y: Tensor) -> Tensor:
    r"""Compute ``(exp(y)((y - 1)^2 + 1) - 2) / y^3``, the integral of ``t^2 exp(ty)`` over [0, 1]; 1/3 at zero."""
    return _series_or(y, _RHO, lambda y: (y.exp() * ((y - 1).square() + 1) - 2) / y.pow(3), reach=1.0)


def phi(y: Tensor) -> Tensor:
    r"""Compute ``expm1(y) / y``, the integral of ``exp(ty)`` over [0, 1]; 1 at zero."""
    return _series_or(y, _PHI, lambda y: y.expm1() / y)


def summable(scores: Tensor) -> Tensor:
    """Cut float64 scores at 1e290, so that no sum of them overflows into -inf; what is infinite or NaN stays so."""
    return torch.where(scores.isfinite(), scores.clamp(-1e290, 1e290), scores)


def on_support(p: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``(p > 0, p with its zeros replaced by ones)``: powers and logarithms are then never taken at zero."""
    support = p > 0
    return support, torch.where(support, p, 1.0)


def tsallis_log(p: Tensor, alpha: float | Tensor) -> Tensor:
    r"""Compute the deformed logarithm ``(p^e - 1) / e`` at ``e = alpha - 1``; at zero too if it is finite, else 0.

    At ``p = 0`` it is ``-1/e`` for alpha > 1, which is the slope of ``p (p^e - 1) / e`` there, and ``-inf`` otherwise.
    """
    support, safe = on_support(p)
    log_p = safe.log()
    e = alpha - 1
    if isinstance(e, Tensor):
        at_zero = torch.where(e > 0, -1 / torch.where(e > 0, e, 1.0), 0.0)
        return torch.where(support, log_p * phi(e * log_p), at_zero)
    inside = log_p if e == 0 else (e * log_p).expm1() / e
    return torch.where(support, inside, -1 / e if e > 0 else 0.0)


def tsallis_log_alpha(p: Tensor, alpha: float | Tensor) -> Tensor:
    r"""Compute ``-d/de [(p^e - 1) / e]`` at ``e = alpha - 1`` on the support, 0 off it; 0 at infinite alpha.

    Raising alpha by ``h`` moves entmax as adding ``h`` times this to its scores would.
    """
    support, safe = on_support(p)
    log_p = safe.log()
    if not isinstance(alpha, Tensor):
        alpha = log_p.new_tensor(alpha)
    kept = support & ~alpha.isinf()
    return torch.where(kept, -log_p.square() * psi(torch.where(kept, alpha - 1, 0.0) * log_p), 0.0)


def gap(y: Tensor) -> Tensor:
    r"""Return ``(y - log1p(y)) / y^2`` for ``y > -1``: 1/2 at zero, and accurate there, derivatives too."""
    small = y.abs() < 0.25
    outer = torch.where(small, 1.0, y)
    return torch.where(small, _gap_series(torch.where(small, y, 0.0)), (outer - outer.log1p()) / outer.square())


def log_ratio(y: Tensor) -> Tensor:
    r"""Return ``log1p(y) / y`` for ``y > -1``: 1 at zero, and accurate there, derivatives too."""
    small = y.abs() < 0.25
    inner, outer = torch.where(small, y, 0.0), torch.where(small, 1.0, y)
    return torch.where(small, 1 - inner * _gap_series(inner), outer.log1p() / outer)


def _gap_series(y: Tensor) -> Tensor:
    s = y / (2 + y)  # log1p(y) = 2 artanh(s)
    square = s.square()
    total = torch.full_like(square, _GAP[-1])
    for c in reversed(_GAP[:-1]):
        total = total * square + c
    return 1 / (2 + y) - 2 * s / (2 + y).square() * total
