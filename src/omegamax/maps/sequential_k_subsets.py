"""A budget of k ones in a sequence, where neighbours may like or dislike each other."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import torch
from torch import Tensor

from omegamax._arguments import check_integer, check_type, is_integer, is_number
from omegamax._checks import apply_mask, check_floating, check_scores
from omegamax._map_parameters import check_budget
from omegamax._numerics import returned_dtype, working_dtype
from omegamax.maps._sequence_marginals import solve_marginals
from omegamax.maps._sequence_pairs import solve_pairs, solve_score
from omegamax.maps.k_subsets import k_subsets
from omegamax.maps.omega import Omega
from omegamax.maps.record import MapRecord
from omegamax.maps.registry import register


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
        pairs = self._best_pairs(p)[2]
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
        """Return the largest expected transition score of a distribution whose marginals are p, ``[*, K] -> [*]``."""
        if p.shape[-1] == 1 or (not isinstance(self.transition, Tensor) and self.transition == 0):
            return torch.zeros_like(p[..., 0])
        value, multiplier, pairs = self._best_pairs(p)
        # The derivatives of the maximum of a linear program are its multipliers and its solution.
        value = value + (multiplier * (p - p.detach())).sum(-1)
        if isinstance(self.transition, Tensor):
            value = value + (pairs * (self.transition - self.transition.detach())).sum(-1)
        return value

    def _transitions(self, p: Tensor) -> Tensor:
        """Return the transition scores of each row, ``[*, K - 1]``."""
        t = torch.as_tensor(self.transition, dtype=p.dtype, device=p.device).detach()
        return t.expand(*p.shape[:-1], p.shape[-1] - 1).contiguous()

    def _best_pairs(self, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return solve_pairs(p.detach(), self._transitions(p), int(self.k), self.at_most)

    def conjugate_at(self, z: Tensor, p: Tensor, origin: Tensor | None = None) -> Tensor:
        # All structures of an optimal distribution have the same score of z - p, the best there is: <p, z> and the
        # pairs come to |p|^2 plus that of one, and no distribution is looked for. Errors of p count by their square.
        best = solve_score(z - p, self._transitions(p), int(self.k), self.at_most)
        value = 0.5 * p.square().sum(-1) + torch.where(p.sum(-1) > 0, best, 0.0)
        return value if origin is None else value - (p.sum(-1, keepdim=True) * origin).squeeze(-1)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return sequential_k_subsets(z, self.k, self.transition, dim, at_most=self.at_most, mask=mask)

    def __repr__(self) -> str:
        more = ", at_most=True" if self.at_most else ""
        return f"SequentialKSubsets(k={self.k}, transition={self.transition}{more})"


def sequential_k_subsets(
    z: Tensor,
    k: int,
    transition: float | Tensor = 0.0,
    dim: int = -1,
    *,
    at_most: bool = False,
    mask: Tensor | None = None,
    two_state: bool = False,
) -> Tensor:
    r"""Return the marginals of a sparse distribution over the 0/1 sequences with k ones.

    .. math:: \arg\max_{p = \mathbb{E}_\xi[y],\; \xi \in \Delta} \; \mathbb{E}_\xi\Bigl[\sum_i z_i y_i +
              \sum_i t_i y_i y_{i+1}\Bigr] - \tfrac12 \lVert p \rVert^2

    This is SparseMAP, exact: an active set of sequences, whose best one comes from dynamic programming. The compiled
    kernel does without, which is much faster, in rows where transition scores are positive and a relaxation,
    total variation clipped at a threshold, is proved to have the same solution: most rows, unless scores are flat.
    Without transition scores it is :func:`omegamax.k_subsets`.

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        k: number of ones, whole, in [0, K].
        transition: score of two neighbours being ones: a number, one for each of the K - 1 pairs along ``dim``
            (``[K - 1]``), or a tensor that broadcasts to ``z`` with size K - 1 or 1 along ``dim``. Gradients reach it.
        at_most: let sequences with fewer ones in.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry, and the entries on either side of it do not become
            neighbours. A row left with fewer than ``k`` entries takes them all.
        two_state: the scale of those who encode an entry as two states, on and off, and regularise both, as the code
            of Santos et al. does: this map at half of ``z`` and half of ``transition``; with ``at_most``, where the
            number of ones is not fixed, at half of ``z + 1``.

    Returns:
        Like ``z``: in [0, 1], summing to ``k`` along ``dim``, or to less with ``at_most``. Computed in float64.

        >>> z = torch.tensor([2.0, 0.5, 0.0, 1.5, 0.0])
        >>> sequential_k_subsets(z, k=2)
        tensor([1., 0., 0., 1., 0.])
        >>> sequential_k_subsets(z, k=2, transition=1.0)
        tensor([1.0000, 0.5000, 0.0000, 0.5000, 0.0000])

    Reference: Santos et al. (ICML 2024), Sec. 4; the active set is that of Niculae et al. (ICML 2018), Sec. 3.
    """
    name = "sequential_k_subsets"
    dim = check_scores(name, z, dim)
    size = z.shape[dim] if z.dim() else 1
    k = _check_k(name, k, size, at_most)
    z = apply_mask(name, z, mask)
    t = _expand_transition(name, transition, z, size, dim)
    if two_state:  # u^2 / 2 + (1 - u)^2 / 2 = u^2 - u + 1/2, and the sum of u may or may not be fixed
        half = sequential_k_subsets(
            (_widen(z) + 1) / 2 if at_most else _widen(z) / 2, k, transition / 2, dim, at_most=at_most
        )
        return half.to(returned_dtype(z))
    if is_number(transition) and transition == 0:
        return k_subsets(z, k, dim, at_most=at_most)
    return solve_marginals(_widen(z), t, k, bool(at_most), dim).to(returned_dtype(z))


def _widen(z: Tensor) -> Tensor:
    return z.to(working_dtype(z))


def _check_k(name: str, k: int, size: int, at_most: bool) -> int:
    if not is_integer(k):
        raise TypeError(f"{name}: k must be an integer, got {k if is_number(k) else type(k).__name__}")
    check_budget(name, k, size, at_most)
    return min(int(k), size)


def _expand_transition(name: str, transition: float | Tensor, z: Tensor, size: int, dim: int) -> Tensor:
    """Return transition scores with the rank of ``z`` and size K - 1 or 1 along ``dim``, in the working dtype."""
    dtype, rank = working_dtype(z), z.dim()
    if not isinstance(transition, Tensor):
        if not is_number(transition):
            check_type(name, "transition", transition, Tensor, "a number or a tensor")
        return z.new_full((1,) * rank, float(transition), dtype=dtype)
    check_floating(name, "transition", transition, "a number or a floating-point tensor")
    shape = tuple(transition.shape)
    if len(shape) == 1 and rank:  # along dim, wherever that is
        shape = (1,) * dim + shape + (1,) * (rank - dim - 1)
    shape = (1,) * (rank - len(shape)) + shape
    wanted = [n - (i == dim) for i, n in enumerate(z.shape)]
    if len(shape) > rank or any(a not in (1, b) for a, b in zip(shape, wanted, strict=True)):
        raise ValueError(
            f"{name}: transition must be a number, [{size - 1}], or broadcast to shape {tuple(wanted)}, got shape "
            f"{tuple(transition.shape)}"
        )
    return transition.reshape(shape).to(dtype)


def _program(cp, p, omega: SequentialKSubsets):
    """Return Omega less the best transition score of a distribution over all subsets with the marginals ``p``."""
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
