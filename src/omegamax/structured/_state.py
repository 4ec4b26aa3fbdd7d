"""Examples on their way to a solution: what factors are offered, what they answer, and how far they are apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from omegamax.structured._blocks import Local
from omegamax.structured._relaxation import Relaxation


@dataclass
class State:
    """A round of the iteration.

    The factors were solved for ``z`` by themselves, as ``local``; all together say ``u``.
    """

    problem: Relaxation
    z: Tensor  # [B, E]
    rho: Tensor  # [B]: the penalty
    local: list[Local]
    u: Tensor  # [B, N]

    @cached_property
    def marginals(self) -> Tensor:
        """Of the factors by themselves, ``[B, E]``."""
        return self.problem.joined([part.marginals for part in self.local])

    @cached_property
    def gap(self) -> Tensor:
        """What the factors see of u, less their own marginals, ``[B, E]``."""
        return self.problem.local(self.u) - self.marginals

    @cached_property
    def prices(self) -> Tensor:
        r"""Normals :math:`\nu_f = \rho (z_f - u_f)` of the polytopes at the marginals of the factors, ``[B, E]``.

        At the solution they add up to what the scores leave unexplained, :math:`\sum_f \nu_f = \eta - u`.
        """
        return self.rho[:, None] * (self.z - self.marginals)

    @cached_property
    def imbalance(self) -> Tensor:
        """How much the prices add up to beyond that, ``[B, N]``."""
        return self.problem.unbounded(self.u - self.problem.scores + self.problem.collect(self.prices))

    @cached_property
    def primal(self) -> Tensor:
        """How far the factors are from agreeing, ``[B]``."""
        return self.gap.abs().amax(1) if self.gap.shape[1] else torch.zeros_like(self.rho)

    @cached_property
    def dual(self) -> Tensor:
        """How far the prices are from adding up, ``[B]``, relative to the scores."""
        return self.imbalance.abs().amax(1) / self.problem.scale

    @property
    def residual(self) -> Tensor:
        return torch.maximum(self.primal, self.dual)

    @property
    def duality_gap(self) -> Tensor:
        """Of the objective, at u and what the factors say of the additional scores, ``[B]``."""
        return self.imbalance.square().sum(1) / 2 - (self.prices * self.gap).sum(1)

    def warm(self, rows: Tensor | None = None) -> list[Any]:
        """Where the next round starts, for some of the examples or all."""
        return [part.warm(rows) for part in self.local]


def step(problem: Relaxation, z: Tensor, rho: Tensor, starts: list[Any] | None = None) -> State:
    r"""One round of ADMM: the factors by themselves, then the variables with the mirror images of their answers.

    .. math:: u_f = P_f(z_f), \qquad u = \frac{\eta + \rho \sum_f (2 u_f - z_f)}{1 + \rho d}

    The quadratic is left to the variables, so that every :math:`P_f` is a plain Euclidean projection whatever the
    degrees d. To be followed by :math:`z_f \leftarrow z_f + \kappa (u - u_f)`, :math:`0 < \kappa < 2`
    (Douglas-Rachford splitting, another name for it).
    """
    state = State(problem, z, rho, problem.solve(z, rho, starts), problem.scores)
    mirrored = problem.collect(2 * state.marginals - z - problem.shift)
    weight = rho[:, None]
    state.u = problem.bounded((problem.scores + weight * mirrored) / (1 + weight * problem.degree))
    return state


def first_step(problem: Relaxation) -> State:
    """From the scores themselves, at rho = 1, where variables of degree 1 are right at once."""
    # Low enough that no structure with such a variable is worth it; the variables' own step does the rest.
    high, low = (f(problem.scores, 1, keepdim=True) for f in (torch.amax, torch.amin))
    offers = torch.where(problem.forbidden, low - problem.size * (high - low + 1), problem.scores)
    state = step(problem, problem.local(offers), torch.ones_like(problem.scores[:, 0]))
    # The same number, but for the rounding of scores as large as 1e30.
    state.u = torch.where(problem.degree == 1, problem.average(state.marginals), state.u)
    return state
