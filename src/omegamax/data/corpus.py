"""A part of a set that is read from its beginning to its end, as often as need be."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Generic, TypeVar

from omegamax._arguments import check_choice

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
