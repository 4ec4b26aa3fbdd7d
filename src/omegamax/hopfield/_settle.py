"""Steps until a state is at rest, each query for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax._arguments import is_integer, is_number


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


def check_steps(name: str, steps: int, tol: float | None) -> None:
    """Refuse a number of steps that is not whole and >= 0, and a tolerance below 0."""
    if not is_integer(steps) or steps < 0:
        raise ValueError(f"{name}: steps must be a whole number >= 0, got {steps!r}")
    if tol is not None and (not is_number(tol) or not tol >= 0):
        raise ValueError(f"{name}: tol must be a number >= 0, or None for all steps, got {tol!r}")
