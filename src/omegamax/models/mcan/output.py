"""Attention over the image that the answer is read from: weights over cells, a density, or a mixture."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax import functional, nn
from omegamax._numerics import working_dtype
from omegamax.basis import Basis, GaussianRBF, TruncatedParaboloidRBF
from omegamax.densities import Density
from omegamax.maps import match_sharpness
from omegamax.mixtures import AIC, BIC, MDL, Criterion, Linear
from omegamax.models.mcan.blocks import FeedForward
from omegamax.models.mcan.config import OutputConfig
from omegamax.models.mcan.grid import GridAttention, ImageGrid
from omegamax.models.mcan.looks import join_looks, split_heads
from omegamax.models.mcan.numbers import count_numbers, density_numbers
from omegamax.nn.transforms import apply, resolve

CRITERIA = {"bic": BIC, "aic": AIC, "mdl": MDL}


class OutputAttention(torch.nn.Module):
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
        super().__init__()
        if dim % config.heads:
            raise ValueError(f"OutputAttention: dim must be a multiple of heads, got {dim} and {config.heads}")
        self.config = config
        self.score = None if self.predicts else FeedForward(dim, hidden, dropout, config.heads)
        self.transform = _transform(config)
        self.density = _density(config, dim if self.predicts else None)
        self.score_scale: Tensor
        self.register_buffer("score_scale", torch.full((), float(config.scale)))
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
        density, where = None, self._where(grid)
        if self.density is None:
            context = torch.einsum("bl,bld->bd", weights.to(x.dtype), x)
        else:
            values, holes = grid.pack(x), where.pop("mask")
            if holes is not None and self.config.padding:
                values, holes = values.masked_fill(~holes.unsqueeze(-1), 0.0), None
            if self.predicts:
                context, density = self.density(values, query=question, mask=holes, **where)
            else:
                context, density = self.density(values, grid.pack(weights), mask=holes, **where)
        if self.numbers is not None:
            known = density
            if known is None:
                assert self.place is not None
                known = self.place.match(grid.pack(weights), **where)
            said = density_numbers(known, self._components).to(x.dtype)
            context = context + (self.numbers @ said.unsqueeze(-1)).squeeze(-1)  # one matrix, or one for each example
        return context, density

    def _where(self, grid: ImageGrid) -> dict[str, Any]:
        """Return where the values of a density are, as its layers take it."""
        if grid.boxes is None:
            return {"lengths": grid.shape if grid.sizes is None else grid.sizes, "mask": grid.holes}
        if self.density is not None and self.config.padding:
            raise ValueError("OutputAttention: boxes leave no grid to pad, got padding=True; give padding=False")
        whole = self.config.boxes == "whole"
        return {"positions": grid.middles, "mask": grid.mask, "extents": grid.sides if whole else None}

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

    def weigh(self, z: Tensor, grid: ImageGrid) -> Tensor:
        """Return the discrete weights of cells with scores z, ``[B, L] -> [B, L]``."""
        scale = self.score_scale.to(z.dtype).unsqueeze(-1)  # one number, or one for each example
        return self._map(scale * z, grid)

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
            self.score_scale.fill_(match_sharpness(z, lambda scaled: self._map(scaled, grid), reference))

    def _map(self, z: Tensor, grid: ImageGrid) -> Tensor:
        if grid.mask is not None:
            z = z.masked_fill(~grid.mask, -torch.inf)
        if isinstance(self.transform, nn.TVmax):
            if grid.boxes is not None:
                raise ValueError("OutputAttention: tvmax needs cells with neighbours, got boxes")
            return self.transform(z.unflatten(-1, grid.shape)).flatten(1)
        if self.config.kind != "k_subsets":
            return apply(self.transform, z)
        k = min(float(self.config.k), float(z.shape[-1]))
        p = functional.k_subsets(z, k)
        if grid.mask is None:
            return p / k
        count = grid.mask.sum(-1, keepdim=True).to(p.dtype)
        return p / count.clamp(min=1).clamp(max=k)  # an image with fewer than k cells has them all

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # Weights that were written before there was a scale have the scale 1.
        state_dict.setdefault(f"{prefix}score_scale", torch.ones(()))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _transform(config: OutputConfig) -> Any:
    kind, alpha = config.kind, config.exponent
    if kind == "entmax" and alpha is not None:
        return nn.Entmax(alpha, learnable=config.learnable)
    if kind == "tvmax":
        return nn.TVmax(config.strength, learnable=config.learnable)
    if kind == "k_subsets":
        return nn.KSubsets(config.k)
    return resolve("OutputAttention", config.discrete if config.continuous else kind)


def _equal(x: Tensor, grid: ImageGrid) -> Tensor:
    """Return equal weights of the cells that are there, ``[B, L]``."""
    there = x.new_ones(x.shape[:2], dtype=working_dtype(x)) if grid.mask is None else grid.mask.to(working_dtype(x))
    return there / there.sum(-1, keepdim=True).clamp(min=1)


def _density(config: OutputConfig, query_dim: int | None) -> nn.ContinuousAttention | nn.MultimodalAttention | None:
    if not config.continuous:
        return None
    assert config.exponent is not None
    basis: Basis = GaussianRBF.grid(config.functions, 2, config.variance)
    if config.basis == "paraboloid":
        # In two dimensions the variance along an axis is sqrt(scale / (9 pi)).
        basis = TruncatedParaboloidRBF.grid(config.functions, 2, 9 * math.pi * config.variance**2)
    settings: dict[str, Any] = {
        "penalty": config.penalty,
        "padding": config.padding,
        "floor": config.floor,
        "learnable": config.learnable,
        "combined": config.combined,
        "query_dim": query_dim,
    }
    if config.kind != "multimodal":
        return nn.ContinuousAttention(basis, config.exponent, **settings)
    return nn.MultimodalAttention(
        basis,
        config.max_components,
        config.exponent,
        components=config.components,
        criterion=_criterion(config.selection),
        iterations=config.iterations,
        restarts=config.restarts,
        init=config.init,
        mixing=config.mixing,
        **settings,
    )


def _criterion(selection: float | str) -> Criterion:
    return CRITERIA[selection]() if isinstance(selection, str) else Linear(float(selection))
