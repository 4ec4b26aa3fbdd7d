"""Yelp-HAT: reviews of places, and the words that people marked as telling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omegamax._arguments import check_choice
from omegamax.data.files import DataError, FilePath, check_folder, find, short, value
from omegamax.data.text.imdb import POLARITY
from omegamax.data.text.rows import read_rows
from omegamax.data.text.sample import TextSample
from omegamax.data.text.texts import Folds, Texts
from omegamax.data.text.words import EMPTY, split_words

YELP_HAT = ("50words", "100words", "200words", "part7")


class YelpHAT(Texts):
    """Reviews, positive or negative, in which several people marked the words that tell which.

    ``folder`` holds ``50words.jsonl``, ``100words.jsonl``, ``200words.jsonl`` and ``part7.jsonl`` (also ``.xz``,
    ``.gz``), objects of ``label`` (1 positive, 0 negative), ``tokens`` and ``maps``: for each person a list of 0 and 1
    as long as the tokens. A token with its punctuation is split into words, and its mark is that of each of them;
    ``marks`` are the shares of people who marked a word.

    Args:
        folder: with these files.
        subset: one of :data:`YELP_HAT`.
        split: ``"train"``, ``"val"`` or ``"test"``: parts of a cross-validation; None: all reviews, for a test of
            networks that were trained elsewhere.
        fold, folds, seed: the fold is the test, the next one the validation.

    Reference: Sen et al., "Human attention maps for text classification" (ACL 2020).
    """

    labels = POLARITY

    def __init__(
        self,
        folder: FilePath,
        subset: str = "50words",
        split: str | None = "train",
        *,
        fold: int = 0,
        folds: int = 10,
        seed: int = 0,
    ) -> None:
        super().__init__("test" if split is None else split)
        check_choice("YelpHAT", "subset", subset, YELP_HAT)
        self.folder, self.subset = check_folder("YelpHAT", folder), subset
        self._part = None if split is None else Folds("YelpHAT", fold, folds, seed)
        self._path = find("YelpHAT", self.folder, [f"{subset}.jsonl{end}" for end in ("", ".xz", ".gz")])

    def __iter__(self) -> Iterator[TextSample]:
        for number, row in read_rows(self._path, ("label", "tokens", "maps"), format="jsonl"):
            place = f"{self._path}: line {number}"
            tokens, maps = value(place, row, "tokens", list), value(place, row, "maps", list)
            label = value(place, row, "label", int)
            if label not in (0, 1):
                raise DataError(f"{place}: 'label' must be 0 or 1, got {label}; mend or remove it")
            shares = _share_marks(place, tokens, maps)
            if self._part is None or self._part.takes(" ".join(tokens), self.split):
                yield _join(tokens, shares, POLARITY[label], f"{self.subset}-{number}")


def _share_marks(place: str, tokens: list[Any], maps: list[Any]) -> list[float]:
    """Return the share of people who marked each token."""
    if not tokens or not all(isinstance(token, str) for token in tokens):
        raise DataError(f"{place}: 'tokens' must be words, got {short(tokens)}; mend or remove it")
    lists = all(isinstance(each, list) and len(each) == len(tokens) for each in maps)
    if not maps or not lists or not all(mark in (0, 1) for each in maps for mark in each):
        wanted = f"lists of 0 and 1 as long as the {len(tokens)} tokens"
        raise DataError(f"{place}: 'maps' must be {wanted}, got {short(maps)}; mend or remove it")
    return [sum(marks) / len(maps) for marks in zip(*maps, strict=True)]


def _join(tokens: list[str], shares: list[float], label: str, id: str) -> TextSample:
    pairs = [(word, share) for token, share in zip(tokens, shares, strict=True) for word in split_words(token)]
    words, marks = zip(*(pairs or [(EMPTY, 0.0)]), strict=True)
    return TextSample(words, label, id, marks)
