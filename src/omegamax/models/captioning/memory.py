"""What a decoder knows of pictures: the features of their cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.models.captioning.config import CaptionConfig
from omegamax.models.grid_cnn import GridCNN
from omegamax.models.mcan import ImageGrid


@dataclass(frozen=True, eq=False)
class ImageMemory:
    """Features ``values [B, L, D]`` of the cells of B images, and what a decoder computed of them beforehand."""

    values: Tensor
    grid: ImageGrid
    keys: tuple[Tensor, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def select(self, rows: Tensor) -> ImageMemory:
        """Return the images of these numbers, ``[N]``."""
        grid = self.grid
        parts = (None if part is None else part[rows] for part in (grid.mask, grid.given))
        return ImageMemory(self.values[rows], ImageGrid(grid.shape, *parts), tuple(key[rows] for key in self.keys))

    def mean(self) -> Tensor:
        """Return the mean over the cells that are there, ``[B, D]``."""
        mask = self.grid.mask
        if mask is None:
            return self.values.mean(1)
        there = mask.unsqueeze(-1).to(self.values.dtype)
        return (self.values * there).sum(1) / there.sum(1).clamp(min=1)


class ImageEncoder(torch.nn.Module):
    """Features of cells, through a linear layer and ReLU: ``forward(batch)`` returns an :class:`ImageMemory`.

    The batch has ``features [B, L, image_dim]`` with ``grid`` and, for images smaller than the grid, ``feature_mask``
    and ``sizes``; or, if built with ``pixels``, ``image [B, 3, H, W]`` in [0, 1].

    Args:
        config: sizes.
        dim: features D of a cell after the layer.
    """

    def __init__(self, config: CaptionConfig, dim: int):
        super().__init__()
        self.cnn = GridCNN(config.image_dim, config.grid) if config.pixels else None
        self.project = torch.nn.Linear(config.image_dim, dim)
        self.grid = config.grid

    def forward(self, batch: Mapping[str, Any]) -> ImageMemory:
        if "features" in batch:
            features, grid = batch["features"], _find_grid(batch)
        elif self.cnn is None:
            raise ValueError("ImageEncoder: a network without pixels=True needs features, and the batch has none")
        else:
            features, grid = self.cnn(batch["image"]), ImageGrid(self.grid)
        if features.shape[-1] != self.project.in_features:
            wanted, given = self.project.in_features, features.shape[-1]
            raise ValueError(f"ImageEncoder: features must have {wanted} channels (image_dim), got {given}")
        features = features.to(self.project.weight.dtype)
        if grid.mask is not None:  # a weight of 0 would not stop a NaN
            features = features.masked_fill(~grid.mask.unsqueeze(-1), 0.0)
        return ImageMemory(torch.relu(self.project(features)), grid)


def _find_grid(batch: Mapping[str, Any]) -> ImageGrid:
    features, shape = batch["features"], tuple(batch["grid"])
    if features.dim() != 3 or features.shape[1] != shape[0] * shape[1]:
        given = tuple(features.shape)
        raise ValueError(f"ImageEncoder: features must be [B, {shape[0]} * {shape[1]}, D], got shape {given}")
    mask, sizes = batch.get("feature_mask"), batch.get("sizes")
    if sizes is not None and bool((sizes == torch.tensor(shape, device=sizes.device)).all()):
        return ImageGrid(shape)
    return ImageGrid(shape, mask, sizes)
