"""Scalar functions that stay accurate where the textbook form cancels."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor

Scalar = TypeVar("Scalar", float, Tensor)

# Taylor coefficients of psi: y^n / (n! (n + 2)). Seventeen terms leave 1e-17 at |y| = 1/2.
_PSI = [1 / (math.factorial(n) * (n + 2)) for n in range(17)]
# Taylor coefficients of rho: y^n / (n! (n + 3)). Twenty terms leave 1e-19 at |y| = 1.
_RHO = [1 / (math.factorial(n) * (n + 3)) for n in range(20)]
# Taylor coefficients of expm1(y) / y: y^n / (n + 1)!.
_PHI = [1 / math.factorial(n + 1) for n in range(17)]
# Coefficients of the series in gap and log_ratio, in powers of s^2 <= 1/49 (|y| <= 1/4).
_GAP = [1 / (2 * k + 3) for k in range(12)]
# Of log_volume: every even step in n is one log1p, exactly, and the odd one this asymptotic series. Below this |e| the
# series is taken at once, above it after _SHIFT steps of the gamma function's recurrence.
_SMALL_E = 0.1
_SHIFT = 9
_EULER = [-1, 5, -61, 1385, -50521, 2702765, -199360981, 19391512145, -2404879675441, 370371188237525]
# log Gamma(w + 3/4) - log Gamma(w + 1/4) = log(w) / 2 + sum_k _STEP[k - 1] w^(-2k); 1e-18 is left at w = 8.75.
_STEP = [-euler / (k * 4 ** (2 * k + 1)) for k, euler in enumerate(_EULER, start=1)]
_STEP_SLOPE = [2 * k * a for k, a in enumerate(_STEP, start=1)]


def working_dtype(z: Tensor) -> torch.dtype:
    """Return the dtype in which results for ``z`` are computed: its own, float32 for half precision."""
    return torch.promote_types(z.dtype, torch.float32)


def exact_dtype(device: torch.device) -> torch.dtype:
    """Return float64, where the device has it: sums of many logarithms are compared."""
    return torch.float32 if device.type == "mps" else torch.float64


def returned_dtype(z: Tensor) -> torch.dtype:
    """Return the dtype of results for ``z``: its own, but float32 for half precision under autocast."""
    if z.dtype in (torch.float16, torch.bfloat16) and is_autocast_enabled(z):
        return torch.float32
    return z.dtype


def is_autocast_enabled(z: Tensor) -> bool:
    """Tell whether autocast is on for the device of ``z``."""
    return torch.is_autocast_enabled("cuda" if z.is_cuda else z.device.type)  # whose type takes longer to ask for


def disable_autocast(device: torch.device) -> AbstractContextManager:
    """Return a context without autocast: large numbers of either sign cancel, which half precision does not survive."""
    # Not every version of torch can compile the question.
    compiling = torch.compiler.is_compiling()
    available = device.type != "meta" if compiling else torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if available else nullcontext()


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


def log_volume(e: Scalar, n: int) -> Scalar:
    r"""Return ``delta(e, n)`` for ``e > -2/n``: 0 at e = 0, otherwise with m = 1/e

    .. math:: \log \Gamma(m + 1 + n/2) - \log \Gamma(m + 1) - \tfrac n2 \log m \quad (e > 0), \qquad
              \log \Gamma(-m) - \log \Gamma(-m - n/2) - \tfrac n2 \log(-m) \quad (e < 0)

    It is minus the logarithm of the volume of ``(1 - e |x|^2 / 2)^(1/e)``, in units of the Gaussian's. The log-gamma
    functions cancel at e = 0. Nothing but arithmetic and logarithms: a float gives a float, a tensor any number of
    derivatives.

    >>> round(log_volume(1.0, 2), 6), log_volume(0.0, 3)  # log 2 for the paraboloid over a disk
    (0.693147, 0.0)
    """
    total = _half_step(e) if n % 2 else 0 * e
    for j in _steps(n):
        total = total + _log1p(j * e)
    return total


def log_volume_slope(e: Scalar, n: int) -> Scalar:
    r"""Return the derivative of :func:`log_volume` in ``e``: ``n (n + 2) / 8`` at e = 0.

    >>> log_volume_slope(1.0, 2), log_volume_slope(0.0, 4)
    (0.5, 3.0)
    """
    total = _half_step_slope(e) if n % 2 else 0 * e
    for j in _steps(n):
        total = total + j / (1 + j * e)
    return total


def log_stretch(e: Scalar, n: int) -> Scalar:
    r"""Return ``log k - (e/2) log det C`` of the ``k C`` that is the Sigma of a beta-Gaussian with the covariance C.

    >>> round(math.exp(log_stretch(1.0, 1)), 6), round(2 / 3 * 5**1.5, 6)  # eq. 4.3 of Farinhas (2021)
    (7.45356, 7.45356)
    """
    volume = log_volume(e, n) - n / 2 * math.log(2 * math.pi)
    return (1 + e * (n / 2)) * _log1p(e * (n / 2 + 1)) - e * volume


def _steps(n: int) -> list[float]:
    """Return 1, 2, ..., n/2 for even n and 3/2, 5/2, ..., n/2 for odd n."""
    return [n / 2 - k for k in range(n // 2)][::-1]


def _log1p(y: Scalar) -> Scalar:
    return torch.log1p(y) if isinstance(y, Tensor) else math.log1p(y)


def _polynomial(x: Scalar, coefficients: list[float]) -> Scalar:
    total = 0 * x + coefficients[-1]
    for a in reversed(coefficients[:-1]):
        total = total * x + a
    return total


def _half_step(e: Scalar) -> Scalar:
    """Return ``delta(e, 1)``."""
    if isinstance(e, Tensor):
        small = e.abs() < _SMALL_E
        return torch.where(small, _near_0(torch.where(small, e, 0.0)), _far_off_0(torch.where(small, 1.0, e)))
    return _near_0(e) if abs(e) < _SMALL_E else _far_off_0(e)


def _half_step_slope(e: Scalar) -> Scalar:
    if isinstance(e, Tensor):
        small = e.abs() < _SMALL_E
        return torch.where(
            small, _near_0_slope(torch.where(small, e, 0.0)), _far_off_0_slope(torch.where(small, 1.0, e))
        )
    return _near_0_slope(e) if abs(e) < _SMALL_E else _far_off_0_slope(e)


def _near_0(e: Scalar) -> Scalar:
    u = e / (1 + 0.75 * e)  # 1 / w: the series has no odd powers, and so does not know the sign of e
    return 0.5 * _log1p(0.75 * e) + u * u * _polynomial(u * u, _STEP)


def _near_0_slope(e: Scalar) -> Scalar:
    base = 1 + 0.75 * e
    u = e / base
    return 0.375 / base + u * _polynomial(u * u, _STEP_SLOPE) / (base * base)


def _far_off_0(e: Scalar) -> Scalar:
    size = abs(e)
    w = 1 / size + 0.75 * (e / size)
    shifted = w + _SHIFT
    steps: Scalar = 0 * e
    for i in range(_SHIFT):
        steps = steps + _log1p(-0.5 / (w + (i + 0.75)))
    series = _polynomial(1 / (shifted * shifted), _STEP) / (shifted * shifted)
    return 0.5 * _log1p(size * shifted - 1) + series + steps


def _far_off_0_slope(e: Scalar) -> Scalar:
    size = abs(e)
    sign = e / size
    w = 1 / size + 0.75 * sign
    shifted = w + _SHIFT
    steps: Scalar = 0 * e
    for i in range(_SHIFT):
        steps = steps + 0.5 / ((w + (i + 0.25)) * (w + (i + 0.75)))
    series = -_polynomial(1 / (shifted * shifted), _STEP_SLOPE) / (shifted * shifted * shifted)
    in_w = 0.5 / shifted + series + steps
    return sign * (0.5 / size - in_w / (size * size))


def factor_in_plane(matrix: Tensor) -> Tensor:
    """Return the Cholesky factor of 2 x 2 matrices in closed form; NaN for one that has none.

    >>> factor_in_plane(torch.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    a, b, c = matrix[..., 0, 0], matrix[..., 1, 0], matrix[..., 1, 1]
    positive = a > 0
    a, b = torch.where(positive, a, 1.0), torch.where(positive, b, 0.0)
    first = a.sqrt()
    below = b / first
    rest = c - below.square()
    positive = positive & (rest > 0)
    last = torch.where(positive, rest, 1.0).sqrt()
    factor = torch.stack([first, torch.zeros_like(first), below, last], -1).unflatten(-1, (2, 2))
    return torch.where(positive[..., None, None], factor, math.nan)
