"""Regularisers with a penalty on the differences of entries, over that of a base map."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from omegamax._numerics import returned_dtype, working_dtype
from omegamax.maps._penalty_arguments import check_strength
from omegamax.maps.omega import Omega
from omegamax.maps.registry import get

Self = TypeVar("Self", bound="Penalised")


class Penalised(Omega):
    r"""``base(p) + strength * sum of |p_i - p_j|`` over the edges of a graph.

    A subclass says which edges there are (:meth:`penalty`) and how scores are smoothed along them
    (:meth:`smooth`). A masked entry takes its edges with it; which ones are masked, only the scores know, so that
    the value of probabilities alone counts all edges.
    """

    present: Tensor | None = None

    def __init__(self, base: str | Omega, strength: float | Tensor):
        self.base = check_base(type(self).__name__, base)
        check_strength(type(self).__name__, strength)
        self.strength = strength

    @abstractmethod
    def penalty(self, p: Tensor) -> Tensor:
        """Return the sum of ``|p_i - p_j|`` over the edges, times their weights: ``[*, K] -> [*]``."""

    @abstractmethod
    def smooth(self, z: Tensor) -> Tensor:
        """Apply the proximal operator of the penalty; the base map of the result is the map."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """Give how much of a lead of one entry over another smoothing can take, in units of ``strength``."""

    @property
    def margin(self) -> float:
        """Give that of ``base`` plus what smoothing may take off a lead: enough, though not always the least."""
        strength = float(self.strength.max()) if isinstance(self.strength, Tensor) else self.strength
        return self.base.margin + self.reach * strength

    @property
    def total(self) -> float | Tensor:
        return self.base.total

    @property
    def at_most(self) -> bool:
        """Tell whether ``base`` lets smaller sums in, so that the level of the scores counts."""
        return getattr(self.base, "at_most", False)

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        return (*self.base.parameters, self.strength)

    def with_parameters(self: Self, *parameters: float | Tensor) -> Self:
        *of_base, strength = parameters
        twin = copy.copy(self)
        twin.base, twin.strength = self.base.with_parameters(*of_base), strength
        return twin

    def within(self: Self, z: Tensor) -> Self:
        twin = copy.copy(self)
        twin.present = z != -math.inf
        return twin

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        price = self.within(z).penalty(p)
        return (*self.base.parameter_gradients(self.smooth(z), p), -price.unsqueeze(-1))

    def __call__(self, p: Tensor) -> Tensor:
        strength = self.strength
        if isinstance(strength, Tensor) and strength.dim():
            strength = strength.squeeze(-1)
        return self.base(p) + strength * self.penalty(p)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r}, strength={self.strength})"

    def _between(self, p: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Return ``|p_i - p_j|`` for the edges from ``first`` to ``second``, indices of the last axis; 0 if masked."""
        gap = (p.index_select(-1, first) - p.index_select(-1, second)).abs()
        if self.present is None:
            return gap
        both = self.present.index_select(-1, first) & self.present.index_select(-1, second)
        return torch.where(both, gap, 0.0)


def check_base(name: str, base: str | Omega) -> Omega:
    """Return the Omega of ``base``; refuse one that does not keep the order of the scores."""
    omega = get(base)
    if not getattr(omega, "keeps_order", False):
        raise ValueError(
            f"{name}: base must be a map whose probabilities are one non-decreasing function of their scores "
            f"(softmax, sparsemax, entmax, normmax, k_subsets), got {base!r}"
        )
    return omega


def subtract_top(z: Tensor, omega: Omega, *axes: int) -> Tensor:
    """Return scores less the largest, on the simplex: means of groups then lose no digits to what all scores share.

    A budget or a ceiling has entries that the largest says nothing about, and which it may be far above; and without
    a fixed sum the level of the scores counts.
    """
    total = omega.total
    whole = not isinstance(total, Tensor) and total == 1 and not hasattr(omega, "upper")
    if not whole or getattr(omega, "at_most", False) or not z.dim():
        return z
    top = z.detach().amax(axes, keepdim=True)
    return z - torch.where(top.isfinite(), top, 0.0)


def solve_in_working_dtype(z: Tensor, omega: Omega, axes: tuple[int, ...], solve: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ``solve`` in the working precision, rounded once: in float32 for half scores, kept under autocast."""
    return solve(subtract_top(z.to(working_dtype(z)), omega, *axes)).to(returned_dtype(z))
