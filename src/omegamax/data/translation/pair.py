"""The record that every parallel corpus is made of."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.data.corpus import Corpus


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


class ParallelCorpus(Corpus[SentencePair]):
    """A part of a corpus: iterate over it, as often as need be, for its pairs. Files are read meanwhile.

    Args:
        split: ``"train"``, ``"val"`` or ``"test"``.
    """
