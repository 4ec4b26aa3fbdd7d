"""Vectors of words that others have trained: GloVe and word2vec, as text, for the words of a vocabulary."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.data.files import BROKEN, DataError, FilePath, number_stream, reason, short
from omegamax.data.unpack import MOST_BYTES, open_bounded, open_member
from omegamax.data.vocabulary import PADDING, UNKNOWN

_SHOWN = 8  # words that a report names


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Vectors of words, and which of them the file had.

    Args:
        words: those that were asked for, W of them.
        table: their vectors ``[W, D]``, float32; zeros where the file has none.
        found: bool ``[W]``.
        source: the file, in words.
    """

    words: tuple[str, ...]
    table: Tensor
    found: Tensor
    source: str

    @property
    def dim(self) -> int:
        """Return the size D of a vector."""
        return self.table.shape[1]

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the words that the file does not have."""
        return tuple(word for word, there in zip(self.words, self.found.tolist(), strict=True) if not there)

    @property
    def report(self) -> str:
        """Return in a line how many words were found, and the first of those that were not."""
        missing = self.missing
        line = f"{self.source}: vectors of {len(self.words) - len(missing):,} of {len(self.words):,} words"
        if not missing:
            return line
        return f"{line}; none of {', '.join(missing[:_SHOWN])}{', ...' if len(missing) > _SHOWN else ''}"

    def embedding(self, seed: int = 0) -> Tensor:
        """Return the rows that an embedding of a :class:`~omegamax.data.Vocabulary` with these words starts from.

        ``[W + 2, D]``: zeros for padding, the mean of all vectors for unknown words, and then the words. Those that the
        file does not have are drawn from the normal distribution with mean and standard deviation of the others.
        """
        known = self.table[self.found]
        mean = known.mean(0)
        deviation = known.std(0, correction=0)
        drawn = torch.randn(self.table.shape, generator=torch.Generator().manual_seed(seed))
        rows = torch.where(self.found.unsqueeze(-1), self.table, mean + deviation * drawn)
        first = torch.zeros(UNKNOWN + 1, self.dim)
        first[UNKNOWN] = mean
        assert PADDING == 0
        return torch.cat([first, rows])


def read_word_vectors(
    path: FilePath, words: Sequence[str], dim: int | None = None, *, encoding: str = "utf-8"
) -> WordVectors:
    """Read the vectors of some words from a text file of GloVe or word2vec, line by line.

    A line is a word and D numbers; a word may have spaces in it. The first line of word2vec, the number of vectors and
    D, is passed over, and held against what follows. A word is looked for as it is written, then in lower case; of a
    word that the file has twice the first vector counts. Numbers of words that nobody asked for are not looked at.

    Args:
        path: a text file, plain or with the ending ``.gz`` or ``.xz``; or a ``.zip`` archive of text files, from which
            the one with vectors of size ``dim`` is read, as in ``glove.6B.zip``.
        words: those to keep, such as ``vocabulary.words``.
        dim: the size D that is wanted; None: whatever the file has.
        encoding: of the words.

    Raises:
        DataError: names file, line and remedy: vectors of two sizes, of another size than ``dim``, what is no finite
            number, bytes of another encoding, a file that is empty, ends early, or has none of the words.
    """
    name, path = "read_word_vectors", Path(path).expanduser()
    if dim is not None:
        dim = check_integer(name, "dim", dim, least=1)
    if isinstance(words, str) or not words:
        raise ValueError(f"{name}: words must be a sequence of at least one word, got {words!r}")
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; give a text file of GloVe or word2vec, or its .zip or .gz")
    if path.suffix.lower() != ".zip":
        with open_bounded(path, MOST_BYTES) as stream:
            return _read(stream, str(path), words, dim, encoding)
    with _archive(path) as archive:
        for info in _members(archive, path):
            place = f"{path}: {info.filename}"
            with open_member(archive, info, place) as stream:
                if dim is None or dim == _size(stream, place, encoding):
                    with open_member(archive, info, place) as again:
                        return _read(again, place, words, dim, encoding)
    raise DataError(f"{path} has no vectors of size {dim}; it has {_sizes(path, encoding)}; give one of these sizes")


def _read(stream: BinaryIO, place: str, words: Sequence[str], dim: int | None, encoding: str) -> WordVectors:
    exact, lower = _places(words), _places([word.lower() for word in words])
    lines = _Lines(stream, place, encoding)
    if dim is not None and lines.dim != dim:
        raise DataError(f"{place} has vectors of size {lines.dim}, wanted {dim}; give another file, or this size")
    table, rank = np.zeros((len(words), lines.dim), np.float32), np.zeros(len(words), np.int8)
    for number, word, rest in lines:
        for level, places in ((2, exact), (1, lower)):  # as it is written goes before lower case, wherever it stands
            for index in places.get(word, ()):
                if rank[index] < level:
                    table[index], rank[index] = _numbers(rest, f"{place}: line {number}"), level
    if not rank.any():
        few = ", ".join(map(repr, words[:_SHOWN]))
        raise DataError(f"{place} has none of the {len(words):,} words, such as {few}; give vectors of this language")
    return WordVectors(tuple(words), torch.from_numpy(table), torch.from_numpy(rank > 0), place)


def _places(words: Sequence[str]) -> dict[str, list[int]]:
    """Return where each word stands."""
    found: dict[str, list[int]] = {}
    for index, word in enumerate(words):
        found.setdefault(word, []).append(index)
    return found


class _Lines:
    """The words of a file with the text of their numbers; ``dim`` is known from the start."""

    def __init__(self, stream: BinaryIO, place: str, encoding: str) -> None:
        self.place = place
        self._lines = number_stream(stream, place, encoding)
        first = next(self._lines, None)
        if first is None or not first[1].strip():
            raise DataError(f"{place} is empty, or begins with an empty line; get the file again")
        fields = first[1].rstrip(" \r\n").split(" ")
        self.count: int | None = None
        self._first: tuple[int, str] | None = first
        header = len(fields) == 2 and all(field.isdecimal() and len(field) < 20 for field in fields)  # of word2vec
        self.dim = int(fields[1]) if header else len(fields) - 1
        if self.dim < 1:
            raise DataError(f"{place}: line 1 must be a word and its numbers, got {short(first[1].strip())}; mend it")
        if header:
            self.count, self._first = int(fields[0]), next(self._lines, None)
            if self._first is None:
                raise DataError(f"{place} has a header, and no vectors; get the file again")
            self._parse(*self._first)  # before anything of a size is made that a header alone promises

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        seen = 0
        if self._first is not None:
            seen += 1
            yield self._parse(*self._first)
        for number, line in self._lines:
            seen += 1
            yield self._parse(number, line)
        if self.count is not None and seen != self.count:
            raise DataError(
                f"{self.place} says that it has {self.count:,} vectors, and has {seen:,}; get the file again"
            )

    def _parse(self, number: int, line: str) -> tuple[int, str, str]:
        line = line.rstrip(" \r\n")
        spaces = line.count(" ")
        if spaces == self.dim:
            word, _, rest = line.partition(" ")
            return number, word, rest
        fields = line.split(" ")
        extra = len(fields) - 1 - self.dim
        # More fields are a word with spaces, unless they are numbers too.
        if extra < 0 or all(map(_is_number, fields[1 : 1 + extra])):
            given = "an empty line" if not line else f"{len(fields) - 1} for {short(fields[0])}"
            raise DataError(
                f"{self.place}: line {number} must have {self.dim} numbers, as the lines before it, got {given}; mend "
                "or remove it"
            )
        return number, " ".join(fields[: 1 + extra]), " ".join(fields[1 + extra :])


def _numbers(text: str, place: str) -> np.ndarray:
    fields = text.split(" ")
    try:
        vector = np.array(fields, dtype=np.float64)
    except ValueError:
        wrong = next(field for field in fields if not _is_number(field))
        raise DataError(f"{place} must have numbers after the word, got {short(wrong)}; mend or remove it") from None
    if not np.isfinite(vector).all() or np.abs(vector).max() > np.finfo(np.float32).max:
        wrong = fields[int(np.argmin(np.isfinite(vector) & (np.abs(vector) <= np.finfo(np.float32).max)))]
        raise DataError(f"{place} must have finite numbers, got {short(wrong)}; mend or remove it")
    return vector


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _size(stream: BinaryIO, place: str, encoding: str) -> int:
    return _Lines(stream, place, encoding).dim


def _sizes(path: Path, encoding: str) -> str:
    """Return what is in an archive, in words."""
    found = []
    with _archive(path) as archive:
        for info in _members(archive, path):
            place = f"{path}: {info.filename}"
            with open_member(archive, info, place) as stream:
                found.append(f"{info.filename} of size {_size(stream, place, encoding)}")
    return ", ".join(found)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except BROKEN as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is damaged or no zip archive ({reason(error)}); get the file again") from error


def _members(archive: zipfile.ZipFile, path: Path) -> list[zipfile.ZipInfo]:
    # A Mac puts files of its own beside those that were packed, in __MACOSX, with names that begin with a full stop.
    texts = [
        info
        for info in archive.infolist()
        if info.filename.endswith((".txt", ".vec")) and not info.filename.startswith("__MACOSX/")
    ]
    if not texts:
        raise DataError(f"{path} holds no text file (.txt or .vec) of vectors; give another archive")
    return texts
