"""A part of a set that is read from its beginning to its end, as often as need be."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Generic, TypeVar

from omegamax._arguments import check_choice, check_integer

SPLITS = ("train", "val", "test")
Item = TypeVar("Item", covariant=True)


class Corpus(abc.ABC, Generic[Item]):
    """A base of sets: iterate over a part of one for what is in it. Files are read meanwhile.

    Args:
        split: ``"train"``, ``"val"`` or ``"test"``.
    """

    def __init__(self, split: str) -> None:
        check_choice(type(self).__name__, "split", split, SPLITS)
        self.split = split

    @abc.abstractmethod
    def __iter__(self) -> Iterator[Item]:
        """Yield what there is in its order, the same each time."""


class DrawnCorpus(Corpus[Item]):
    """A base of sets that are made up: sample ``i`` is a function of (seed, split, i) alone, the same in any process.

    Args:
        size: number of samples.
        split: ``"train"``, ``"val"`` or ``"test"``, which draw from streams of their own.
        seed: an integer >= 0.
    """

    def __init__(self, size: int, split: str = "train", *, seed: int = 0) -> None:
        super().__init__(split)
        name = type(self).__name__
        self.size, self.seed = check_integer(name, "size", size, 0), check_integer(name, "seed", seed, 0)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Item]:
        return map(self.__getitem__, range(self.size))

    @abc.abstractmethod
    def __getitem__(self, index: int) -> Item:
        """Return one sample."""
