"""The deformed exponential in a form that is smooth through alpha = 1, where the textbook one divides by zero."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Taylor coefficients of log1p(y) / y: (-y)^n / (n + 1). Seventeen terms leave 1e-18 at |y| = 1/10.
_LAMBDA = [(-1) ** n / (n + 1) for n in range(17)]


def log1p_ratio(y: Tensor) -> Tensor:
    r"""``log1p(y) / y``; 1 at zero, with all its derivatives.

    >>> log1p_ratio(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 0.6931])
    """
    small = y.abs() < 0.1
    # Each branch sees only arguments it can digest, so that neither sends a NaN back through the other.
    inner = torch.where(small, y, 0.0)
    series = torch.full_like(inner, _LAMBDA[-1])
    for c in reversed(_LAMBDA[:-1]):
        series = series * inner + c
    outer = torch.where(small, 1.0, y)
    return torch.where(small, series, outer.log1p() / outer)


def log_deformed(level: Tensor, drop: Tensor, e: float | Tensor) -> Tensor:
    r"""``log [c - e d]_+^(1/e)`` with ``c = exp(e level)`` and ``d = c drop``, at ``e = alpha - 1`` of any sign.

    A density :math:`\exp_{2 - \alpha}(f(t) - A)` takes this form if its logarithm is ``level`` at some point and
    the score falls from there to ``t`` by ``exp(e level) drop``. For e > 0 it is ``-inf`` from ``e drop = 1`` on,
    with zero gradient; for e < 0, ``+inf`` where the score rises beyond the pole.
    """
    reach = e * drop
    inside = (reach < 1) & ~drop.isinf()
    drop = torch.where(inside, drop, 0.0)
    value = level - drop * log1p_ratio(-e * drop)
    return torch.where(inside, value, torch.where(reach < 0, -math.inf, _edge(e, value)))


def _edge(e: float | Tensor, like: Tensor) -> Tensor:
    """The logarithm where the base is negative."""
    e = e if isinstance(e, Tensor) else like.new_tensor(e)
    return torch.where(e < 0, math.inf, -math.inf)
