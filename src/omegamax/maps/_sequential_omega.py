"""Half the squared norm on the polytope of 0/1 sequences with k ones, whose neighbours have scores of their own."""

from __future__ import annotations

import copy
import itertools
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax import kernels
from omegamax._arguments import check_integer
from omegamax._operation import Operation, all_in_front
from omegamax._warnings import ConvergenceWarning
from omegamax.kernels.structures import TOLERANCE, iteration_limit
from omegamax.kernels.structures.oracles import oracle
from omegamax.maps.omega import Omega
from omegamax.maps.record import MapRecord
from omegamax.maps.registry import register
from omegamax.maps.sequential_k_subsets import sequential_k_subsets

# Of the multipliers' iteration, which ends of itself, after a handful of rounds; and how far it scales scores down.
ROUNDS = 100
LARGEST = 1e10
# How closely a distribution must have the given marginals.
CLOSE = 1e-13


class SequentialKSubsets(Omega):
    r"""``1/2 ||p||^2`` on the marginals of sequences with k ones: SparseMAP with scores for neighbours.

    Args:
        k: number of ones, whole.
        transition: score of two neighbours being ones, a number or ``[K - 1]``. Gradients reach it.
        at_most: let sequences with fewer ones in.

    The transition is a part of the score, not of the value ``omega(p)``. The conjugate and the loss count it as well:
    with the expected score of neighbours, ``transition`` times the pairs of the best distribution that has the
    marginals p.

        >>> SequentialKSubsets(2, transition=1.0).argmax(torch.tensor([2.0, 0.5, 0.0, 1.5, 0.0]))
        tensor([1.0000, 0.5000, 0.0000, 0.5000, 0.0000])

    Reference: Santos et al. (ICML 2024), Sec. 4.2.
    """

    name = "sequential_k_subsets"
    coupled = False

    def __init__(self, k: int, transition: float | Tensor = 0.0, at_most: bool = False):
        check_integer("SequentialKSubsets", "k", k, least=0)
        self.k = k
        self.transition = transition
        self.at_most = at_most

    @property
    def margin(self) -> float:
        # Another sequence that swaps d ones changes its pairs by at most 2 d.
        t = self.transition
        return 1.0 + 2 * (float(t.detach().abs().max()) if isinstance(t, Tensor) and t.numel() else abs(float(t)))

    @property
    def total(self) -> float | Tensor:
        return float(self.k)

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        return (self.transition,)

    def with_parameters(self, *parameters: float | Tensor) -> SequentialKSubsets:
        twin = copy.copy(self)
        (twin.transition,) = parameters
        return twin

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        pairs = self._pairs(p)[2]
        t = self.transition
        return (pairs if isinstance(t, Tensor) and t.dim() and t.shape[-1] > 1 else pairs.sum(-1, keepdim=True),)

    def within(self, z: Tensor) -> SequentialKSubsets:
        twin = copy.copy(self)
        twin.coupled = True
        return twin

    def __call__(self, p: Tensor) -> Tensor:
        half = 0.5 * p.square().sum(-1)
        return half - self.pair_score(p) if self.coupled else half

    def pair_score(self, p: Tensor) -> Tensor:
        """The largest expected transition score of a distribution whose marginals are p, ``[*, K] -> [*]``."""
        if p.shape[-1] == 1 or (not isinstance(self.transition, Tensor) and self.transition == 0):
            return torch.zeros_like(p[..., 0])
        value, multiplier, pairs = self._pairs(p)
        # The derivatives of the maximum of a linear program are its multipliers and its solution.
        value = value + (multiplier * (p - p.detach())).sum(-1)
        if isinstance(self.transition, Tensor):
            value = value + (pairs * (self.transition - self.transition.detach())).sum(-1)
        return value

    def _transitions(self, p: Tensor) -> Tensor:
        """The transition scores of each row, ``[*, K - 1]``."""
        t = torch.as_tensor(self.transition, dtype=p.dtype, device=p.device).detach()
        return t.expand(*p.shape[:-1], p.shape[-1] - 1).contiguous()

    def _pairs(self, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _best_pairs(p.detach(), self._transitions(p), int(self.k), self.at_most)

    def conjugate_at(self, z: Tensor, p: Tensor, origin: Tensor | None = None) -> Tensor:
        # All structures of an optimal distribution have the same score of z - p, the best there is: <p, z> and the
        # pairs come to |p|^2 plus that of one, and no distribution is looked for. Errors of p count by their square.
        best = _best_score(z - p, self._transitions(p), int(self.k), self.at_most)
        value = 0.5 * p.square().sum(-1) + torch.where(p.sum(-1) > 0, best, 0.0)
        return value if origin is None else value - (p.sum(-1, keepdim=True) * origin).squeeze(-1)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return sequential_k_subsets(z, self.k, self.transition, dim, at_most=self.at_most, mask=mask)

    def __repr__(self) -> str:
        more = ", at_most=True" if self.at_most else ""
        return f"SequentialKSubsets(k={self.k}, transition={self.transition}{more})"


def _run_best_score(z: Tensor, t: Tensor, k: int, at_most: bool) -> Tensor:
    """The largest ``<z, y> + <t, pairs of y>`` over the structures y, ``[*]``; NaN where there is none."""
    n = z.shape[-1]
    scores = z.double().reshape(-1, n)
    transitions = t.double().reshape(len(scores), n - 1)
    unary, pairs = oracle("sequential_k_subsets", (n, k, int(at_most)))(scores, transitions)
    # What is forbidden is not in a structure, but 0 times -inf would be NaN.
    value = torch.where(unary == 0, 0.0, unary * scores).sum(-1) + torch.where(
        pairs == 0, 0.0, pairs * transitions
    ).sum(-1)
    return value.to(z.dtype).reshape(z.shape[:-1])


def _map_best_score(info, in_dims, z, t, k, at_most):
    return _best_score(*all_in_front(info.batch_size, in_dims, z, t), k, at_most), 0


_best_score = Operation(
    "best_sequential_subset_score",
    "(Tensor z, Tensor t, int k, bool at_most) -> Tensor",
    _run_best_score,
    lambda z, t, k, at_most: z.new_empty(z.shape[:-1]),
    vmap=_map_best_score,
)


def _run_best_pairs(p: Tensor, t: Tensor, k: int, at_most: bool) -> tuple[Tensor, Tensor, Tensor]:
    """``max <t, N xi>`` where ``M xi = p``: its value ``[*]``, its slope in p ``[*, K]``, pairs ``[*, K - 1]``.

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


def _map_best_pairs(info, in_dims, p, t, k, at_most):
    return _best_pairs(*all_in_front(info.batch_size, in_dims, p, t), k, at_most), (0, 0, 0)


_best_pairs = Operation(
    "best_pairs",
    "(Tensor p, Tensor t, int k, bool at_most) -> (Tensor, Tensor, Tensor)",
    _run_best_pairs,
    lambda p, t, k, at_most: (p.new_empty(p.shape[:-1]), torch.empty_like(p), torch.empty_like(t)),
    vmap=_map_best_pairs,
)


def _program(cp, p, omega: SequentialKSubsets):
    """The marginals of a distribution over all subsets, and the best transition score that such a distribution has."""
    subsets = np.array([s for s in itertools.product((0, 1), repeat=p.size) if sum(s) == omega.k])
    weights = cp.Variable(len(subsets), nonneg=True)
    pairs = (subsets[:, 1:] * subsets[:, :-1]).sum(1) @ weights
    return cp.sum_squares(p) / 2 - omega.transition * pairs, [cp.sum(weights) == 1, p == subsets.T @ weights]


register(
    MapRecord(
        "sequential_k_subsets",
        sequential_k_subsets,
        SequentialKSubsets,
        summary="k chosen, neighbours together or apart",
        complexity="O(K k) a structure",
        cite="santos2024sparse",
        example={"k": 2, "transition": 0.5},
        example_of_one={"k": 1},
        colour="#9a2a4c",
        domain="budget",
        program=_program,
        equivariant=False,
        ties_share=False,
    )
)
