"""The record that every parallel corpus is made of."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass

from omegamax._arguments import check_choice
from omegamax.data.text.texts import SPLITS


@dataclass(frozen=True)
class SentencePair:
    """A sentence and its translation.

    Args:
        source, target: one line each, as they are written; they may be empty.
        id: distinct within a corpus.
        alignment: pairs of a word of the source and one of the target, by their indices, where they are known.
    """

    source: str
    target: str
    id: str
    alignment: tuple[tuple[int, int], ...] | None = None


class ParallelCorpus(abc.ABC):
    """A part of a corpus: iterate over it, as often as need be, for its pairs. Files are read meanwhile.

    Args:
        split: ``"train"``, ``"val"`` or ``"test"``.
    """

    def __init__(self, split: str) -> None:
        check_choice(type(self).__name__, "split", split, SPLITS)
        self.split = split

    @abc.abstractmethod
    def __iter__(self) -> Iterator[SentencePair]:
        """Yield the pairs in their order, the same each time."""
