"""Alternating directions: the factors by themselves, then together, until they agree."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.structured._blocks import Local
from omegamax.structured._certificate import contradictory
from omegamax.structured._polish import polished
from omegamax.structured._relaxation import Copies, Relaxation
from omegamax.structured._state import State, first_step, step

STRETCH = 1.6  # steps longer than 1 and shorter than 2 converge, and sooner
MAX_CHANGE = 5.0  # of the penalty, at a time
EXACT = 1e-13  # residuals that polishing does not improve
# Rounds at which the exact solution, a proof that there is none, and another penalty are first tried.
FIRST_TRY, FIRST_PROOF, FIRST_CHANGE = 4, 12, 5


class Contradiction(Exception):
    """Factors that no marginals satisfy: in which example, and at odds by how much in each block."""

    def __init__(self, example: int, gaps: list[Tensor]):
        super().__init__(example, gaps)
        self.example, self.gaps = example, gaps


@dataclass
class Outcome:
    """Solutions of all examples, each as it was when it was done."""

    u: Tensor  # [B, N]
    z: Copies
    rho: Tensor  # [B]
    iterations: Tensor  # [B]
    primal: Tensor  # [B]
    dual: Tensor  # [B]
    gap: Tensor  # [B]
    local: list[Local] | None = None  # if all were done at once

    @classmethod
    def blank(cls, problem: Relaxation) -> Outcome:
        row = torch.zeros_like(problem.scores[:, 0])
        z = problem.local(torch.zeros_like(problem.scores))
        return cls(torch.zeros_like(problem.scores), z, row.clone(), row.long(), row.clone(), row.clone(), row.clone())

    def put(self, rows: Tensor, state: State, done: Tensor, round: int) -> None:
        """Record the ``done`` ones of a state, whose examples are at ``rows``."""
        at = rows[done]
        self.u[at] = state.problem.average(state.local)[done]
        for mine, z in zip(self.z, state.z, strict=True):
            mine[at] = z[done]
        self.iterations[at] = round
        for mine, value in ((self.rho, state.rho), (self.primal, state.primal), (self.dual, state.dual)):
            mine[at] = value[done]
        self.gap[at] = state.duality_gap[done].abs()
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
        done = _settled(state, tol)
        if round in (try_at, max_iter) or bool((done & (_residual(state) > EXACT)).any()):
            exact = polished(state)
            found = _settled(exact, tol)
            outcome.put(rows, exact, found, round)
            outcome.put(rows, state, done & ~found, round)
            done = done | found
            if round >= FIRST_PROOF or round == max_iter:
                _refuse_contradictions(state, rows, ~done)
            if round == try_at:
                try_at = round + max(FIRST_TRY, round // 4)
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
        # A change of the penalty leaves the prices as they are.
        z = [
            (copy.marginals + (offered - copy.marginals) / change[:, None, None] + STRETCH * gap)[left]
            for copy, offered, gap in zip(state.local, state.z, state.gap, strict=True)
        ]
        starts = state.warm(left)
        before, rho, rows = state.u[left], (state.rho * change)[left], rows[left]
        problem = problem if len(left) == len(done) else problem.select(left)
        state = step(problem, z, rho, starts)
    return outcome


def _residual(state: State) -> Tensor:
    return torch.maximum(state.primal, state.dual)


def _settled(state: State, tol: float) -> Tensor:
    return _residual(state) <= tol


def _penalty_change(state: State, before: Tensor) -> Tensor:
    """Factor ``[B]`` for rho that would balance disagreement and movement, each relative to what it changes."""
    tiny = torch.finfo(before.dtype).tiny

    def size(copies: Copies) -> Tensor:
        return sum((copy.square().flatten(1).sum(1) for copy in copies), torch.zeros_like(state.rho)).sqrt()

    disagreement = size(state.gap) / size(state.problem.local(state.u)).clamp(min=tiny)
    movement = state.rho * size(state.problem.spread(state.u - before)) / size(state.prices).clamp(min=tiny)
    ratio = (disagreement / movement.clamp(min=tiny)).sqrt().clamp(1 / MAX_CHANGE, MAX_CHANGE)
    return torch.where((ratio > 2) | (ratio < 0.5), ratio, 1.0)


def _refuse_contradictions(state: State, rows: Tensor, among: Tensor) -> None:
    if not bool(among.any()):
        return
    proven = (contradictory(state) & among).nonzero()[:, 0]
    if len(proven):
        first = proven[0]
        raise Contradiction(int(rows[first]), [gap[first].abs().amax(-1) for gap in state.gap])
