"""Splits of a set of questions, as batches."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from torch.utils.data import Dataset

from omegamax._arguments import check_sizes, is_integer
from omegamax.data import Collate, Ready, Sample, SkipBroken, Vocabulary
from omegamax.models import GridCNN
from omegamax.tasks.batches import Batches, Order
from omegamax.tasks.progress import progress
from omegamax.tasks.run_data import Limit
from omegamax.tasks.vocabulary_data import VocabularyData
from omegamax.tasks.vqa.photographs import Photographs


class VQAData(VocabularyData):
    """Questions about pictures for training, validation and test; a subclass for each set.

    Batches are those of :class:`~omegamax.data.Collate`. The order of the training part is a function of seed and epoch
    alone: two processes with half a batch each see what one with the whole batch does.

    Args:
        batch_size: questions in a batch, of each process.
        grid: cells ``(h, w)`` that the network lays over images, for the maps of what is relevant.
        length: longest question in words; what is beyond is cut off. None: as long as need be.
        keep: make each split once and keep it in memory; right for sets that fit.
        workers: processes that read samples; with ``keep``, while it is made.
        skip_broken: pass over as many broken samples, with a warning that counts them.
        vocabulary_file: JSON with words and answers; None: those of the training part.
        seed: of the order of the training part.
    """

    unknown = "error"  # what to do with an answer outside the vocabulary
    limits: ClassVar[Mapping[str, Limit]] = {
        **VocabularyData.limits,
        "grid": Limit(1, 1024, numbers=2),
        "size": Limit(1, 8192, numbers=2),  # height and width in pixels
        "image_size": Limit(1, 8192),
    }

    def __init__(
        self,
        batch_size: int = 64,
        grid: tuple[int, int] = (14, 14),
        length: int | None = None,
        keep: bool = True,
        workers: int = 0,
        skip_broken: int = 0,
        vocabulary_file: str | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(vocabulary_file, batch_size=batch_size, workers=workers, seed=seed)
        name = type(self).__name__
        for argument, value, least in (("skip_broken", skip_broken, 0), ("length", length, 1)):
            if value is not None and (not is_integer(value) or value < least):
                raise ValueError(f"{name}: {argument} must be an integer >= {least}, got {value!r}")
        height, width = check_sizes(name, "grid", grid, 2)
        self.grid, self.length, self.keep, self.skip_broken = (height, width), length, keep, skip_broken
        self._splits: dict[str, Dataset[Any]] = {}
        self._cnn: GridCNN | None = None

    @abc.abstractmethod
    def read(self, split: str) -> Dataset[Sample]:
        """Return the samples of ``"train"``, ``"val"`` or ``"test"``."""

    @property
    def photographs(self) -> Photographs:
        """Return the pictures that features were made of; none for a set that has the pictures themselves."""
        return Photographs([])

    @property
    def collate(self) -> Collate:
        """Return the function that makes a batch of a list of samples."""
        return Collate(self.vocabulary, self.grid, self.length, self.unknown)

    def split(self, name: str) -> Dataset[Any]:
        """Return the samples of a split, kept ones as :class:`~omegamax.data.Ready` with features of a frozen CNN."""
        if name not in self._splits:
            samples: Dataset[Any] = self.read(name)
            if self.skip_broken:
                samples = SkipBroken(samples, self.skip_broken)
            if self.keep:
                chunk = 64  # small enough for a bar to move
                samples = Ready.of(
                    samples,
                    self.collate,
                    workers=self.workers,
                    chunk=chunk,
                    progress=lambda batches: progress(batches, f"reading {name}"),
                )
            self._splits[name] = samples
        samples = self._splits[name]
        if self._cnn is not None and isinstance(samples, Ready) and "image" in samples.batch:
            self._splits[name] = samples.featurise(self._cnn)
        return self._splits[name]

    def featurise(self, cnn: GridCNN) -> None:
        """Replace the images of kept splits, from here on, by the features that a network computes.

        They are made when a split is asked for: a network that is restored before is taken as it is then.
        """
        if self.keep and self._cnn is not cnn:
            if any(isinstance(each, Ready) and "image" not in each.batch for each in self._splits.values()):
                raise ValueError("VQAData.featurise: features were made by another network before")
            self._cnn = cnn

    def batches(self, samples: Dataset[Any], order: Order) -> Batches:
        if isinstance(samples, Ready):
            return Batches(samples, order, Ready.collate)
        return super().batches(samples, order)


def texts_vocabulary(samples: Any, least: int = 1, most: int | None = None) -> Vocabulary:
    """Collect words and answers of a set with ``texts()``, the most frequent ones first.

    Args:
        least: how often a word must occur.
        most: how many answers to keep.
    """
    questions: list[str] = []
    count: Counter[str] = Counter()
    for question, answers in samples.texts():
        questions.append(question)
        count.update(answers.keys())
    ranked = sorted(count, key=lambda answer: (-count[answer], answer))
    return Vocabulary.of(questions, ranked[:most], least)
