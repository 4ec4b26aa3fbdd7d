"""A kind of attention over the cells of images: scores become weights, and weights a context."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from omegamax import nn
from omegamax.basis import Basis, GaussianRBF, TruncatedParaboloidRBF
from omegamax.densities import Density
from omegamax.mixtures import AIC, BIC, MDL, Criterion, Linear
from omegamax.models.attention_kind import weigh_subset
from omegamax.models.mcan.config import OutputConfig
from omegamax.models.mcan.grid import ImageGrid
from omegamax.nn.transforms import apply

CRITERIA = {"bic": BIC, "aic": AIC, "mdl": MDL}


class GridLook(torch.nn.Module):
    r"""Attention of one kind over cells, from scores that something else gives.

    .. math:: p = \hat p(z), \qquad c = \sum_l p_l x_l \quad\text{or}\quad c = E_q[V(t)]

    A discrete kind maps scores z to weights p; a continuous one maps them by ``config.discrete``, makes a density q
    with their moments, or fits a mixture to them, and takes the mean of the function V that ridge regression puts
    through the features. Cells missing inside an image have no weight; V is not fitted there, or with ``padding`` it is
    fitted to 0, as around the image. Before they are mapped, scores are multiplied by the buffer ``score_scale``.

    Args:
        config: which kind.
        score: network that gives the scores; None: they come from outside.
        query_dim: features of a query that a density is predicted from, in place of weights.

        >>> look = GridLook(OutputConfig("continuous_sparsemax"))
        >>> weights = look.weigh(torch.randn(2, 7, 30), ImageGrid((5, 6)))  # of seven words
        >>> context, density = look.attend(torch.randn(2, 30, 8), weights, ImageGrid((5, 6)))
        >>> context.shape, density.mean.shape
        (torch.Size([2, 7, 8]), torch.Size([2, 7, 2]))
    """

    def __init__(self, config: OutputConfig, score: torch.nn.Module | None = None, query_dim: int | None = None):
        super().__init__()
        self.config = config
        self.score = score
        self.transform = config.make_transform()
        self.density = _density(config, query_dim)
        self.score_scale: Tensor
        self.register_buffer("score_scale", torch.full((), float(config.scale)))

    def weigh(self, z: Tensor, grid: ImageGrid) -> Tensor:
        """Return the discrete weights of cells with scores z, ``[B, L] -> [B, L]`` or ``[B, Q, L] -> [B, Q, L]``."""
        # One number, or one for each example.
        scale = self.score_scale.to(z.dtype)
        return self.map_scores(scale.reshape(scale.shape + (1,) * (z.dim() - scale.dim())) * z, grid)

    def attend(
        self, x: Tensor, weights: Tensor, grid: ImageGrid, query: Tensor | None = None
    ) -> tuple[Tensor, Density | None]:
        """Return context and density of looks with these weights, or of the density that a query asks for.

        Args:
            x: features ``[B, L, D]``.
            weights: ``[B, L]``, or those of Q looks at each image, ``[B, Q, L]``.
            grid: the cells.
            query: ``[B, query_dim]``.

        Returns:
            contexts ``[B, D]`` or ``[B, Q, D]``, and the density of batch ``[B]`` or ``[B, Q]``; None of a discrete
            kind.
        """
        if self.density is None:
            if weights.dim() == 3:
                return weights.to(x.dtype) @ x, None
            return torch.einsum("bl,bld->bd", weights.to(x.dtype), x), None
        several = weights.dim() == 3
        where = self.locate(grid)
        values, holes = grid.pack(x), where.pop("mask")
        if holes is not None and self.config.padding:
            values, holes = values.masked_fill(~holes.unsqueeze(-1), 0.0), None
        if several:
            # One fit for all looks at an image; sizes that all images share have no batch.
            values = values.unsqueeze(1)
            holes = None if holes is None else holes.unsqueeze(1)
            where = {k: v.unsqueeze(1) if isinstance(v, Tensor) else v for k, v in where.items()}
        if query is not None:
            return self.density(values, query=query, mask=holes, **where)
        packed = grid.pack(weights.mT).mT if several else grid.pack(weights)
        return self.density(values, packed, mask=holes, **where)

    def locate(self, grid: ImageGrid) -> dict[str, Any]:
        """Return where the values of a density are, as its layers take it."""
        if grid.boxes is None:
            return {"lengths": grid.shape if grid.sizes is None else grid.sizes, "mask": grid.holes}
        if self.density is not None and self.config.padding:
            raise ValueError("OutputAttention: boxes leave no grid to pad, got padding=True; give padding=False")
        whole = self.config.boxes == "whole"
        return {"positions": grid.middles, "mask": grid.mask, "extents": grid.sides if whole else None}

    def map_scores(self, z: Tensor, grid: ImageGrid) -> Tensor:
        """Return the weights of scores as they are, without ``score_scale``."""
        mask = grid.mask if grid.mask is None or z.dim() == 2 else grid.mask.unsqueeze(1)
        if mask is not None:
            z = z.masked_fill(~mask, -torch.inf)
        if isinstance(self.transform, nn.TVmax):
            if grid.boxes is not None:
                raise ValueError("OutputAttention: tvmax needs cells with neighbours, got boxes")
            return self.transform(z.unflatten(-1, grid.shape)).flatten(-2)
        if self.transform is None:
            return weigh_subset(z, self.config.k, mask)
        return apply(self.transform, z)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # Weights that were written before there was a scale have the scale 1.
        state_dict.setdefault(f"{prefix}score_scale", torch.ones(()))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _density(config: OutputConfig, query_dim: int | None) -> nn.ContinuousAttention | nn.MultimodalAttention | None:
    if not config.continuous:
        return None
    basis: Basis = GaussianRBF.grid(config.functions, 2, config.variance)
    if config.basis == "paraboloid":
        # In two dimensions the variance along an axis is sqrt(scale / (9 pi)).
        basis = TruncatedParaboloidRBF.grid(config.functions, 2, 9 * math.pi * config.variance**2)
    return config.make_density(
        basis,
        query_dim,
        criterion=_criterion(config.selection),
        iterations=config.iterations,
        restarts=config.restarts,
        init=config.init,
        mixing=config.mixing,
    )


def _criterion(selection: float | str) -> Criterion:
    return CRITERIA[selection]() if isinstance(selection, str) else Linear(float(selection))
