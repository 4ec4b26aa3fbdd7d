"""Proof that factors contradict each other."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.structured._state import State

MARGIN = 1e-8  # for each copy: what rounding, and a maximum that is not quite one, may take


def contradictory(state: State) -> Tensor:
    r"""Which examples no marginals satisfy, ``[B]``; a proof where it says so.

    Take any weights :math:`w_f` on the copies of the variables. Marginals u that satisfy all factors would give

    .. math:: \sum_f \max_{x \in P_f} \langle w_f, x \rangle \ge \sum_f \langle w_f, u_f \rangle
              \ge \min_{u \in [0, 1]^N} \sum_f \langle w_f, u_f \rangle

    so that weights for which the left is smaller than the right prove that there are none. Where there are none, what
    the factors disagree by tends to the shortest difference v between consensus and factors, and with w = v the left
    is smaller by :math:`\lVert v \rVert^2`: sooner or later the iteration finds its own proof.
    """
    problem = state.problem
    weights = state.gap / state.primal.clamp(min=torch.finfo(state.u.dtype).tiny)[:, None]
    best = [
        block.rule.farthest(w, 0 if extra is None else extra.shape[-1])
        for block, w, extra in zip(problem.blocks, problem.parts(weights), problem.additional, strict=True)
    ]
    most = (weights * problem.joined(best)).sum(1) + weights.shape[1] * MARGIN
    free = problem.collect(weights).masked_fill(problem.forbidden, 0.0)
    least = (weights * problem.shift).sum(1) + free.clamp(max=0).sum(1)
    return most < least
