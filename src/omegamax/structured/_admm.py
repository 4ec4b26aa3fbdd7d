r"""Alternating directions for LP-SparseMAP: the factors by themselves, then together, until they agree.

.. math:: u_f = P_f(z_f), \qquad u = \frac{\eta + \rho \sum_f (2 u_f - z_f)}{1 + \rho d}, \qquad
          z_f \leftarrow z_f + \kappa (u - u_f)

The quadratic is left to the variables, so that every :math:`P_f` is a plain Euclidean projection whatever the degrees
d. With :math:`0 < \kappa < 2` it converges (Douglas-Rachford splitting, another name for it).

Reference: Niculae & Martins (ICML 2020), Sec. 3, where the quadratic is shared out among the factors.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax.structured._newton import newton
from omegamax.structured._outcome import Outcome, is_much_closer, refuse_contradictions
from omegamax.structured._relaxation import Iterate, Relaxation

KAPPA = 1.6  # steps longer than 1 and shorter than 2 converge, and sooner
MAX_CHANGE = 5.0  # of the penalty, at a time
EXACT = 1e-13  # residuals that polishing does not improve
# Rounds at which the exact solution, a proof that there is none, and another penalty are first tried.
FIRST_TRY, FIRST_PROOF, FIRST_CHANGE = 4, 12, 5
# Rounds after which Newton's method takes over: where its steps are cheap, and elsewhere.
PATIENCE, MAX_PATIENCE = 18, 60


def admm(problem: Relaxation, tol: float, max_iter: int) -> Outcome:
    """Solve all examples; those that are done leave the batch.

    Every few rounds the present faces are tried for the exact solution, and disagreement for a proof that there is
    none. What a factor says reaches only its neighbours in a round: where the graph is so long that this takes many,
    Newton's method takes over.
    """
    outcome = Outcome.blank(problem)
    rows = torch.arange(len(problem.scores), device=problem.scores.device)
    iterate, before = first_step(problem), problem.scores
    try_at, adapt_at = FIRST_TRY, FIRST_CHANGE
    for round in range(1, max_iter + 1):
        done, closer = iterate.residual <= tol, iterate
        if round in (try_at, max_iter) or bool((done & (iterate.residual > EXACT)).any()):
            found, closer = outcome.finish(rows, iterate, tol, round)
            outcome.put(rows, iterate, done & ~found, round)
            done = done | found
            if round >= FIRST_PROOF or round == max_iter:
                refuse_contradictions(iterate, rows, ~done)
            if round == try_at:
                try_at = round + max(FIRST_TRY, round // 2)
        else:
            outcome.put(rows, iterate, done, round)
        if round == max_iter:
            outcome.put(rows, iterate, ~done, round)
        left = (~done).nonzero()[:, 0]
        if round == max_iter or not len(left):
            break
        if round >= MAX_PATIENCE or (round >= PATIENCE and problem.order.is_affordable(len(left))):
            newton(outcome, rows, iterate, left, tol, round, max_iter)
            break
        change = torch.ones_like(iterate.rho)
        if round == adapt_at:
            adapt_at = round + max(3, round // 2)
            change = _balance_penalty(iterate, before)
        z = _rescale_messages(iterate, change) + KAPPA * iterate.disagreement
        if closer is not iterate:
            z = torch.where(is_much_closer(closer, iterate)[:, None], _rescale_messages(closer, change), z)
        starts = closer.warm_start(left)
        before, rho, rows = iterate.u[left], (iterate.rho * change)[left], rows[left]
        problem = problem if len(left) == len(done) else problem.select(left)
        iterate = step(problem, z[left], rho, starts)
    return outcome


def step(problem: Relaxation, z: Tensor, rho: Tensor, starts: list[Any] | None = None) -> Iterate:
    """Solve the factors by themselves, then the variables with the mirror images of their answers."""
    iterate = Iterate(problem, z, rho, problem.solve_factors(z, rho, starts), problem.scores)
    mirrored = problem.collect(2 * iterate.marginals - z - problem.shift)
    weight = rho[:, None]
    iterate.u = problem.fix_decided((problem.scores + weight * mirrored) / (1 + weight * problem.degree))
    return iterate


def first_step(problem: Relaxation) -> Iterate:
    """Start from the scores themselves, at rho = 1, where variables of degree 1 are right at once."""
    # Low enough that no structure with such a variable is worth it; the variables' own step does the rest.
    high, low = (f(problem.scores, 1, keepdim=True) for f in (torch.amax, torch.amin))
    z = torch.where(problem.forbidden, low - problem.size * (high - low + 1), problem.scores)
    iterate = step(problem, problem.copy(z), torch.ones_like(problem.scores[:, 0]))
    # The same value, but for the rounding of scores as large as 1e30.
    iterate.u = torch.where(problem.degree == 1, problem.average(iterate.marginals), iterate.u)
    return iterate


def _rescale_messages(iterate: Iterate, change: Tensor) -> Tensor:
    """Return messages ``[B, E]`` with the same multipliers for a penalty that ``change [B]`` is multiplied into."""
    return iterate.marginals + (iterate.z - iterate.marginals) / change[:, None]


def _balance_penalty(iterate: Iterate, before: Tensor) -> Tensor:
    """Return the factor ``[B]`` for rho that would balance disagreement and movement, relative to what they change."""
    problem, tiny = iterate.problem, torch.finfo(before.dtype).tiny
    disagreement = iterate.disagreement.norm(dim=1) / problem.copy(iterate.u).norm(dim=1).clamp(min=tiny)
    movement = iterate.rho * problem.spread(iterate.u - before).norm(dim=1)
    movement = movement / iterate.multipliers.norm(dim=1).clamp(min=tiny)
    ratio = (disagreement / movement.clamp(min=tiny)).sqrt().clamp(1 / MAX_CHANGE, MAX_CHANGE)
    return torch.where((ratio > 2) | (ratio < 0.5), ratio, 1.0)
