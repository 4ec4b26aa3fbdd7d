"""The record that every set of texts is made of."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax.data.text.words import EMPTY, split_words


@dataclass(frozen=True)
class TextSample:
    """A text, its class, and what is known of which words matter.

    Args:
        words: as they are written, at least one; a text without words is the one word :data:`EMPTY`.
        label: name of its class; None where it is not known.
        id: distinct within a set.
        marks: for each word the share of people who marked it, or 1 and 0; None where nobody was asked.
        second: words of the sentence that the first is compared with, in sets of pairs.

    >>> TextSample.of("Not bad.", "positive", "review-7").words
    ('Not', 'bad', '.')
    """

    words: tuple[str, ...]
    label: str | None
    id: str
    marks: tuple[float, ...] | None = None
    second: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.words or self.second == ():
            raise ValueError("TextSample: words must be at least one; a text without any is (EMPTY,)")
        if self.marks is not None and len(self.marks) != len(self.words):
            raise ValueError(f"TextSample: marks must be {len(self.words)}, as the words, got {len(self.marks)}")

    @classmethod
    def of(cls, text: str, label: str | None, id: str, second: str | None = None) -> TextSample:
        """Split a text, or a pair of them, into words."""
        other = None if second is None else tuple(split_words(second)) or (EMPTY,)
        return cls(tuple(split_words(text)) or (EMPTY,), label, id, second=other)

    @property
    def empty(self) -> bool:
        """Tell whether the text, or one of a pair, had no words."""
        return (EMPTY,) in (self.words, self.second)
