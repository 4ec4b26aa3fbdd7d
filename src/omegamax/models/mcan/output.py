"""Attention over the image that the answer is read from: weights over cells, a density, or a mixture."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax import functional, nn
from omegamax._numerics import working_dtype
from omegamax.basis import GaussianRBF
from omegamax.densities import Density
from omegamax.maps import match_sharpness
from omegamax.models.mcan.blocks import FeedForward
from omegamax.models.mcan.config import OutputConfig
from omegamax.models.mcan.grid import GridAttention, ImageGrid
from omegamax.models.mcan.look import GridLook
from omegamax.models.mcan.looks import join_looks, split_heads
from omegamax.models.mcan.numbers import count_numbers, density_numbers


class OutputAttention(GridLook):
    r"""Looks at the image: ``forward(x [B, L, D], grid)`` returns the context ``[B, D]`` and where it came from.

    .. math:: \tilde x = \sum_l p_l x_l \quad\text{or}\quad \tilde x = E_p[V(t)], \qquad
              z_l = \mathrm{MLP}(x_l)

    Scores z come from the same network in every kind. A discrete kind maps them to weights p; a continuous one maps
    them to weights by ``config.discrete``, makes a density p with their moments, or fits a mixture to them, and takes
    the mean of the function V that ridge regression puts through the features. Cells missing inside an image have no
    weight; V is not fitted there, or with ``padding`` it is fitted to 0, as around the image.

    Before they are mapped, scores are multiplied by the buffer ``score_scale``: the ``scale`` of the settings until
    :meth:`match` sets it. With ``combined`` both contexts are added; with ``density_features`` a linear map of the
    numbers of the density is. With ``heads`` each look has its scores and its part of the features; with ``glimpses``
    the scores are :math:`\mathrm{MLP}(x_l + U \bar x)`, where :math:`\bar x` is the mean of the contexts so far. With
    ``source="question"`` there are no scores: ``forward(x, grid, question [B, D])`` predicts the density.

    Args:
        dim: features D of a cell.
        hidden: units of the network, with ``dropout`` after them.
        config: which kind.

        >>> look = OutputAttention(8, 16, OutputConfig("continuous_sparsemax"))
        >>> context, attention = look(torch.randn(3, 30, 8), ImageGrid((5, 6)))
        >>> context.shape, attention.weights.shape, attention.density.mean.shape
        (torch.Size([3, 8]), torch.Size([3, 5, 6]), torch.Size([3, 2]))

    References: Farinhas, "Visual attention with sparse and continuous transformations" (thesis, 2021), Sec. 6.2.2 and
    6.3.1; Farinhas, Martins and Aguiar (2021), Alg. 1; tvmax: Martins et al. (ICIP 2021).
    """

    def __init__(self, dim: int, hidden: int, config: OutputConfig, dropout: float = 0.0):
        if dim % config.heads:
            raise ValueError(f"OutputAttention: dim must be a multiple of heads, got {dim} and {config.heads}")
        predicts = config.source == "question"
        score = None if predicts else FeedForward(dim, hidden, dropout, config.heads)
        super().__init__(config, score, dim if predicts else None)
        # What is learnt beside the scores is nothing at first: weights learnt without it answer as they did.
        self.numbers: torch.nn.Parameter | None = None
        if config.density_features:
            self.numbers = torch.nn.Parameter(torch.zeros(dim, count_numbers(self._components)))
        self.update: torch.nn.Parameter | None = None
        if config.glimpses > 1:
            self.update = torch.nn.Parameter(torch.zeros(dim, dim))
        # Of a discrete kind, for its numbers only: no function is fitted.
        place = config.density_features and not config.continuous
        self.place = nn.ContinuousAttention(GaussianRBF.grid(1, 2, 1.0), floor=config.floor) if place else None

    @property
    def predicts(self) -> bool:
        """Tell whether the density is predicted from the question, and there are no scores."""
        return self.config.source == "question"

    def forward(self, x: Tensor, grid: ImageGrid, question: Tensor | None = None) -> tuple[Tensor, GridAttention]:
        heads, values = self.config.heads, split_heads(x, self.config.heads)
        each, seen = grid.repeat(heads), x
        contexts: list[Tensor] = []
        weights: list[Tensor] = []
        densities: list[Density] = []
        for _ in range(self.config.glimpses):
            if self.update is not None and contexts:
                seen = x + F.linear(torch.stack(contexts).mean(0), self.update).unsqueeze(1)
            p = _equal(values, each) if self.predicts else self.weigh(self.scores(seen), each)
            context, density = self._look(values, p, each, question)
            contexts.append(context.unflatten(0, (-1, heads)).flatten(1))
            weights.append(p.unflatten(0, (-1, heads)).mean(1))
            densities += [] if density is None else [density]
        shown = weights[0] if len(weights) == 1 else torch.stack(weights).mean(0)
        looks = len(densities) * heads
        joined = None if not looks else densities[0] if looks == 1 else join_looks(densities, heads)
        context = contexts[0] if len(contexts) == 1 else torch.stack(contexts).mean(0)
        return context, GridAttention(shown.unflatten(-1, grid.shape), grid, joined)

    def _look(
        self, x: Tensor, weights: Tensor, grid: ImageGrid, question: Tensor | None
    ) -> tuple[Tensor, Density | None]:
        """Return context ``[B, D]`` and density of one look with these weights ``[B, L]``, or of the question."""
        context, density = self.attend(x, weights, grid, question if self.predicts else None)
        if self.numbers is not None:
            known = density
            if known is None:
                assert self.place is not None
                known = self.place.match(grid.pack(weights), **self.locate(grid))
            said = density_numbers(known, self._components).to(x.dtype)
            context = context + (self.numbers @ said.unsqueeze(-1)).squeeze(-1)  # one matrix, or one for each example
        return context, density

    @property
    def _components(self) -> int | None:
        """Return the most components that a mixture may have; None for what is no mixture."""
        return self.config.max_components if self.config.kind == "multimodal" else None

    def scores(self, x: Tensor) -> Tensor:
        """Return the score of each cell, ``[B, L, D] -> [B H, L]``; the heads of an example are together."""
        if self.score is None:
            raise ValueError("OutputAttention: a density that is predicted from the question has no scores")
        z = self.score(x).mT.flatten(0, 1)
        return z.to(working_dtype(z))

    def match(self, x: Tensor, grid: ImageGrid, source: OutputAttention) -> None:
        """Set ``score_scale`` so that weights are as sharp, on average over these images, as those of ``source``.

        The scores are taken to be the same in both: weights learnt with one kind were loaded into another. K-subsets
        cannot be sharper than 1/k, and is compared with the weights of ``source`` capped there, the closest by
        Kullback-Leibler divergence: for softmax, constrained softmax.
        """
        with torch.no_grad():
            z, grid = self.scores(x).double(), grid.repeat(self.config.heads)
            reference = source.weigh(z, grid)
            if self.config.kind == "k_subsets":
                some = (reference > 0).sum(-1, keepdim=True).to(z.dtype)  # a sparse source may have fewer than k cells
                cap = 1 / some.clamp(min=1.0).clamp(max=float(self.config.k))
                reference = functional.constrained_softmax(reference.log(), cap)
            if grid.mask is not None:
                z = z.masked_fill(~grid.mask, -torch.inf)
            self.score_scale.fill_(match_sharpness(z, lambda scaled: self.map_scores(scaled, grid), reference))


def _equal(x: Tensor, grid: ImageGrid) -> Tensor:
    """Return equal weights of the cells that are there, ``[B, L]``."""
    there = x.new_ones(x.shape[:2], dtype=working_dtype(x)) if grid.mask is None else grid.mask.to(working_dtype(x))
    return there / there.sum(-1, keepdim=True).clamp(min=1)
