"""Sums over the last axis that an alpha is learnt by, in plain torch, with derivatives of every order."""

from __future__ import annotations

import math
from typing import overload

import torch
from torch import Tensor

from omegamax._numerics import tsallis_log, tsallis_log_alpha

Alpha = float | Tensor  # a tensor has size 1 along the last axis, or no axis


def power_sum(p: Tensor, alpha: Alpha) -> Tensor:
    """Return ``sum_i p_i^alpha``."""
    return p.pow(alpha).sum(-1)


def tsallis(p: Tensor, alpha: Alpha) -> Tensor:
    """Return the negative Tsallis entropy, ``(sum_i p_i^alpha - 1) / (alpha (alpha - 1))`` where p sums to one."""
    if isinstance(alpha, Tensor):
        flat = alpha.isinf()
        alpha = torch.where(flat, 2.0, alpha)
        return torch.where(
            squeeze_last(flat), 0.0 * p.sum(-1), (p * tsallis_log(p, alpha)).sum(-1) / squeeze_last(alpha)
        )
    if alpha == math.inf:
        return 0.0 * p.sum(-1)
    if alpha >= 1.05:  # the difference loses a factor 1 / (alpha - 1) of accuracy, and takes about half the time
        return (p.pow(alpha) - p).sum(-1) / (alpha * (alpha - 1))
    # sum p (p^e - 1) / (e alpha) with e = alpha - 1: no difference of powers, smooth through e = 0. Its slope at
    # p = 0 is infinite for alpha <= 1, and taken as 0.
    return (p * tsallis_log(p, alpha)).sum(-1) / alpha


def tsallis_in_alpha(p: Tensor, alpha: Alpha) -> Tensor:
    """Differentiate :func:`tsallis` in alpha; zero at infinity."""
    change = (p * tsallis_log_alpha(p, alpha)).sum(-1)
    return -(tsallis(p, alpha) + change) / squeeze_last(alpha)


@overload
def squeeze_last(alpha: Tensor) -> Tensor: ...


@overload
def squeeze_last(alpha: Alpha) -> Alpha: ...


def squeeze_last(alpha: Alpha) -> Alpha:
    """Return a parameter ``[*, 1]`` in the shape of the sums, ``[*]``."""
    return alpha.squeeze(-1) if isinstance(alpha, Tensor) and alpha.dim() else alpha
