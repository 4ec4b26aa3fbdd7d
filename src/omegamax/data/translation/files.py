"""Corpora of one's own: two files whose lines belong together, or one with a column for each language."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from omegamax.data.files import DataError, FilePath, number_lines, short
from omegamax.data.text.rows import read_rows
from omegamax.data.text.texts import HeldOut
from omegamax.data.translation.pair import ParallelCorpus, SentencePair


class PairFiles(ParallelCorpus):
    """Two text files, a sentence a line: line n of the one is the translation of line n of the other.

    Args:
        source, target: the files, plain or compressed by xz or gzip.
        split: ``"train"`` or ``"val"`` with ``held_out``, else what the files are for.
        held_out: share that validation takes; None: the files are of one split.
        seed: of which pairs these are.
        encoding: of the files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     a, b = Path(folder, "a.de"), Path(folder, "a.en")
    ...     _ = a.write_text("Ein Hund.\\n"), b.write_text("A dog.\\n")
    ...     list(PairFiles(a, b))
    [SentencePair(source='Ein Hund.', target='A dog.', id='a.de:1', alignment=None)]
    """

    def __init__(
        self,
        source: FilePath,
        target: FilePath,
        split: str = "train",
        *,
        held_out: float | None = None,
        seed: int = 0,
        encoding: str = "utf-8",
    ) -> None:
        super().__init__(split)
        self.source, self.target = check_file(source), check_file(target)
        self.encoding = encoding
        self._held_out = None if held_out is None else HeldOut("PairFiles", held_out, seed)

    def __iter__(self) -> Iterator[SentencePair]:
        lines = zip_longest(number_lines(self.source, self.encoding), number_lines(self.target, self.encoding))
        for ours, theirs in lines:
            if ours is None or theirs is None:
                short_file, long_file = (self.source, self.target) if ours is None else (self.target, self.source)
                number = (ours or theirs)[0] - 1
                raise DataError(f"{short_file} has {number:,} lines and {long_file} more; lines must belong together")
            source, target = ours[1].rstrip("\r\n"), theirs[1].rstrip("\r\n")
            if self._held_out is None or self._held_out.takes(source, self.split):
                yield SentencePair(source, target, f"{self.source.name}:{ours[0]}")


class PairTable(ParallelCorpus):
    """The rows of a CSV, TSV or JSONL file with a column of sentences and one of their translations.

    Args:
        path: of the file, plain or compressed by xz or gzip.
        split: as for :class:`PairFiles`.
        source, target: names of the columns.
        held_out, seed, encoding: as for :class:`PairFiles`.
        delimiter: between cells, where the ending of the name does not tell.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.tsv").write_text("de\\ten\\nEin Hund.\\tA dog.\\n")
    ...     [pair.target for pair in PairTable(f"{folder}/a.tsv", source="de", target="en")]
    ['A dog.']
    """

    def __init__(
        self,
        path: FilePath,
        split: str = "train",
        *,
        source: str = "source",
        target: str = "target",
        held_out: float | None = None,
        seed: int = 0,
        delimiter: str | None = None,
        encoding: str = "utf-8",
    ) -> None:
        super().__init__(split)
        self.path, self.source, self.target = check_file(path), source, target
        self.delimiter, self.encoding = delimiter, encoding
        self._held_out = None if held_out is None else HeldOut("PairTable", held_out, seed)

    def __iter__(self) -> Iterator[SentencePair]:
        settings = {"delimiter": self.delimiter, "encoding": self.encoding}
        for number, row in read_rows(self.path, (self.source, self.target), **settings):  # type: ignore[arg-type]
            for column in (self.source, self.target):
                if not isinstance(row[column], str):
                    place = f"{self.path}: line {number}"
                    raise DataError(f"{place}: {column!r} must be a text, got {short(row[column])}; mend or remove it")
            source, target = (" ".join(row[column].splitlines()) for column in (self.source, self.target))
            if self._held_out is None or self._held_out.takes(source, self.split):
                yield SentencePair(source, target, f"{self.path.name}:{number}")


def check_file(path: FilePath) -> Path:
    """Return the path of a file that is there; refuse another."""
    found = Path(path).expanduser()
    if not found.is_file():
        what = "is a folder" if found.is_dir() else "does not exist"
        raise FileNotFoundError(f"{found} {what}; give a file of sentences")
    return found
