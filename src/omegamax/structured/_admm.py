"""Alternating directions: the factors by themselves, then together, until they agree."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.structured._newton import newton
from omegamax.structured._outcome import Outcome, much_nearer, refuse_contradictions
from omegamax.structured._relaxation import Relaxation
from omegamax.structured._state import State, first_step, step

STRETCH = 1.6  # steps longer than 1 and shorter than 2 converge, and sooner
MAX_CHANGE = 5.0  # of the penalty, at a time
EXACT = 1e-13  # residuals that polishing does not improve
# Rounds at which the exact solution, a proof that there is none, and another penalty are first tried.
FIRST_TRY, FIRST_PROOF, FIRST_CHANGE = 4, 12, 5
# Rounds after which Newton's method takes over: where its steps are cheap, and elsewhere.
PATIENCE, MOST_PATIENCE = 18, 60


def admm(problem: Relaxation, tol: float, max_iter: int) -> Outcome:
    """Solve all examples; those that are done leave the batch.

    Every few rounds the present faces are tried for the exact solution, and disagreement for a proof that there is
    none. What a factor says reaches only its neighbours in a round: where the graph is so long that this takes many,
    Newton's method takes over.
    """
    outcome = Outcome.blank(problem)
    rows = torch.arange(len(problem.scores), device=problem.scores.device)
    state, before = first_step(problem), problem.scores
    try_at, adapt_at = FIRST_TRY, FIRST_CHANGE
    for round in range(1, max_iter + 1):
        done, nearer = state.residual <= tol, state
        if round in (try_at, max_iter) or bool((done & (state.residual > EXACT)).any()):
            found, nearer = outcome.finish(rows, state, tol, round)
            outcome.put(rows, state, done & ~found, round)
            done = done | found
            if round >= FIRST_PROOF or round == max_iter:
                refuse_contradictions(state, rows, ~done)
            if round == try_at:
                try_at = round + max(FIRST_TRY, round // 2)
        else:
            outcome.put(rows, state, done, round)
        if round == max_iter:
            outcome.put(rows, state, ~done, round)
        left = (~done).nonzero()[:, 0]
        if round == max_iter or not len(left):
            break
        if round >= MOST_PATIENCE or (round >= PATIENCE and problem.order.affordable(len(left))):
            newton(outcome, rows, state, left, tol, round, max_iter)
            break
        change = torch.ones_like(state.rho)
        if round == adapt_at:
            adapt_at = round + max(3, round // 2)
            change = _penalty_change(state, before)
        z = _offers(state, change) + STRETCH * state.gap
        if nearer is not state:
            z = torch.where(much_nearer(nearer, state)[:, None], _offers(nearer, change), z)
        starts = nearer.warm(left)
        before, rho, rows = state.u[left], (state.rho * change)[left], rows[left]
        problem = problem if len(left) == len(done) else problem.select(left)
        state = step(problem, z[left], rho, starts)
    return outcome


def _offers(state: State, change: Tensor) -> Tensor:
    """What the factors are offered, ``[B, E]``, at the same prices but with another penalty."""
    return state.marginals + (state.z - state.marginals) / change[:, None]


def _penalty_change(state: State, before: Tensor) -> Tensor:
    """Factor ``[B]`` for rho that would balance disagreement and movement, each relative to what it changes."""
    problem, tiny = state.problem, torch.finfo(before.dtype).tiny
    disagreement = state.gap.norm(dim=1) / problem.local(state.u).norm(dim=1).clamp(min=tiny)
    movement = state.rho * problem.spread(state.u - before).norm(dim=1) / state.prices.norm(dim=1).clamp(min=tiny)
    ratio = (disagreement / movement.clamp(min=tiny)).sqrt().clamp(1 / MAX_CHANGE, MAX_CHANGE)
    return torch.where((ratio > 2) | (ratio < 0.5), ratio, 1.0)
