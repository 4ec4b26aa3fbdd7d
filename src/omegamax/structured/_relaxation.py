"""The problem that a factor graph poses: one vector of marginals, on which all factors agree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from omegamax.structured._blocks import Block, Local
from omegamax.structured._elimination import Order


@dataclass
class Relaxation:
    r"""LP-SparseMAP for B examples of one graph with N variables.

    .. math:: \max_u \langle \eta, u \rangle + \sum_f \phi_f(u_f) - \tfrac12 \lVert u \rVert^2
              \quad\text{such that}\quad u_f \in P_f, \; u \in [0, 1]^N

    where :math:`u_f` are the marginals of the variables of factor f and :math:`\phi_f` is what its additional scores
    are worth at best given those. What the factors see, or say, of their variables is laid out block by block, as
    copies ``[B, E]``.
    """

    scores: Tensor  # [B, N], finite
    forbidden: Tensor  # [B, N]: variables that must be off
    blocks: list[Block]
    additional: list[Tensor | None]  # for each block [B, K, a]

    @property
    def size(self) -> int:
        return self.scores.shape[1]

    @cached_property
    def index(self) -> Tensor:
        """Whose copies they are, ``[E]``."""
        none = torch.zeros(0, dtype=torch.long, device=self.scores.device)
        return torch.cat([none, *(block.index.flatten() for block in self.blocks)])

    @cached_property
    def shift(self) -> Tensor:
        """Negation, here and in :attr:`sign` and nowhere else: a factor sees ``shift + sign * u``, ``[E]``."""
        return torch.cat([self.scores.new_zeros(0), *(block.negated.flatten().double() for block in self.blocks)])

    @cached_property
    def sign(self) -> Tensor:
        return 1 - 2 * self.shift

    @cached_property
    def degree(self) -> Tensor:
        """How often each variable occurs in factors, ``[N]``."""
        return self.collect(self.sign[None])[0]

    @cached_property
    def scale(self) -> Tensor:
        """What dual residuals are measured by, ``[B]``."""
        return 1 + self.scores.abs().amax(1)

    @cached_property
    def order(self) -> Order:
        """In which to eliminate the variables."""
        return Order(self.size, self.blocks)

    def local(self, u: Tensor) -> Tensor:
        """What the factors see of marginals ``[B, N]``: copies, or ``1 - u`` of negated variables."""
        return self.shift + self.spread(u)

    def spread(self, x: Tensor) -> Tensor:
        """The linear part of :meth:`local`."""
        return self.sign * x[:, self.index]

    def collect(self, copies: Tensor) -> Tensor:
        """Sum of what the factors say of each variable, ``[B, N]``: the transpose of :meth:`spread`."""
        return copies.new_zeros(len(copies), self.size).index_add(1, self.index, self.sign * copies)

    def parts(self, copies: Tensor) -> list[Tensor]:
        """Copies block by block, ``[B, K, m]``."""
        pieces = copies.split([block.index.numel() for block in self.blocks], 1)
        return [piece.unflatten(1, block.index.shape) for piece, block in zip(pieces, self.blocks, strict=True)]

    def joined(self, parts: list[Tensor]) -> Tensor:
        """Copies from their blocks."""
        return torch.cat([self.scores.new_zeros(len(self.scores), 0), *(part.flatten(1) for part in parts)], 1)

    def solve(self, z: Tensor, rho: Tensor, starts: list[Any] | None = None) -> list[Local]:
        """Each factor by itself: scores ``z [B, E]``, its additional scores over ``rho [B]``."""
        starts = starts or [None] * len(self.blocks)
        return [
            block.rule.solve(scores, None if extra is None else extra / rho[:, None, None], start)
            for block, scores, extra, start in zip(self.blocks, self.parts(z), self.additional, starts, strict=True)
        ]

    def select(self, rows: Tensor) -> Relaxation:
        """The same for some of the examples."""
        extra = [None if a is None else a[rows] for a in self.additional]
        fewer = replace(self, scores=self.scores[rows], forbidden=self.forbidden[rows], additional=extra)
        if "order" in self.__dict__:
            fewer.order = self.order  # of the graph, whatever the examples
        return fewer

    def average(self, marginals: Tensor) -> Tensor:
        """Marginals ``[B, N]`` from those of the factors: their mean, exactly 0 or 1 where one of them is."""
        mean = self.collect(marginals - self.shift) / self.degree.clamp(min=1)
        for bound in (0.0, 1.0):
            hits = torch.where(marginals == self.shift + self.sign * bound, self.sign, 0.0)
            mean = torch.where(self.collect(hits) > 0, bound, mean)
        return self.bounded(mean)

    def bounded(self, u: Tensor) -> Tensor:
        """With the variables that no factor touches at their own best, and forbidden ones at 0."""
        return torch.where(self.degree == 0, self.scores.clamp(0, 1), u).masked_fill(self.forbidden, 0.0)

    def unbounded(self, x: Tensor) -> Tensor:
        """With zeros for the variables of :meth:`bounded`, whose bounds explain any score."""
        return x.masked_fill(self.forbidden | (self.degree == 0), 0.0)
