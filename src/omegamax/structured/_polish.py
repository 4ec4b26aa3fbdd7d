"""From a guess of the right faces to the solution itself."""

from __future__ import annotations

import torch

from omegamax.structured._faces import Faces
from omegamax.structured._state import State

FACE_TOL = 1e-9


def polished(state: State) -> State:
    r"""The solution, if the factors' marginals are on the faces on which they are at the solution.

    On the affine hulls of the faces the problem has no inequalities: u is the projection of the scores, with what the
    additional scores are worth, onto the set where the hulls meet. The prices closest to the present ones that explain
    it go with it. Whether the faces were right is seen from the result: its factors are solved once more.
    """
    problem, prices = state.problem, state.prices
    faces = Faces(problem, state.local, FACE_TOL, problem.forbidden)
    slopes = faces.along(prices)  # zero without additional scores
    aim = (problem.scores - problem.collect(slopes)).masked_fill(problem.forbidden, 0.0)
    off = faces.across(problem.local(aim) - state.marginals)
    u = problem.bounded(aim - faces.solve(problem.collect(off), problem.scale))
    missing = problem.unbounded(problem.scores - u - problem.collect(prices))
    move = faces.across(prices + problem.spread(faces.solve(missing, problem.scale)))
    # Rounding of the prices is relative to the penalty, where that is larger.
    rho = torch.minimum(state.rho, (slopes + move).abs().amax(1).clamp(min=1)) if move.shape[1] else state.rho
    z = problem.local(u) + (slopes + move) / rho[:, None]
    return State(problem, z, rho, problem.solve(z, rho, state.warm()), u)
