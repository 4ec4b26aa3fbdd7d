"""The deformed exponential in a form that is smooth through alpha = 1, where the textbook one divides by zero."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._numerics import log_ratio


def deformed_log_power(level: Tensor, drop: Tensor, e: float | Tensor) -> Tensor:
    r"""Return ``log [c - e d]_+^(1/e)`` with ``c = exp(e level)`` and ``d = c drop``, at ``e = alpha - 1`` of any sign.

    A density :math:`\exp_{2 - \alpha}(f(t) - A)` takes this form if its logarithm is ``level`` at some point and
    the score falls from there to ``t`` by ``exp(e level) drop``. For e > 0 it is ``-inf`` from ``e drop = 1`` on,
    with zero gradient; for e < 0, ``+inf`` where the score rises beyond the pole.
    """
    reach = e * drop
    inside = ~(reach >= 1) & ~drop.isinf()  # a NaN counts as inside, and stays one
    drop = torch.where(inside, drop, 0.0)
    value = level - drop * log_ratio(-e * drop)
    return torch.where(inside, value, torch.where(reach < 0, -math.inf, _edge(e, value)))


def _edge(e: float | Tensor, like: Tensor) -> Tensor:
    """Return the logarithm where the base is negative."""
    e = e if isinstance(e, Tensor) else like.new_tensor(e)
    return torch.where(e < 0, math.inf, -math.inf)
