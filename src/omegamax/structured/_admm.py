"""Alternating directions: the factors by themselves, then together, until they agree."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.structured._blocks import Local
from omegamax.structured._certificate import contradictory
from omegamax.structured._polish import polished
from omegamax.structured._relaxation import Relaxation
from omegamax.structured._state import State, first_step, step

STRETCH = 1.6  # steps longer than 1 and shorter than 2 converge, and sooner
MAX_CHANGE = 5.0  # of the penalty, at a time
EXACT = 1e-13  # residuals that polishing does not improve
MAX_POLISH = 4
# Rounds at which the exact solution, a proof that there is none, and another penalty are first tried.
FIRST_TRY, FIRST_PROOF, FIRST_CHANGE = 4, 12, 5


class Contradiction(Exception):
    """Factors that no marginals satisfy: in which example, and by how much each of them is at odds."""

    def __init__(self, example: int, gaps: list[float]):
        super().__init__(example, gaps)
        self.example, self.gaps = example, gaps


@dataclass
class Outcome:
    """Solutions of all examples, each as it was when it was done."""

    u: Tensor  # [B, N]
    z: Tensor  # [B, E]
    rho: Tensor  # [B]
    iterations: Tensor  # [B]
    primal: Tensor  # [B]
    dual: Tensor  # [B]
    gap: Tensor  # [B]
    local: list[Local] | None = None  # if all were done at once

    @classmethod
    def blank(cls, problem: Relaxation) -> Outcome:
        row = torch.zeros_like(problem.scores[:, 0])
        blank = torch.zeros_like(problem.scores)
        return cls(blank, problem.local(blank), row, row.long(), row.clone(), row.clone(), row.clone())

    def put(self, rows: Tensor, state: State, done: Tensor, round: int) -> None:
        """Record the ``done`` ones of a state, whose examples are at ``rows``."""
        if not bool(done.any()):
            return
        at = rows[done]
        self.u[at] = state.problem.average(state.marginals)[done]
        self.iterations[at] = round
        self.gap[at] = state.duality_gap[done].abs()
        for name in ("z", "rho", "primal", "dual"):
            getattr(self, name)[at] = getattr(state, name)[done]
        if len(at) == len(self.u):
            self.local = state.local


def admm(problem: Relaxation, tol: float, max_iter: int) -> Outcome:
    """Solve all examples; those that are done leave the batch.

    Every few rounds the present faces are tried for the exact solution (:func:`polished`), and disagreement for a proof
    that there is none (:func:`contradictory`). The penalty is adapted ever more rarely, so that convergence is that of
    a constant one.
    """
    outcome = Outcome.blank(problem)
    rows = torch.arange(len(problem.scores), device=problem.scores.device)
    state, before = first_step(problem), problem.scores
    try_at, adapt_at = FIRST_TRY, FIRST_CHANGE
    for round in range(1, max_iter + 1):
        done, nearer = state.residual <= tol, state
        if round in (try_at, max_iter) or bool((done & (state.residual > EXACT)).any()):
            found, nearer = _finish(outcome, rows, state, tol, round)
            outcome.put(rows, state, done & ~found, round)
            done = done | found
            if round >= FIRST_PROOF or round == max_iter:
                _refuse_contradictions(state, rows, ~done)
            if round == try_at:
                try_at = round + max(FIRST_TRY, round // 2)
        else:
            outcome.put(rows, state, done, round)
        if round == max_iter:
            outcome.put(rows, state, ~done, round)
        left = (~done).nonzero()[:, 0]
        if round == max_iter or not len(left):
            break
        change = torch.ones_like(state.rho)
        if round == adapt_at:
            adapt_at = round + max(3, round // 2)
            change = _penalty_change(state, before)
        z = _offers(state, change) + STRETCH * state.gap
        if nearer is not state:
            z = torch.where(_much_nearer(nearer, state)[:, None], _offers(nearer, change), z)
        starts = nearer.warm(left)
        before, rho, rows = state.u[left], (state.rho * change)[left], rows[left]
        problem = problem if len(left) == len(done) else problem.select(left)
        state = step(problem, z[left], rho, starts)
    return outcome


def _finish(outcome: Outcome, rows: Tensor, state: State, tol: float, round: int) -> tuple[Tensor, State]:
    """Record the examples that polishing solves; say which ``[B]``, and give the best state it found for the others.

    Faces that were not quite right lead to a point at which they may be: it is polished in turn while that helps.
    """
    found = torch.zeros_like(rows, dtype=torch.bool)
    for _ in range(MAX_POLISH):
        nearer = polished(state)
        new = ~found & (nearer.residual <= tol)
        outcome.put(rows, nearer, new, round)
        found = found | new
        if not bool((~found & _much_nearer(nearer, state)).any()):
            break
        state = nearer
    return found, state


def _much_nearer(one: State, other: State) -> Tensor:
    return one.residual < other.residual / 10


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


def _refuse_contradictions(state: State, rows: Tensor, among: Tensor) -> None:
    if not bool(among.any()):
        return
    proven = (contradictory(state) & among).nonzero()[:, 0]
    if len(proven):
        first = proven[0]
        sizes = [part[first].abs().amax(-1) for part in state.problem.parts(state.gap)]
        raise Contradiction(int(rows[first]), torch.cat(sizes).tolist())
