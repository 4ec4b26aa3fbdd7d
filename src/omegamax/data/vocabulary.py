"""The words of questions and the answers to choose from, as numbers."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from omegamax._arguments import check_choice
from omegamax.data.files import DataError, parse_json, read_text
from omegamax.data.unpack import MIB

MOST_VOCABULARY = 64 * MIB  # bytes of the file of a vocabulary; the one of VQA-v2 has less than one of them
PADDING, UNKNOWN = 0, 1  # no word of a vocabulary has these numbers
_JOINED = str.maketrans("", "", "'\u2019")  # what's -> whats


def tokenise(text: str) -> list[str]:
    """Return words in lower case; apostrophes vanish, other punctuation separates.

    >>> tokenise("What's the man's T-shirt colour?")
    ['whats', 'the', 'mans', 't', 'shirt', 'colour']
    """
    text = unicodedata.normalize("NFKC", text).lower().translate(_JOINED)
    # Letters, marks (accents and vowels of scripts that write them apart) and digits make words.
    return "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in text).split()


class Vocabulary:
    """Numbers for the words of questions (0 is padding, 1 an unknown word) and for the answers (from 0 on).

    An unknown word is no error, since questions are free; an unknown answer is one, since it could never be given.

    Args:
        words: without padding and unknown; the first has number 2.
        answers: the classes of the classifier, in their order.

    >>> vocabulary = Vocabulary.of(["Is it red?", "Is it blue?"], ["yes", "no"])
    >>> vocabulary.words, vocabulary.num_words
    (('is', 'it', 'blue', 'red'), 6)
    >>> vocabulary.encode("Is it green?")
    tensor([2, 3, 1])
    >>> vocabulary.scores({"no": 0.9})
    tensor([0.0000, 0.9000])
    """

    def __init__(self, words: Sequence[str], answers: Sequence[str]) -> None:
        self.words = _distinct("words", words)
        self.answers = _distinct("answers", answers)
        self._word = {word: number for number, word in enumerate(self.words, UNKNOWN + 1)}
        self._answer = {answer: number for number, answer in enumerate(self.answers)}

    @classmethod
    def of(cls, questions: Iterable[str], answers: Iterable[str], least: int = 1) -> Vocabulary:
        """Collect words that occur at least ``least`` times, frequent ones first, and answers as given, each once."""
        return cls.of_counts(Counter(word for question in questions for word in tokenise(question)), answers, least)

    @classmethod
    def of_counts(
        cls, count: Mapping[str, int], answers: Iterable[str], least: int = 1, most: int | None = None
    ) -> Vocabulary:
        """Take words by how often they occur, at least ``least`` times and the ``most`` frequent, frequent ones first.

        >>> Vocabulary.of_counts({"film": 3, "a": 9, "gaffer": 1}, ["yes", "no"], least=2).words
        ('a', 'film')
        """
        words = sorted((word for word, times in count.items() if times >= least), key=lambda w: (-count[w], w))
        return cls(words[:most], tuple(dict.fromkeys(answers)))

    @property
    def num_words(self) -> int:
        """Return the number of rows that an embedding of the words needs, padding and unknown included."""
        return len(self.words) + UNKNOWN + 1

    @property
    def num_answers(self) -> int:
        """Return the number of classes of the answer classifier."""
        return len(self.answers)

    def encode(self, question: str) -> Tensor:
        """Return the indices of the words, int64 ``[T]``."""
        words = tokenise(question)
        if not words:
            raise ValueError(f"Vocabulary.encode: question {question!r} has no words")
        return torch.tensor(self.find_words(words))

    def find_words(self, words: Iterable[str]) -> list[int]:
        """Return the indices of words: as they are written, else in lower case, else the one of unknown words.

        >>> Vocabulary(["good", "US"], ["yes"]).find_words(["Good", "US", "us"])
        [2, 3, 1]
        """
        known = self._word
        return [number if (number := known.get(w)) else known.get(w.lower(), UNKNOWN) for w in words]

    def answer_index(self, answer: str) -> int:
        """Return the index of an answer."""
        try:
            return self._answer[answer]
        except KeyError:
            known = ", ".join(map(repr, self.answers[:8])) + (", ..." if self.num_answers > 8 else "")
            raise ValueError(
                f"Vocabulary: unknown answer {answer!r}; there are {self.num_answers} answers: {known}"
            ) from None

    def scores(self, answers: Mapping[str, float], unknown: str = "error") -> Tensor:
        """Return the score of every answer of the vocabulary, float32 ``[A]``; 0 for those not named.

        Args:
            unknown: ``"error"``, or ``"drop"`` to pass over answers that are not in the vocabulary: with real
                questions it holds the frequent ones only.
        """
        check_choice("Vocabulary.scores", "unknown", unknown, ("error", "drop"))
        scores = torch.zeros(self.num_answers)
        for answer, score in answers.items():
            if unknown == "error" or answer in self._answer:
                scores[self.answer_index(answer)] = score
        return scores

    def save(self, path: str | PathLike[str]) -> None:
        """Write a JSON file that :meth:`load` reads."""
        content = {"words": self.words, "answers": self.answers}
        Path(path).write_text(json.dumps(content, ensure_ascii=False, indent=0), encoding="utf-8")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Vocabulary:
        """Return the vocabulary that :meth:`save` wrote, at most 64 MiB of it."""
        try:
            content = parse_json(read_text(path, MOST_VOCABULARY))
        except DataError as error:  # of the size
            raise DataError(f"Vocabulary.load: {error}") from error
        except ValueError as error:  # of the decoding or of the JSON
            raise ValueError(f"Vocabulary.load: {path} is not a JSON file: {error}") from error
        if not isinstance(content, dict) or not all(isinstance(content.get(k), list) for k in ("words", "answers")):
            raise ValueError(f"Vocabulary.load: {path} must hold an object with the lists 'words' and 'answers'")
        try:
            return cls(content["words"], content["answers"])
        except (TypeError, ValueError) as error:
            raise type(error)(f"Vocabulary.load: {path}: {error}") from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.words == other.words and self.answers == other.answers

    def __hash__(self) -> int:
        return hash((self.words, self.answers))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self.words)} words, {self.num_answers} answers)"


def _distinct(argument: str, values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"Vocabulary: {argument} must be a sequence of str")
    twice = [value for value, times in Counter(values).items() if times > 1]
    if twice:
        raise ValueError(f"Vocabulary: {argument} must be distinct, got {twice[0]!r} more than once")
    if not values:
        raise ValueError(f"Vocabulary: {argument} is empty")
    return tuple(values)
