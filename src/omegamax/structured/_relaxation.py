"""The problem that a factor graph poses: one vector of marginals, on which all factors agree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from omegamax.kernels.active_set import ActiveSet
from omegamax.structured._blocks import Block, Local

Copies = list[Tensor]  # for each block [B, K, m]: the marginals, or anything else, as its factors see them


@dataclass
class Relaxation:
    r"""LP-SparseMAP for B examples of one graph with N variables.

    .. math:: \max_u \langle \eta, u \rangle + \sum_f \phi_f(u_f) - \tfrac12 \lVert u \rVert^2
              \quad\text{such that}\quad u_f \in P_f, \; u \in [0, 1]^N

    where :math:`u_f` are the marginals of the variables of factor f and :math:`\phi_f` is what its additional scores
    are worth at best given those.
    """

    scores: Tensor  # [B, N], finite
    forbidden: Tensor  # [B, N]: variables that must be off
    blocks: list[Block]
    additional: list[Tensor | None]  # for each block [B, K, a]

    @property
    def size(self) -> int:
        return self.scores.shape[1]

    @cached_property
    def degree(self) -> Tensor:
        """How often each variable occurs in factors, ``[N]``."""
        ones = [torch.ones_like(block.sign)[None] * block.sign for block in self.blocks]
        return self.collect(ones)[0] if ones else self.scores.new_zeros(self.size)

    @cached_property
    def scale(self) -> Tensor:
        """What dual residuals are measured by, ``[B]``."""
        return 1 + self.scores.abs().amax(1)

    def local(self, u: Tensor) -> Copies:
        return [block.local(u) for block in self.blocks]

    def spread(self, x: Tensor) -> Copies:
        return [block.spread(x) for block in self.blocks]

    def collect(self, copies: Copies) -> Tensor:
        """Sum of what the factors say of each variable, ``[B, N]``; the transpose of :meth:`spread`."""
        total = self.scores.new_zeros(copies[0].shape[0] if copies else len(self.scores), self.size)
        for block, copy in zip(self.blocks, copies, strict=True):
            total = total + block.collect(copy, self.size)
        return total

    def solve(self, z: Copies, rho: Tensor, starts: list[ActiveSet | None] | None = None) -> list[Local]:
        """Each factor by itself: scores ``z``, its additional scores over ``rho [B]``."""
        starts = starts or [None] * len(self.blocks)
        return [
            block.rule.solve(scores, None if extra is None else extra / rho[:, None, None], start)
            for block, scores, extra, start in zip(self.blocks, z, self.additional, starts, strict=True)
        ]

    def select(self, rows: Tensor) -> Relaxation:
        """The same for some of the examples."""
        extra = [None if a is None else a[rows] for a in self.additional]
        return replace(self, scores=self.scores[rows], forbidden=self.forbidden[rows], additional=extra)

    def average(self, local: list[Local]) -> Tensor:
        """Marginals ``[B, N]`` from those of the factors: their mean, exactly 0 or 1 where one of them is."""
        copies = [copy.marginals - block.shift for block, copy in zip(self.blocks, local, strict=True)]
        mean = self.collect(copies) / self.degree.clamp(min=1)
        for bound in (0.0, 1.0):
            hits = [
                torch.where(copy.marginals == (block.sign * bound + block.shift), block.sign, 0.0)
                for block, copy in zip(self.blocks, local, strict=True)
            ]
            mean = torch.where(self.collect(hits) > 0, bound, mean)
        return self.bounded(mean)

    def bounded(self, u: Tensor) -> Tensor:
        """With the variables that no factor touches at their own best, and forbidden ones at 0."""
        return torch.where(self.degree == 0, self.scores.clamp(0, 1), u).masked_fill(self.forbidden, 0.0)

    def unbounded(self, x: Tensor) -> Tensor:
        """With zeros for the variables of :meth:`bounded`, whose bounds explain any score."""
        return x.masked_fill(self.forbidden | (self.degree == 0), 0.0)
