"""The problem that a factor graph poses, marginals on which all factors agree, and iterates on the way to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from omegamax.structured._blocks import Block, LocalSolution
from omegamax.structured._elimination import EliminationOrder


@dataclass
class Relaxation:
    r"""LP-SparseMAP for B examples of one graph with N variables.

    .. math:: \max_u \langle \eta, u \rangle + \sum_f \phi_f(u_f) - \tfrac12 \lVert u \rVert^2
              \quad\text{such that}\quad u_f \in P_f, \; u \in [0, 1]^N

    where :math:`u_f` are the marginals of the variables of factor f and :math:`\phi_f` is what its additional scores
    are worth at best given those. Every factor has copies of its variables, one for each of the E edges between factors
    and variables; tensors ``[B, E]`` hold them block by block.
    """

    scores: Tensor  # eta, [B, N], finite
    forbidden: Tensor  # [B, N]: variables that must be off
    blocks: list[Block]
    additional: list[Tensor | None]  # for each block [B, K, a]

    @property
    def size(self) -> int:
        """N, the number of variables."""
        return self.scores.shape[1]

    @cached_property
    def index(self) -> Tensor:
        """The variable of each copy, ``[E]``."""
        empty = torch.zeros(0, dtype=torch.long, device=self.scores.device)
        return torch.cat([empty, *(block.index.flatten() for block in self.blocks)])

    @cached_property
    def shift(self) -> Tensor:
        """Negation, here and in :attr:`sign` and nowhere else: a factor sees ``shift + sign * u``, ``[E]``."""
        return torch.cat([self.scores.new_zeros(0), *(block.negated.flatten().double() for block in self.blocks)])

    @cached_property
    def sign(self) -> Tensor:
        """-1 where a variable is negated, else 1, ``[E]``."""
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
    def order(self) -> EliminationOrder:
        """The order in which to eliminate the variables."""
        return EliminationOrder(self.size, self.blocks)

    def copy(self, u: Tensor) -> Tensor:
        """Return what the factors see of marginals ``[B, N]``: copies ``[B, E]``, or ``1 - u`` of negated variables."""
        return self.shift + self.spread(u)

    def spread(self, x: Tensor) -> Tensor:
        """Return the linear part of :meth:`copy`."""
        return self.sign * x[:, self.index]

    def collect(self, copies: Tensor) -> Tensor:
        """Sum what the factors say of each variable, ``[B, N]``: the transpose of :meth:`spread`."""
        return copies.new_zeros(len(copies), self.size).index_add(1, self.index, self.sign * copies)

    def split(self, copies: Tensor) -> list[Tensor]:
        """Split copies into those of the blocks, ``[B, K, m]``."""
        pieces = copies.split([block.index.numel() for block in self.blocks], 1)
        return [piece.unflatten(1, block.index.shape) for piece, block in zip(pieces, self.blocks, strict=True)]

    def join(self, parts: list[Tensor]) -> Tensor:
        """Join copies of the blocks, the inverse of :meth:`split`."""
        return torch.cat([self.scores.new_zeros(len(self.scores), 0), *(part.flatten(1) for part in parts)], 1)

    def solve_factors(self, z: Tensor, rho: Tensor, starts: list[Any] | None = None) -> list[LocalSolution]:
        """Solve each factor by itself: for messages ``z [B, E]``, with its additional scores over ``rho [B]``."""
        starts = starts or [None] * len(self.blocks)
        return [
            block.solver.solve(scores, None if extra is None else extra / rho[:, None, None], start)
            for block, scores, extra, start in zip(self.blocks, self.split(z), self.additional, starts, strict=True)
        ]

    def select(self, rows: Tensor) -> Relaxation:
        """Return the problem of some of the examples."""
        extra = [None if a is None else a[rows] for a in self.additional]
        fewer = replace(self, scores=self.scores[rows], forbidden=self.forbidden[rows], additional=extra)
        if "order" in self.__dict__:
            fewer.order = self.order  # of the graph, whatever the examples
        return fewer

    def average(self, marginals: Tensor) -> Tensor:
        """Return marginals ``[B, N]`` from those of the factors: their mean, exactly 0 or 1 where one of them is."""
        mean = self.collect(marginals - self.shift) / self.degree.clamp(min=1)
        for bound in (0.0, 1.0):
            hits = torch.where(marginals == self.shift + self.sign * bound, self.sign, 0.0)
            mean = torch.where(self.collect(hits) > 0, bound, mean)
        return self.fix_decided(mean)

    def fix_decided(self, u: Tensor) -> Tensor:
        """Put variables that no factor touches at their own best, and forbidden ones at 0."""
        return torch.where(self.degree == 0, self.scores.clamp(0, 1), u).masked_fill(self.forbidden, 0.0)

    def drop_decided(self, x: Tensor) -> Tensor:
        """Put zeros for the variables of :meth:`fix_decided`, whose bounds explain any score."""
        return x.masked_fill(self.forbidden | (self.degree == 0), 0.0)


@dataclass
class Iterate:
    """A round of an iteration: each factor was solved for its messages ``z``, as ``local``; all together say ``u``."""

    problem: Relaxation
    z: Tensor  # [B, E]
    rho: Tensor  # [B]: the penalty
    local: list[LocalSolution]
    u: Tensor  # [B, N]

    @cached_property
    def marginals(self) -> Tensor:
        """Those of the factors by themselves, ``[B, E]``."""
        return self.problem.join([part.marginals for part in self.local])

    @cached_property
    def disagreement(self) -> Tensor:
        """What the factors see of u, less their own marginals, ``[B, E]``."""
        return self.problem.copy(self.u) - self.marginals

    @cached_property
    def multipliers(self) -> Tensor:
        r"""Normals :math:`\nu_f = \rho (z_f - u_f)` of the polytopes at the marginals of the factors, ``[B, E]``.

        At the solution they add up to what the scores leave unexplained, :math:`\sum_f \nu_f = \eta - u`.
        """
        return self.rho[:, None] * (self.z - self.marginals)

    @cached_property
    def imbalance(self) -> Tensor:
        """How much the multipliers add up to beyond that, ``[B, N]``."""
        return self.problem.drop_decided(self.u - self.problem.scores + self.problem.collect(self.multipliers))

    @cached_property
    def primal_residual(self) -> Tensor:
        """How far the factors are from agreeing, ``[B]``."""
        return self.disagreement.abs().amax(1) if self.disagreement.shape[1] else torch.zeros_like(self.rho)

    @cached_property
    def dual_residual(self) -> Tensor:
        """How far the multipliers are from adding up, ``[B]``, relative to the scores."""
        return self.imbalance.abs().amax(1) / self.problem.scale

    @property
    def residual(self) -> Tensor:
        """The larger of both, ``[B]``."""
        return torch.maximum(self.primal_residual, self.dual_residual)

    @property
    def duality_gap(self) -> Tensor:
        """The gap of the objective, at u and what the factors say of the additional scores, ``[B]``."""
        return self.imbalance.square().sum(1) / 2 - (self.multipliers * self.disagreement).sum(1)

    def warm_start(self, rows: Tensor | None = None) -> list[Any]:
        """Return where the factors start in the next round, for some of the examples or all."""
        return [part.warm_start(rows) for part in self.local]
