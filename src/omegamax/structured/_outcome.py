"""Solutions of a factor graph as they are found, example by example."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.structured._blocks import Local
from omegamax.structured._certificate import contradictory
from omegamax.structured._polish import polished
from omegamax.structured._relaxation import Relaxation
from omegamax.structured._state import State

MAX_POLISH = 4


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

    def finish(self, rows: Tensor, state: State, tol: float, round: int) -> tuple[Tensor, State]:
        """Record the examples that polishing solves; say which ``[B]``, and give the best state found for the others.

        Faces that were not quite right lead to a point at which they may be: it is polished in turn while that helps.
        """
        found = torch.zeros_like(rows, dtype=torch.bool)
        for _ in range(MAX_POLISH):
            nearer = polished(state)
            new = ~found & (nearer.residual <= tol)
            self.put(rows, nearer, new, round)
            found = found | new
            if not bool((~found & much_nearer(nearer, state)).any()):
                break
            state = nearer
        return found, state


def much_nearer(one: State, other: State) -> Tensor:
    """Which examples ``[B]`` of a state are much nearer to their solution than in another."""
    return one.residual < other.residual / 10


def refuse_contradictions(state: State, rows: Tensor, among: Tensor) -> None:
    """Raise where the disagreement of a state proves that an example, of those ``among [B]``, has no solution."""
    if not bool(among.any()):
        return
    proven = (contradictory(state) & among).nonzero()[:, 0]
    if len(proven):
        first = proven[0]
        sizes = [part[first].abs().amax(-1) for part in state.problem.parts(state.gap)]
        raise Contradiction(int(rows[first]), torch.cat(sizes).tolist())
