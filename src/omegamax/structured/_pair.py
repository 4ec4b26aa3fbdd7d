"""Two variables that like, or dislike, to be on together."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from omegamax._arguments import check_type, is_number
from omegamax._checks import check_floating
from omegamax.structured._logic import BatchedFace, Face, LogicFactor, Polytope, is_interior
from omegamax.structured._variables import Variable


class PairPolytope(Polytope):
    r"""Two variables and an additional score s for both being on, :math:`\phi(u) = s v` with the best v.

    .. math:: \max(0, u_1 + u_2 - 1) \le v \le \min(u_1, u_2)

    Reference: Martins et al. (JMLR 2015), binary pairwise factors.
    """

    def project(self, z: Tensor, parameters: Tensor, additional: Tensor | None) -> Tensor:
        assert additional is not None
        # A score beyond this decides the pair, and -inf is met without a NaN.
        reach = z.abs().sum(-1, keepdim=True) + 4
        s = torch.minimum(torch.maximum(additional, -reach), reach)
        other = z.flip(-1)
        # s >= 0, v = min(u): the smaller one earns s, or they meet.
        liked = torch.where(z > other + s, z, torch.where(other > z + s, z + s, (z + other + s) / 2))
        # s < 0, v = max(0, u_1 + u_2 - 1): both pay, or neither, or they fill the unit exactly.
        total = z.sum(-1, keepdim=True)
        disliked = torch.where(total + 2 * s > 1, z + s, torch.where(total < 1, z, (z - other + 1) / 2))
        return torch.where(s >= 0, liked, disliked).clamp(0, 1)

    def additional_marginals(self, u: Tensor, additional: Tensor | None) -> Tensor:
        both, forced = u.amin(-1, keepdim=True), (u.sum(-1, keepdim=True) - 1).clamp(min=0)
        return both if additional is None else torch.where(additional >= 0, both, forced)

    def face(self, u: Tensor, parameters: Tensor, additional: Tensor | None, tol: float) -> Face:
        assert additional is not None
        free = is_interior(u, tol)
        liked = additional > 0
        gap = torch.where(liked, u[..., :1] - u[..., 1:], u.sum(-1, keepdim=True) - 1)
        held = (additional != 0) & (gap.abs() <= tol)
        free = free & (free.all(-1, keepdim=True) | ~held)
        sign = torch.cat([torch.ones_like(gap), torch.where(liked, 1.0, -1.0)], -1)
        # v changes with the smaller one, with the mean of both where they are held together, or with both.
        smaller = (torch.where(held, 0.5, (u < u.flip(-1)).double()) * liked) + (~liked & ~held & (gap > 0)).double()
        return _PairFace(free.double(), sign * (held & free), smaller * free)


class _PairFace(BatchedFace):
    """Free variables move, those ``held`` together as one; ``slope`` is how v changes with them."""

    def __init__(self, free: Tensor, held: Tensor, slope: Tensor):
        # held: the direction in which a pair held together moves, of length sqrt(2); zero for other pairs.
        self.free = free
        self.alone, self.held, self.slope = torch.where(held != 0, 0.0, free), held, slope

    def jvp(self, d_scores: Tensor | None, d_additional: Tensor | None = None) -> Tensor:
        moved = torch.zeros_like(self.alone)
        if d_scores is not None:
            moved = self.alone * d_scores + self.held * (self.held * d_scores).sum(-1, keepdim=True) / 2
        return moved if d_additional is None else moved + self.slope * d_additional


class Pair(LogicFactor):
    r"""Two variables with a score for being on together, added to those of their own.

    .. math:: s \, v, \qquad v = \text{the marginal of both}

    Args:
        first, second: variables of the same shape, paired entry by entry.
        score: s, a number or a tensor that broadcasts to ``[*batch, *shape]``; a negative one keeps them apart,
            ``-inf`` strictly. Not regularised. Gradients reach it.

        >>> from omegamax.structured import FactorGraph
        >>> fg = FactorGraph()
        >>> u = fg.variable_from(torch.tensor([0.5, 0.25, -0.5]))
        >>> fg.add(Pair(u[:-1], u[1:], 0.5))
        >>> _ = fg.solve()
        >>> u.value
        tensor([0.6250, 0.6250, 0.0000])

    Reference: Niculae & Martins (ICML 2020).
    """

    def __init__(self, first: Variable, second: Variable, score: float | Tensor):
        for argument, value in (("first", first), ("second", second)):
            check_type("Pair", argument, value, Variable)
        if first.shape != second.shape:
            raise ValueError(f"Pair: first and second must have one shape, got {first.shape} and {second.shape}")
        if is_number(score):
            score = torch.tensor(float(score), dtype=torch.float64)
        score = check_type("Pair", "score", score, Tensor, "a number or a tensor")
        check_floating("Pair", "score", score)
        if first.index.size == 0:
            raise ValueError(f"Pair: first and second must hold at least one variable, got shape {first.shape}")
        if first.graph is not second.graph:
            raise ValueError("Pair: first and second must belong to one FactorGraph, got variables of two")
        batch = first.graph.batch_shape
        try:
            score = score.expand((*batch, *first.shape))
        except RuntimeError:
            raise ValueError(
                f"Pair: score of shape {tuple(score.shape)} does not broadcast to the batch {batch} and the pairs "
                f"{first.shape}"
            ) from None
        super().__init__(
            first.graph,
            np.stack([first.index.reshape(-1), second.index.reshape(-1)], -1),
            np.stack([first.negated.reshape(-1), second.negated.reshape(-1)], -1),
            PairPolytope(),
            additional=score.reshape(*batch, first.index.size, 1),
        )
