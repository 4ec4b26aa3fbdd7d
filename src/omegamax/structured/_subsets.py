"""Factors of subsets with k items, anywhere or in a row."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import check_integer, check_type, is_number
from omegamax.functional import k_subsets
from omegamax.kernels.bounds import k_subsets_vjp
from omegamax.kernels.structures import TOLERANCE, ActiveSet, close_gaps
from omegamax.structured._factor import BuiltIn, Infeasible, expand_parameter
from omegamax.structured._solution import Solution


class _SizedSubsets(BuiltIn):
    """Subsets of a size that is exact or an upper bound."""

    def __init__(self, k: int, at_most: bool = False):
        self.k, self.at_most = check_integer(type(self).__name__, "k", k, least=0), bool(at_most)

    def part_count(self, event: tuple[int, ...]) -> int | None:
        return None if self.at_most else self.k

    def check(self, name: str, scores: Tensor) -> None:
        size = scores.shape[-1]
        if not self.at_most and self.k > size:
            raise ValueError(
                f"{name}: k={self.k} is more than the {size} items of scores of shape {tuple(scores.shape)}"
            )

    def check_left(self, scores: Tensor) -> None:
        """Refuse rows of which ``-inf`` leaves fewer than k items."""
        left = (scores != -math.inf).sum(-1)
        if not self.at_most and bool((left < self.k).any()):
            raise Infeasible(
                f"{self!r}: k={self.k} is more than the {int(left.min())} items that scores leave in a row"
            )

    def _largest(self, size: int) -> int:
        """Return the largest number of ones out of ``size`` items."""
        return min(self.k, size) if self.at_most else self.k


class Subsets(_SizedSubsets):
    """The subsets of k items, scores ``[*, n]``: SparseMAP over them is :func:`omegamax.k_subsets`.

    Args:
        k: size of the subsets.
        at_most: let smaller ones in.

        >>> from omegamax.structured import sparsemap
        >>> marginals, found = sparsemap(torch.tensor([1.0, 0.5, 0.0]), Subsets(2), return_structures=True)
        >>> marginals
        tensor([1.0000, 0.7500, 0.2500])
        >>> found.structures, found.probabilities
        (tensor([[1., 1., 0.],
                [1., 0., 1.]]), tensor([0.7500, 0.2500]))
    """

    def kind(self, event: tuple[int, ...]) -> tuple[str, tuple[int, ...], Tensor | None]:
        (size,) = event
        return "k_subsets", (size, self._largest(size), int(self.at_most)), None

    def solve(
        self,
        scores: Tensor,
        additional: Tensor | None = None,
        *,
        start: ActiveSet | None = None,
        structures: bool = False,
        tol: float = TOLERANCE,
        max_iter: int | None = None,
    ) -> Solution:
        self.check_left(scores)
        active = None
        if structures:
            active = super().solve(scores, additional, start=start, tol=tol, max_iter=max_iter).active
        return _ThresholdSolution(scores.detach(), self.k, self.at_most, active)

    def __repr__(self) -> str:
        return f"Subsets(k={self.k}{', at_most=True' if self.at_most else ''})"


class _ThresholdSolution(Solution):
    """Marginals by a threshold, without structures unless they are wanted."""

    additional_marginals = None

    def __init__(self, scores: Tensor, k: int, at_most: bool, active: ActiveSet | None):
        self.active = active
        with torch.no_grad():
            self.marginals = k_subsets(scores, k, at_most=at_most)
            self.slack = (scores.clamp(0, 1).sum(-1, keepdim=True) <= k) if at_most else None

    def jvp(self, d_scores: Tensor, d_additional: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        p = self.marginals
        tight = k_subsets_vjp(p, d_scores, -1)
        if self.slack is None:
            return tight, None
        return torch.where(self.slack, torch.where((p > 0) & (p < 1), d_scores, 0.0), tight), None


class SequentialSubsets(_SizedSubsets):
    r"""The 0/1 sequences with k ones, scores ``[*, n]``; neighbours that are both ones earn a transition score.

    .. math:: \sum_i x_i y_i + \sum_i t_i y_i y_{i+1}

    Args:
        k: number of ones.
        transition: score of two ones in a row: a number, or a tensor that broadcasts to ``[*, n - 1]``. Gradients
            reach it. ``additional`` scores ``[*, n - 1]`` take its place.
        at_most: let sequences with fewer ones in.

        >>> from omegamax.structured import sparsemap
        >>> sparsemap(torch.tensor([1.0, 0.5, 0.0, 0.875]), SequentialSubsets(2, transition=0.5))
        tensor([0.7500, 0.5625, 0.2500, 0.4375])

    Reference: Santos et al. (ICML 2024), Sec. 4.
    """

    def __init__(self, k: int, transition: float | Tensor = 0.0, at_most: bool = False):
        super().__init__(k, at_most)
        if not is_number(transition):
            check_type("SequentialSubsets", "transition", transition, Tensor, "a number or a tensor")
        self.transition = transition

    def kind(self, event: tuple[int, ...]) -> tuple[str, tuple[int, ...], Tensor | None]:
        (size,) = event
        return "sequential_k_subsets", (size, self._largest(size), int(self.at_most)), None

    def search(
        self, scores: Tensor, additional: Tensor, start: ActiveSet | None, tol: float, max_iter: int
    ) -> ActiveSet:
        self.check_left(scores)
        return super().search(close_gaps(scores, additional, self.at_most), additional, start, tol, max_iter)

    def additional_size(self, event: tuple[int, ...]) -> int:
        return event[0] - 1

    def additional_scores(self, scores: Tensor) -> Tensor:
        shape = (*scores.shape[:-1], scores.shape[-1] - 1)
        return expand_parameter(repr(self), "transition", self.transition, scores, shape)

    def additional_features(self, target: Tensor) -> Tensor:
        return target[..., :-1] * target[..., 1:]

    def __repr__(self) -> str:
        more = ", at_most=True" if self.at_most else ""
        at = tuple(self.transition.shape) if isinstance(self.transition, Tensor) else self.transition
        return f"SequentialSubsets(k={self.k}, transition={at}{more})"
