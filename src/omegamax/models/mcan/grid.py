"""Cells of images, and where on them a network looked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from omegamax import functional
from omegamax.densities import Density


@dataclass(frozen=True, eq=False)
class ImageGrid:
    """L = h w cells, row by row, of B images; smaller images take the upper left ones.

    Args:
        shape: ``(h, w)``, of the largest image.
        mask: ``[B, L]``, True where there is a cell; None: everywhere.
        given: rows and columns of each image, ``[B, 2]``; None: read from the mask, which on a GPU has to be waited
            for.
        boxes: corners x1, y1, x2, y2 in [0, 1] of boxes that take the place of cells, ``[B, L, 4]``, in any order; the
            shape is ``(1, L)``. They may overlap.

        >>> grid = ImageGrid((2, 3), torch.tensor([[True] * 6, [True, True, False, True, True, False]]))
        >>> grid.sizes.tolist(), grid.pack(torch.arange(12).view(2, 6)).tolist()
        ([[2, 3], [2, 2]], [[0, 1, 2, 3, 4, 5], [6, 7, 9, 10, 6, 6]])
    """

    shape: tuple[int, int]
    mask: Tensor | None = None
    given: Tensor | None = None
    boxes: Tensor | None = None

    @classmethod
    def of_sizes(cls, shape: tuple[int, int], sizes: Tensor) -> ImageGrid:
        """Return the grid of whole images with these rows and columns, ``[B, 2]``.

        >>> ImageGrid.of_sizes((2, 3), torch.tensor([[1, 2]])).mask
        tensor([[ True,  True, False, False, False, False]])
        """
        rows, columns = (
            torch.arange(k, device=sizes.device) < n for k, n in zip(shape, sizes.split(1, -1), strict=True)
        )
        return cls(shape, (rows.unsqueeze(-1) & columns.unsqueeze(-2)).flatten(1), sizes)

    @cached_property
    def sizes(self) -> Tensor | None:
        """Return rows and columns of each image, ``[B, 2]``, on the CPU; None: all have the full grid."""
        if self.mask is None or self.boxes is not None:
            return None
        if self.given is not None:
            sizes = self.given.cpu()
        else:
            cells = self.mask.unflatten(-1, self.shape)
            sizes = torch.stack([_last(cells.any(2)), _last(cells.any(1))], -1).cpu()
        return None if bool((sizes == torch.tensor(self.shape)).all()) else sizes

    @cached_property
    def holes(self) -> Tensor | None:
        """Return where images lack cells, the mask of all, packed; None: they are all whole."""
        if self.mask is None:
            return None
        full = len(self.mask) * self.shape[0] * self.shape[1]
        wanted = full if self.sizes is None else int(self.sizes.prod(-1).sum())
        if int(self.mask.sum()) == wanted:
            return None
        packed = self.pack(self.mask)
        if self.sizes is not None:  # what is behind the cells of a small image is a copy of its first
            packed = packed & (torch.arange(packed.shape[1]) < self.sizes.prod(-1, keepdim=True)).to(packed.device)
        return packed

    def repeat(self, times: int) -> ImageGrid:
        """Return the grid with each image so many times in a row."""
        if times == 1:
            return self
        parts = (self.mask, self.given, self.boxes)
        return ImageGrid(self.shape, *(None if part is None else part.repeat_interleave(times, 0) for part in parts))

    @property
    def middles(self) -> Tensor | None:
        """Return the centres of the boxes, ``[B, L, 2]``; None for cells."""
        return None if self.boxes is None else (self.boxes[..., :2] + self.boxes[..., 2:]) / 2

    @property
    def sides(self) -> Tensor | None:
        """Return width and height of the boxes, ``[B, L, 2]``; None for cells."""
        return None if self.boxes is None else self.boxes[..., 2:] - self.boxes[..., :2]

    def pack(self, x: Tensor) -> Tensor:
        """Put the cells of each image in front, row by row, ``[B, L, *]``; what is behind them has no meaning."""
        if self.sizes is None:
            return x
        index = torch.arange(x.shape[1])
        columns = self.sizes[:, 1:].clamp(min=1)
        index = index // columns * self.shape[1] + index % columns  # [B, L]
        index = torch.where(torch.arange(x.shape[1]) < self.sizes.prod(-1, keepdim=True), index, 0).to(x.device)
        return x[torch.arange(len(x), device=x.device).unsqueeze(-1), index]


@dataclass(frozen=True, eq=False)
class GridAttention:
    """Where a model looked: weights over the cells, and the density that was made from them, if one was.

    Args:
        discrete: weights ``[B, h, w]`` that sum to one (to zero for an image without cells); of several looks, their
            mean; of a density that was predicted, equal ones.
        grid: the cells.
        density: of batch ``[B]``, over the unit square that each image fills, x to the right and y down; of several
            looks, their mixture; or None.
    """

    discrete: Tensor
    grid: ImageGrid
    density: Density | None = None

    @property
    def sizes(self) -> Tensor | None:
        """Return rows and columns of each image, ``[B, 2]``; None: all have the full grid."""
        return self.grid.sizes

    @cached_property
    def weights(self) -> Tensor:
        """Return the attention that was paid to each cell, ``[B, h, w]``: the weights, or the shares of the density.

        Boxes overlap, and have no shares: for them these are the weights that the density was made from.
        """
        return self.discrete if self.density is None or self.grid.boxes is not None else self.shares()

    def shares(self, samples: int = 4) -> Tensor:
        """Return what each cell has of the density, ``[B, h, w]``, from ``samples`` x ``samples`` points in each.

        Sums to one: what lies outside the image is not counted, see :func:`~omegamax.metrics.on_grid`.
        """
        log, inside = self._logarithms(samples)
        h, w = self.discrete.shape[1:]
        p = functional.softmax(log.flatten(1), mask=inside.flatten(1))
        return p.unflatten(-1, (h, samples, w, samples)).sum((2, 4))

    def empty(self, samples: int = 4) -> Tensor:
        """Cells with exactly no attention, bool ``[B, h, w]``; what is merely too small for a float is not."""
        if self.density is None or self.grid.boxes is not None:
            return self.discrete == 0
        log, inside = self._logarithms(samples)
        h, w = self.discrete.shape[1:]
        none = (log.isneginf() | ~inside).unflatten(2, (w, samples)).unflatten(1, (h, samples))
        return none.all(4).all(2)

    def _logarithms(self, samples: int) -> tuple[Tensor, Tensor]:
        """Return log-densities at points of the cells, ``[B, h s, w s]``, and which points lie inside the image."""
        if self.density is None:
            raise ValueError("GridAttention: shares are those of a density, and this attention has none")
        batch, h, w = self.discrete.shape
        like = self.density.mean
        sizes = torch.tensor([[h, w]]) if self.sizes is None else self.sizes
        rows, columns = sizes.to(like.device, like.dtype).clamp(min=1).unsqueeze(-1).unbind(1)  # [B, 1]
        y = (torch.arange(h * samples, device=like.device) + 0.5) / (samples * rows)  # [B, h s]
        x = (torch.arange(w * samples, device=like.device) + 0.5) / (samples * columns)
        y, x = torch.broadcast_tensors(y.unsqueeze(-1), x.unsqueeze(-2))  # [B, h s, w s]
        points = torch.stack([x, y], -1).expand(batch, -1, -1, -1).to(like.dtype)
        log = self.density.log_prob(points.permute(1, 2, 0, 3)).permute(2, 0, 1)
        inside = (points < 1).all(-1)
        if self.sizes is not None:
            inside = inside & (self.sizes.prod(-1) > 0).to(like.device)[:, None, None]
        return log, inside


def _last(present: Tensor) -> Tensor:
    """Return one more than the last index that is True, ``[B, n] -> [B]``."""
    return (present * torch.arange(1, present.shape[1] + 1, device=present.device)).amax(1)
