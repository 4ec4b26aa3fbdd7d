"""Splits of a set of pictures with captions, as batches."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from omegamax._arguments import check_choice, is_integer
from omegamax.data.captions import CaptionCollate, CaptionPairs, CaptionSample, CaptionVocabulary, KeptPictures
from omegamax.models import GridCNN
from omegamax.tasks.progress import progress
from omegamax.tasks.run_data import Limit, RunData

SPLITS = ("train", "val", "test")


class CaptionData(RunData):
    """Pictures with captions for training, validation and test; a subclass for each set.

    In training every caption of a picture is a sample; in validation and test every picture is one.

    Args:
        batch_size: captions in a batch, of each process.
        grid: cells ``(h, w)`` that the network lays over images, for the regions of words; features have their own.
        length: most words of a caption in training; what is beyond is cut off.
        least: how often a word must occur in the training part to be known.
        keep: read each split once and keep it in memory; right for sets that fit.
        vocabulary_file: JSON with the words, see :class:`~omegamax.data.captions.CaptionVocabulary`; None: those of
            the training part.
        settings: as for :class:`~omegamax.tasks.run_data.RunData`.
    """

    limits: ClassVar[Mapping[str, Limit]] = {
        **RunData.limits,
        "grid": Limit(1, 1024, numbers=2),
        "size": Limit(1, 8192, numbers=2),
        "image_size": Limit(1, 8192),
        "length": Limit(1, 1 << 16),
    }

    def __init__(
        self,
        batch_size: int = 80,
        grid: tuple[int, int] = (8, 8),
        length: int = 20,
        least: int = 1,
        keep: bool = True,
        vocabulary_file: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(batch_size=batch_size, **settings)
        self.check({"length": length, "grid": tuple(grid)})
        if not is_integer(least) or least < 1:
            raise ValueError(f"{type(self).__name__}: least must be an integer >= 1, got {least!r}")
        self.grid, self.length, self.least, self.keep = (grid[0], grid[1]), length, least, keep
        self.vocabulary_file = vocabulary_file
        self._vocabulary: CaptionVocabulary | None = None
        self._splits: dict[str, Dataset[CaptionSample]] = {}
        self._cnn: GridCNN | None = None

    @abc.abstractmethod
    def read(self, split: str) -> Dataset[CaptionSample]:
        """Return the pictures of ``"train"``, ``"val"`` or ``"test"``."""

    @abc.abstractmethod
    def captions(self, split: str) -> Sequence[Sequence[Sequence[str]]]:
        """Return the words of the captions of each picture of a split, without reading the pictures."""

    def counts(self, split: str) -> list[int]:
        """Return how many captions each picture of a split has."""
        return [len(some) for some in self.captions(split)]

    @property
    def vocabulary(self) -> CaptionVocabulary:
        """Return the words with their numbers."""
        if self._vocabulary is None:
            path = self.vocabulary_file
            if path is not None and not Path(path).is_file():
                raise FileNotFoundError(
                    f"{path} does not exist; give vocabulary_file a file that CaptionVocabulary.save wrote"
                )
            self._vocabulary = self.own_vocabulary() if path is None else CaptionVocabulary.load(path)
        return self._vocabulary

    def own_vocabulary(self) -> CaptionVocabulary:
        """Collect the words of the training part."""
        return CaptionVocabulary.of((words for some in self.captions("train") for words in some), self.least)

    @property
    def collate(self) -> CaptionCollate:
        return CaptionCollate(self.vocabulary, self.grid, self.length)

    def split(self, name: str) -> CaptionPairs:
        """Return the samples of a split; kept ones with features of a frozen CNN, where there is one."""
        check_choice(type(self).__name__, "split", name, SPLITS)
        if name not in self._splits:
            samples = self.read(name)
            if self.keep:
                samples = KeptPictures(samples, self.workers, lambda each: progress(each, f"reading {name}"))
            self._splits[name] = samples
        samples = self._splits[name]
        if self._cnn is not None and isinstance(samples, KeptPictures) and samples[0].image is not None:
            samples = self._splits[name] = samples.replace_images(self._make_features)
        return CaptionPairs(samples, self.counts(name), every=name == "train")

    def featurise(self, cnn: GridCNN) -> None:
        """Replace the images of kept splits, from here on, by the features that a network computes."""
        if self.keep:
            self._cnn = cnn

    @torch.no_grad()
    def _make_features(self, images: Tensor) -> Tensor:
        assert self._cnn is not None
        like = self._cnn.project.weight
        cells = self._cnn(images.to(like.device, like.dtype) / 255)
        return cells.unflatten(1, self._cnn.grid).cpu()
