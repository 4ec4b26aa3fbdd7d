"""The views of a picture that its features are made from: sizes, pieces, mirror images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from omegamax._arguments import check_integer
from omegamax.data.pictures import Size, check_size, resize

MOST_CROPS = 16


@dataclass(frozen=True)
class Views:
    """How often, and how, a backbone sees a picture.

    The map of a picture is the mean of those of all its views, brought to the cells of the first.

    Args:
        size: height and width of what the backbone sees.
        scales: more sizes at which it sees the whole picture.
        crops: cut the picture into ``crops * crops`` pieces, each seen in ``size``, and lay their maps side by side: as
            many times as many rows and columns.
        mirror: see the mirror image of each, too, its map turned back.

    Example:
        >>> views = Views((8, 8), crops=2)
        >>> look = lambda images: images[:, :, ::4, ::4]                    # a backbone with cells of 4 x 4 pixels
        >>> views.see(look, [torch.rand(1, 3, 16, 16)]).shape
        torch.Size([1, 3, 4, 4])
    """

    size: Size
    scales: tuple[Size, ...] = ()
    crops: int = 1
    mirror: bool = False

    def __post_init__(self) -> None:
        for each in (self.size, *self.scales):
            check_size("Views", each)
        check_integer("Views", "crops", self.crops, least=1, most=MOST_CROPS)

    @property
    def sizes(self) -> list[Size]:
        """Return the sizes that a picture is brought to."""
        return [(self.size[0] * self.crops, self.size[1] * self.crops), *self.scales]

    def make(self, image: Tensor) -> list[Tensor]:
        """Return a picture, bytes ``[3, H, W]``, in all sizes."""
        return [resize(image, size) for size in self.sizes]

    def see(self, look: Callable[[Tensor], Tensor], images: Sequence[Tensor], grid: Size | None = None) -> Tensor:
        """Return the maps ``[B, D, h, w]`` of pictures.

        Args:
            look: the backbone, ``[B, 3, H, W] -> [B, D, h, w]``.
            images: pictures ``[B, 3, H, W]`` in each of :attr:`sizes`.
            grid: rows and columns; None: those of the first view.
        """
        whole, *others = images
        seen = [self._both(lambda part: self._pieces(look, part), whole)]
        cells = grid or (seen[0].shape[2], seen[0].shape[3])
        seen += [self._both(look, each) for each in others]
        return torch.stack([adaptive_avg_pool2d(maps, cells) for maps in seen]).mean(0)

    def _both(self, look: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        maps = look(images)
        return (maps + look(images.flip(-1)).flip(-1)) / 2 if self.mirror else maps

    def _pieces(self, look: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        n = self.crops
        if n == 1:
            return look(images)
        pieces = images.unflatten(3, (n, -1)).unflatten(2, (n, -1)).permute(0, 2, 4, 1, 3, 5).flatten(0, 2)
        maps = look(pieces).unflatten(0, (-1, n, n))  # [B, n, n, D, h, w]
        return maps.permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)

    def describe(self) -> dict[str, Any]:
        """Return numbers and lists that say the same, beside ``size``."""
        return {"scales": [list(size) for size in self.scales], "crops": self.crops, "mirror": self.mirror}

    @classmethod
    def of(cls, size: Size, record: Mapping[str, Any]) -> Views:
        """Return the views of which :meth:`describe` gave the record; nothing said is one view."""
        scales = tuple((int(height), int(width)) for height, width in record.get("scales", ()))
        return cls(size, scales, int(record.get("crops", 1)), bool(record.get("mirror", False)))
