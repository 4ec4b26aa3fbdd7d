"""What maps of attention are drawn on: the picture a network saw, or the one its features were made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.data import DataError, Sample
from omegamax.data.pictures import Pictures, shrink

_MOST = 640  # pixels along the longer side: more than a page shows
_CELL = 16  # pixels along the side of a cell, on grey
_SQUARE = 224  # pixels along the sides of a picture of regions, on grey: its proportions are not known
PALE = 6.0  # where the colours of maps end at least, in densities: attention spread evenly is pale on a photograph


class Photograph(NamedTuple):
    """A picture ``[3, H, W]`` of any proportions, and, where it is grey, a note that says why."""

    image: Tensor
    note: str | None = None


class Photographs:
    """The pictures of a set, in folders and zip archives; each is read when it is asked for.

    Args:
        sources: folders and archives; what does not exist is passed over.
    """

    def __init__(self, sources: Sequence[str | Path]) -> None:
        self.sources = [Pictures(path) for path in map(Path, sources) if path.exists()]

    def read(self, stems: Sequence[str], most: int = _MOST) -> Tensor | None:
        """Return the first picture with one of these names, shrunk to ``most`` pixels; None if there is none."""
        for source in self.sources:
            name = source.find(stems)
            if name is not None:
                return shrink(source[name], most)
        return None

    def of(self, sample: Sample, most: int = _MOST) -> Photograph:
        """Return what the maps of a sample are drawn on.

        Cells of features lie over the whole picture, whatever its proportions, as ``omegamax features`` has them.
        Where no picture is found, or it cannot be read, they are drawn on grey, and a note says so.
        """
        if sample.image is not None:
            return Photograph(sample.image)
        if not sample.pictures:
            return Photograph(blank(sample), "features come without a picture: drawn on grey")
        try:
            image = self.read(sample.pictures, most)
        except DataError as error:
            return Photograph(blank(sample), f"drawn on grey: {error}")
        if image is None:
            return Photograph(blank(sample), f"no picture {sample.pictures[0]} was found: drawn on grey")
        return Photograph(image)


def blank(sample: Sample) -> Tensor:
    """Make a grey picture for features that come without one."""
    assert sample.features is not None
    if sample.boxes is not None:
        return torch.full((3, _SQUARE, _SQUARE), 0.9)
    h, w = sample.features.shape[:2]
    return torch.full((3, _CELL * h, _CELL * w), 0.9)
