"""What pairs of ones are worth to 0/1 sequences: the best sequence, the best distribution with given marginals."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._custom_op import all_in_front
from omegamax._operation import Operation
from omegamax._warnings import ConvergenceWarning
from omegamax.kernels.structures import TOLERANCE, iteration_limit
from omegamax.kernels.structures.oracles import oracle

ROUNDS = 100  # of the method of multipliers at most; a handful is enough
LARGEST = 1e10  # factor by which it scales transition scores down
CLOSE = 1e-13  # error of a marginal that counts as none


def _run_score(z: Tensor, t: Tensor, k: int, at_most: bool) -> Tensor:
    """Return the largest ``<z, y> + <t, pairs of y>`` over the sequences y, ``[*]``; NaN where there is none."""
    n = z.shape[-1]
    scores = z.double().reshape(-1, n)
    transitions = t.double().reshape(len(scores), n - 1)
    unary, pairs = oracle("sequential_k_subsets", (n, k, int(at_most)))(scores, transitions)
    # What is forbidden is not in a structure, but 0 times -inf would be NaN.
    value = torch.where(unary == 0, 0.0, unary * scores).sum(-1) + torch.where(
        pairs == 0, 0.0, pairs * transitions
    ).sum(-1)
    return value.to(z.dtype).reshape(z.shape[:-1])


def _map_score(info, in_dims, z, t, k, at_most):
    return solve_score(*all_in_front(info.batch_size, in_dims, z, t), k, at_most), 0


solve_score = Operation(
    "best_sequential_subset_score",
    "(Tensor z, Tensor t, int k, bool at_most) -> Tensor",
    _run_score,
    lambda z, t, k, at_most: z.new_empty(z.shape[:-1]),
    vmap=_map_score,
)


def _run_pairs(p: Tensor, t: Tensor, k: int, at_most: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Solve ``max <t, N xi>`` where ``M xi = p``: its value ``[*]``, slope in p ``[*, K]``, pairs ``[*, K - 1]``.

    The method of multipliers: each round is a SparseMAP problem with scores ``p + multiplier``, and after finitely many
    of them the constraint holds, as for every linear program.
    """
    n = p.shape[-1]
    goal, scores = p.double().reshape(-1, n), t.double().reshape(-1, n - 1)
    # The transition is scaled down, more in each round: a part of p as small as it is then has to be met.
    scale = 16 * (1 + scores.abs().amax(-1, keepdim=True)) if scores.numel() else goal.new_ones(len(goal), 1)
    multiplier = torch.zeros_like(goal)
    start: Any = None
    for _ in range(ROUNDS):
        start = kernels.solve(
            "active_set",
            *(goal + multiplier, scores / scale, "sequential_k_subsets", (n, k, int(at_most))),
            *(None, start, TOLERANCE, iteration_limit(n)),
        )
        short = goal - (start.weights[:, None] @ start.unary)[:, 0]
        multiplier = multiplier + short
        if bool((short.abs() <= CLOSE).all()) or not bool(short.isfinite().all()):
            break
        growth = torch.where(scale < LARGEST, 4.0, 1.0)
        multiplier, scale = multiplier / growth, scale * growth
    else:
        warnings.warn(
            f"SequentialKSubsets: after {ROUNDS} rounds no distribution has the given marginals, which are off by "
            f"{float(short.abs().max()):.3g}: are they in the domain?",
            ConvergenceWarning,
            stacklevel=2,
        )
    pairs = (start.weights[:, None] @ start.additional)[:, 0]
    value = (pairs * scores).sum(-1)
    like = [(value, p.shape[:-1]), (-multiplier * scale, p.shape), (pairs, t.shape)]
    return tuple(a.to(p.dtype).reshape(shape).contiguous() for a, shape in like)  # type: ignore[return-value]


def _map_pairs(info, in_dims, p, t, k, at_most):
    return solve_pairs(*all_in_front(info.batch_size, in_dims, p, t), k, at_most), (0, 0, 0)


solve_pairs = Operation(
    "best_pairs",
    "(Tensor p, Tensor t, int k, bool at_most) -> (Tensor, Tensor, Tensor)",
    kernels.solve_where_compiled("active_set", _run_pairs),
    lambda p, t, k, at_most: (p.new_empty(p.shape[:-1]), torch.empty_like(p), torch.empty_like(t)),
    vmap=_map_pairs,
)
