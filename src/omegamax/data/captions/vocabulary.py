"""The words that captions are made of, as numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from omegamax._arguments import check_integer
from omegamax.data.files import DataError, parse_json, read_text
from omegamax.data.vocabulary import MOST_VOCABULARY, PADDING, UNKNOWN

START, END = 2, 3
_FIRST = 4  # number of the first word
_NAMES = {PADDING: "<pad>", UNKNOWN: "<unknown>", START: "<start>", END: "<end>"}


class CaptionVocabulary:
    """Numbers for words: 0 is padding, 1 an unknown word, 2 the start of a caption and 3 its end.

    Args:
        words: the first has number 4.

        >>> vocabulary = CaptionVocabulary.of([["a", "dog"], ["a", "cat"], ["a", "dog"]], least=2)
        >>> vocabulary.words, vocabulary.size
        (('a', 'dog'), 6)
        >>> vocabulary.encode(["a", "cat"]), vocabulary.decode([4, 5, 3, 0])
        ([2, 4, 1, 3], ['a', 'dog'])
    """

    def __init__(self, words: Sequence[str]) -> None:
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise TypeError("CaptionVocabulary: words must be a sequence of str")
        twice = [word for word, times in Counter(words).items() if times > 1]
        if twice:
            raise ValueError(f"CaptionVocabulary: words must be distinct, got {twice[0]!r} more than once")
        if not words:
            raise ValueError("CaptionVocabulary: words is empty")
        self.words = tuple(words)
        self._number = {word: number for number, word in enumerate(self.words, _FIRST)}

    @classmethod
    def of(cls, captions: Iterable[Sequence[str]], least: int = 1) -> CaptionVocabulary:
        """Collect the words that occur at least ``least`` times, frequent ones first, ties by alphabet."""
        check_integer("CaptionVocabulary.of", "least", least, least=1)
        count = Counter(word for words in captions for word in words)
        words = sorted((word for word, times in count.items() if times >= least), key=lambda w: (-count[w], w))
        if not words:
            raise ValueError(f"CaptionVocabulary.of: no word occurs {least} times; give a lower least")
        return cls(words)

    @property
    def size(self) -> int:
        """Return how many numbers there are, those of no word included."""
        return len(self.words) + _FIRST

    def encode(self, words: Iterable[str]) -> list[int]:
        """Return the numbers of a caption, between those of its start and its end."""
        return [START, *(self._number.get(word, UNKNOWN) for word in words), END]

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """Return the words of numbers up to the end; a start in front is passed over."""
        words = []
        for number in numbers:
            if number in (END, PADDING):
                break
            if number != START:
                words.append(self.name(number))
        return words

    def name(self, number: int) -> str:
        """Return the word of a number, ``"<unknown>"`` and so on for those of no word."""
        return self.words[number - _FIRST] if number >= _FIRST else _NAMES[number]

    def __contains__(self, word: object) -> bool:
        return word in self._number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CaptionVocabulary) and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.words)

    def __repr__(self) -> str:
        return f"CaptionVocabulary({len(self.words)} words)"

    def save(self, path: str | PathLike[str]) -> None:
        """Write a JSON file that :meth:`load` reads."""
        Path(path).write_text(json.dumps({"words": self.words}, ensure_ascii=False, indent=0), encoding="utf-8")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> CaptionVocabulary:
        """Return the vocabulary that :meth:`save` wrote, at most 64 MiB of it."""
        try:
            content = parse_json(read_text(path, MOST_VOCABULARY))
            if not isinstance(content, dict) or not isinstance(content.get("words"), list):
                raise ValueError("it must hold an object with the list 'words'")
            return cls(content["words"])
        except (TypeError, ValueError) as error:
            raise DataError(f"{path} is no vocabulary of captions ({error}); get the file again") from error
