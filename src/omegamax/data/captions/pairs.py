"""Samples for training and for measuring, kept in memory or read as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from omegamax.data.captions.sample import CaptionSample


class CaptionPairs(Dataset[tuple[CaptionSample, int]]):
    """A picture with one of its captions, ``(sample, index of the caption)``: each caption once, or the first alone.

    Args:
        samples: pictures with captions, with a length.
        counts: how many captions each has.
        every: each caption of each picture, for training; else each picture once.

        >>> words = (("a", "dog"), ("a", "pup"))
        >>> one = CaptionSample("a.jpg", words, image=torch.zeros(3, 4, 4, dtype=torch.uint8))
        >>> [caption for _, caption in CaptionPairs([one, one], [2, 2], every=True)], len(CaptionPairs([one], [2]))
        ([0, 1, 0, 1], 1)
    """

    def __init__(self, samples: Any, counts: Sequence[int], every: bool = False) -> None:
        self.samples = samples
        number = torch.tensor(counts, dtype=torch.long)
        if every:
            self.picture = torch.arange(len(counts)).repeat_interleave(number)
            first = (number.cumsum(0) - number).repeat_interleave(number)
            self.caption = torch.arange(len(self.picture)) - first
        else:
            self.picture = torch.arange(len(counts))
            self.caption = torch.zeros(len(counts), dtype=torch.long)

    def __len__(self) -> int:
        return len(self.picture)

    def __getitem__(self, index: int) -> tuple[CaptionSample, int]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"CaptionPairs: index {index} is out of range for {len(self)} captions")
        return self.samples[int(self.picture[index])], int(self.caption[index])


class KeptPictures(Dataset[CaptionSample]):
    """Pictures with captions, read once and kept in memory.

    Args:
        samples: to read.
        workers: processes that read them.
        progress: wraps the reading, for a bar to be shown.
    """

    def __init__(
        self,
        samples: Dataset[CaptionSample],
        workers: int = 0,
        progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
    ) -> None:
        loader: DataLoader[Any] = DataLoader(samples, 32, num_workers=workers, collate_fn=list)
        self.kept: list[CaptionSample] = []
        for batch in progress(loader):
            self.kept += batch

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, index: int) -> CaptionSample:
        return self.kept[index]

    def replace_images(self, make: Callable[[Tensor], Tensor], chunk: int = 64) -> KeptPictures:
        """Return the same samples with features ``[h, w, D]`` that a network makes of images ``[B, 3, H, W]``."""
        made = KeptPictures.__new__(KeptPictures)
        made.kept = []
        for first in range(0, len(self.kept), chunk):
            part = self.kept[first : first + chunk]
            images = torch.stack([sample.image for sample in part if sample.image is not None])
            cells = make(images)
            made.kept += [replace(sample, image=None, features=each) for sample, each in zip(part, cells, strict=True)]
        return made
