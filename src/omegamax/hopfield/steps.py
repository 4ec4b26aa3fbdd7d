"""Steps of a memory: how sharp they are, and when a state is at rest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax._arguments import check_integer, check_number
from omegamax._checks import check_above, check_floating, check_mask, readable
from omegamax.maps import NormEntropy, Omega, Shannon, Tsallis, get
from omegamax.structured import Factor, StructuredOmega


class Rest(NamedTuple):
    """Where queries came to: states ``[*, D]``, steps taken ``[*]``, and whether they are at rest ``[*]``."""

    state: Tensor
    steps: Tensor
    converged: Tensor


def settle(update: Callable[[Tensor], Tensor], q: Tensor, steps: int, tol: float | None) -> Rest:
    """Apply ``update`` to each state until it moves by no more than ``tol``, at most ``steps`` times.

    A state at rest is left alone, so that what becomes of it does not depend on the others. The largest change of an
    entry counts, relative to the largest entry if that is above 1. With ``tol`` None all steps are taken, nothing is
    read off the device, and no state counts as converged.
    """
    taken = torch.zeros(q.shape[:-1], dtype=torch.long, device=q.device)
    at_rest = torch.zeros_like(taken, dtype=torch.bool)
    for _ in range(steps):
        new = update(q)
        taken = taken + ~at_rest
        if tol is None:
            q = new
            continue
        move = (new - q).detach().abs().amax(-1)
        bound = tol * new.detach().abs().amax(-1).clamp(min=1)
        q = torch.where(at_rest.unsqueeze(-1), q, new)
        at_rest = at_rest | ~(move > bound)  # also what is NaN, and will stay so
        if bool(at_rest.all()):
            break
    return Rest(q, taken, at_rest & q.detach().isfinite().all(-1))


def resolve_omega(omega: Any) -> Omega:
    """Return the Omega of a name, of a structured factor, or itself."""
    return StructuredOmega(omega) if isinstance(omega, Factor) else get(omega)


def check_steps(name: str, steps: int, tol: float | None, least: int = 0) -> int:
    """Refuse fewer steps than ``least``, and a tolerance below 0; return the steps."""
    if tol is not None:
        check_number(name, "tol", tol, least=0, finite=False)
    return check_integer(name, "steps", steps, least)


def check_patterns(name: str, patterns: Tensor, mask: Tensor | None) -> None:
    """Refuse what are not N patterns ``[*, N, D]``, and a ``mask`` that is not ``[*, N]``."""
    check_floating(name, "patterns", patterns)
    if patterns.dim() < 2 or 0 in patterns.shape[-2:]:
        raise ValueError(f"{name}: patterns must be [*, N, D] with N, D > 0, got shape {tuple(patterns.shape)}")
    if mask is not None:
        check_mask(name, patterns[..., 0], mask)


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
