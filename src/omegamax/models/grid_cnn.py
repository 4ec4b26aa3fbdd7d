"""A small convolutional network from pixels to a grid of features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._checks import check_floating


class GridCNN(torch.nn.Module):
    """Features of the cells of a grid over an image: ``[B, 3, H, W] -> [B, h w, D]``, row by row.

    A few convolutions, each at half the resolution of the one before, until the next would go below the grid, the rest
    at that resolution; then the mean over each cell. Groups are normalised and not batches, so that an example does
    not see the others, and two processes with half a batch each learn what one does.

    Answers alone are a poor teacher of features: train it first to say what is in each cell, as the papers' features
    come from a network trained on ImageNet.

    Args:
        dim: features D of a cell.
        grid: cells ``(h, w)``.
        widths: channels of the convolutions, multiples of 8.
        coordinates: show the network where it looks, as two more channels from -1 to 1, since attention does not know
            the place of a cell.

        >>> GridCNN(64, (14, 14))(torch.rand(2, 3, 112, 112)).shape
        torch.Size([2, 196, 64])
    """

    def __init__(
        self,
        dim: int,
        grid: tuple[int, int] = (14, 14),
        widths: Sequence[int] = (16, 32, 64, 64, 64),
        coordinates: bool = True,
    ):
        super().__init__()
        if not widths or any(width % 8 or width < 8 for width in widths):
            raise ValueError(f"GridCNN: widths must be multiples of 8, at least one, got {tuple(widths)}")
        self.grid = grid
        self.coordinates = coordinates
        depths = [3 + 2 * coordinates, *widths]
        self.convolutions = torch.nn.ModuleList(torch.nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(depths))
        self.norms = torch.nn.ModuleList(torch.nn.GroupNorm(8, width) for width in widths)
        self.project = torch.nn.Linear(widths[-1], dim)

    def forward(self, image: Tensor) -> Tensor:
        check_floating("GridCNN", "image", image, "a floating-point tensor with values in [0, 1]")
        if image.dim() != 4 or image.shape[1] != 3 or min(image.shape[2:]) == 0:
            raise ValueError(f"GridCNN: image must be [B, 3, H, W], got shape {tuple(image.shape)}")
        x = 2 * image - 1
        if self.coordinates:
            x = torch.cat([x, _places(x)], 1)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            assert isinstance(convolution, torch.nn.Conv2d)
            stride = 2 if x.shape[2] >= 2 * self.grid[0] and x.shape[3] >= 2 * self.grid[1] else 1
            x = F.conv2d(x, convolution.weight, convolution.bias, stride, 1)
            x = F.relu(norm(x))
        x = F.adaptive_avg_pool2d(x, self.grid) if tuple(x.shape[2:]) != tuple(self.grid) else x
        return self.project(x.flatten(2).transpose(1, 2))

    def extra_repr(self) -> str:
        return f"grid={self.grid}, coordinates={self.coordinates}"


def _places(x: Tensor) -> Tensor:
    """Row and column of each pixel, from -1 to 1, ``[B, 2, H, W]``."""
    rows, columns = (torch.linspace(-1, 1, k, dtype=x.dtype, device=x.device) for k in x.shape[2:])
    return torch.stack(torch.meshgrid(rows, columns, indexing="ij")).expand(len(x), -1, -1, -1)
