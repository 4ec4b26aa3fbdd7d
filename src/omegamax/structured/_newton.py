r"""Newton's method for graphs too long for alternating directions: multipliers travel through all of it at once.

The method of multipliers: for fixed :math:`\nu_f` the penalised objective is minimised over u,

.. math:: \Psi(u) = \tfrac12 \lVert u - \eta \rVert^2 + \sum_f \min_{x \in P_f} \tfrac{\rho}{2}
          \lVert x - u_f - \nu_f / \rho \rVert^2 - \phi_f(x)

after which the multipliers become :math:`\nu_f + \rho (u_f - x)`.

Reference: Rockafellar, Mathematics of Operations Research 1 (1976), for the method of multipliers; Li, Sun & Toh, SIAM
Journal on Optimization 28 (2018), for Newton's method within it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.structured._faces import CommonFace
from omegamax.structured._outcome import Outcome, refuse_contradictions
from omegamax.structured._relaxation import Iterate, Relaxation

GROWTH, MAX_RHO = 10.0, 1e5  # of the penalty, from one set of multipliers to the next and altogether
FACE_TOL = 1e-13  # small: another face nearby gives another step
MAX_STEPS = 100  # of Newton, for one set of multipliers
SETTLED = 5  # rounds for one set of multipliers that say that the faces hardly change any more
MAX_TRIALS = 30  # of a line search
FLAT, UPWARDS = 0.5, 1e-3  # slopes at which it ends: down and up, relative to the one at its start
ACCURACY = 1e-2  # of the balance of multipliers, relative to the tolerance; and what rounding leaves of it, for rho = 1
ROUNDING = 8 * torch.finfo(torch.float64).eps


def newton(
    outcome: Outcome, rows: Tensor, iterate: Iterate, left: Tensor, tol: float, round: int, max_iter: int
) -> None:
    """Solve those examples of an iterate that are ``left``, with ever larger penalties."""
    while len(left) and round < max_iter:
        problem = iterate.problem if len(left) == len(rows) else iterate.problem.select(left)
        # Once factors agree, rounding keeps multipliers from adding up: the smaller the penalty, the less of it.
        change = torch.where(iterate.primal_residual <= tol, 1 / GROWTH, GROWTH)
        rho = (change * iterate.rho)[left].clamp(1, MAX_RHO)
        objective = PenalisedObjective(problem, iterate.multipliers[left], rho)
        rows, starts, u = rows[left], iterate.warm_start(left), iterate.u[left]
        iterate, spent = objective.minimise(u, starts, tol, max_iter - round)
        round += spent
        done = iterate.residual <= tol
        if spent <= SETTLED or bool(done.any()) or round >= max_iter:
            found, _ = outcome.finish(rows, iterate, tol, round)
            outcome.put(rows, iterate, done & ~found, round)
            done = done | found
        refuse_contradictions(iterate, rows, ~done)
        left = (~done).nonzero()[:, 0]
    if len(left):
        last = torch.zeros_like(rows, dtype=torch.bool).index_fill(0, left, True)
        outcome.put(rows, iterate, last, round)


@dataclass
class PenalisedObjective:
    r""":math:`\Psi(u)` for fixed multipliers :math:`\nu_f` and the penalty for marginals that the factors do not allow.

    It is convex, with a continuous and piecewise linear gradient. At its minimum the new multipliers add up; they are
    nearer to the right ones than those before, by the more the larger the penalty.
    """

    problem: Relaxation
    multipliers: Tensor  # [B, E]
    rho: Tensor  # [B]

    def at(self, u: Tensor, starts: list[Any]) -> Iterate:
        """Solve the factors at marginals ``[B, N]``; the gradient is the imbalance of the multipliers."""
        z = self.problem.copy(u) + self.multipliers / self.rho[:, None]
        return Iterate(self.problem, z, self.rho, self.problem.solve_factors(z, self.rho, starts), u)

    def minimise(self, u: Tensor, starts: list[Any], tol: float, rounds: int) -> tuple[Iterate, int]:
        """Find the minimum from u; return it and the rounds that it took, about ``rounds`` at most."""
        iterate, spent = self.at(u, starts), 1
        floor = torch.clamp(ROUNDING * self.rho, min=ACCURACY * tol)
        for _ in range(MAX_STEPS):
            live = iterate.dual_residual > floor
            if spent >= rounds or not bool(live.any()):
                break
            face = CommonFace(self.problem, iterate.local, FACE_TOL, self.problem.forbidden)
            step = -face.newton_step(iterate.imbalance * live[:, None], self.rho)
            iterate, trials = self._search_line(iterate, step)
            spent += trials
        return iterate, spent

    def _search_line(self, iterate: Iterate, step: Tensor) -> tuple[Iterate, int]:
        """Find the minimum along a line, roughly: where the slope is none, or still downwards but much less steep.

        The slope increases along the line. It is zero at the end of the step where the faces stay the same.
        """
        first = (iterate.imbalance * step).sum(1)
        low, low_slope, start = torch.zeros_like(first), first, iterate.u
        high, high_slope, length = (torch.ones_like(first) for _ in range(3))
        side = torch.zeros_like(first)
        for trial in range(1, MAX_TRIALS + 1):
            iterate = self.at(start + length[:, None] * step, iterate.warm_start())
            slope = (iterate.imbalance * step).sum(1)
            done = (slope <= UPWARDS * first.abs()) & ((slope >= -FLAT * first.abs()) | (length == 1))
            if trial == MAX_TRIALS or bool(done.all()):
                break
            # Where the same end moves twice, the slope at the other counts half: else that might never move.
            below = slope < 0
            again = torch.where(below, -1.0, 1.0) == side
            low_slope = torch.where(below, slope, torch.where(again, low_slope / 2, low_slope))
            high_slope = torch.where(below, torch.where(again, high_slope / 2, high_slope), slope)
            low, high = torch.where(below, length, low), torch.where(below, high, length)
            side = torch.where(below, -1.0, 1.0)
            share = (low_slope / (low_slope - high_slope)).nan_to_num(0.5)
            length = torch.where(done, length, low + share * (high - low))
        return iterate, trial
