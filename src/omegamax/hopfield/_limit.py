"""Memories of infinite sharpness: the nearest pattern, and nothing of the others."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from omegamax._checks import check_above, readable
from omegamax.maps import NormEntropy, Omega, Shannon, Tsallis


def check_beta(name: str, beta: float | Tensor, omega: Any) -> tuple[float | Tensor, Any]:
    r"""Refuse a sharpness that has no meaning; return the beta and the Omega to compute with.

    As beta grows, :math:`\hat p_\Omega(\beta z)` becomes the argmax, shared by ties, and
    :math:`\Omega^*(\beta z) / \beta` the maximum, for every Omega over the simplex that treats all patterns alike. That
    limit is ``Tsallis(inf)`` at ``beta = 1``.
    """
    beta = check_above(name, "beta", beta, 0.0)
    if isinstance(beta, Tensor):
        infinite = beta.detach().isinf() if readable(beta) else None
        if infinite is None or not bool(infinite.any()):
            return beta, omega
        if not bool(infinite.all()):
            raise ValueError(f"{name}: beta must be finite everywhere, or inf everywhere, got both in one tensor")
    elif beta != math.inf:
        return beta, omega
    if not isinstance(omega, (Shannon, Tsallis, NormEntropy)):
        shown = omega.name if isinstance(omega, Omega) else type(omega).__name__
        raise ValueError(f"{name}: beta = inf needs omega to be softmax, entmax or normmax (an Omega), got {shown}")
    return 1.0, Tsallis(math.inf)
