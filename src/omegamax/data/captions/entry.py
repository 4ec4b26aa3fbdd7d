"""One picture of a set, before it is read: its name, and what people wrote of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from omegamax.data.files import DataError
from omegamax.data.vocabulary import tokenise


class CaptionEntry(NamedTuple):
    """A picture's name and captions.

    Attributes:
        image: file name, with the folder that the set gives it, if any.
        captions: the words of each.
        objects: names of the categories of things in the picture that were marked, each once.
        texts: the captions as people wrote them; none: words are all that is known.
    """

    image: str
    captions: tuple[tuple[str, ...], ...]
    objects: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def references(self) -> tuple[str, ...]:
        """Return the captions as texts."""
        return self.texts or tuple(" ".join(words) for words in self.captions)


def split_caption(place: object, text: str) -> tuple[str, ...]:
    """Return the words of a caption, in lower case and without punctuation; one without words is an error.

    >>> split_caption("here", "A man's dog runs .")
    ('a', 'mans', 'dog', 'runs')
    """
    words = tuple(tokenise(text))
    if not words:
        raise DataError(f"{place} must have a caption with words, got {text[:60]!r}; mend or remove it")
    return words


def check_entries(place: object, entries: Sequence[CaptionEntry], what: str) -> list[CaptionEntry]:
    """Return the entries; none at all is an error, and so are two of one picture, and a picture without a name."""
    if not entries:
        raise DataError(f"{place} has no {what}; get the file again, or give another split")
    nameless = next((entry.image for entry in entries if not PurePosixPath(entry.image).name), None)
    if nameless is not None:
        raise DataError(f"{place}: a picture must have the name of a file, got {nameless!r}; mend or remove it")
    twice = [image for image, times in Counter(entry.image for entry in entries).items() if times > 1]
    if twice:
        raise DataError(f"{place} has {twice[0][:80]} more than once; remove all but one")
    return list(entries)
