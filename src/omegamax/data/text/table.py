"""Texts of one's own: a file with a column of texts and one of classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegamax.data.files import DataError, FilePath, short
from omegamax.data.text.rows import read_rows
from omegamax.data.text.sample import TextSample
from omegamax.data.text.texts import HeldOut, Texts

_NAMES = {True: "true", False: "false"}
_NO_CLASSES = "name the column of classes; texts without any are predicted with labelled (--data.labelled false)"


class TextTable(Texts):
    """The rows of a CSV, TSV or JSONL file, read one after the other; see :func:`~omegamax.data.text.read_rows`.

    Classes are what the column of labels has: words or integers, as text. A text without words is kept, as one
    unknown word, so that every row has its answer. The ``id`` of a sample is the name of the file and the number of the
    line that its row begins at.

    Args:
        path: of the file, plain or compressed by xz or gzip.
        split: ``"train"`` or ``"val"`` with ``held_out``, else what the file is for.
        text, label: names of the columns.
        second: name of the column with the other sentence of a pair.
        labelled: False reads a file whose texts have no class, or none that counts.
        held_out: share that validation takes from the file; None: the file is of one split.
        seed: of which these are.
        format, delimiter, encoding: where the name of the file does not tell.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "mine.csv").write_text("what,class\\n\\"Good, very good!\\",praise\\n")
    ...     list(TextTable(f"{folder}/mine.csv", text="what", label="class"))
    [TextSample(words=('Good', ',', 'very', 'good', '!'), label='praise', id='mine.csv:2', marks=None, second=None)]
    """

    def __init__(
        self,
        path: FilePath,
        split: str = "train",
        *,
        text: str = "text",
        label: str = "label",
        second: str | None = None,
        labelled: bool = True,
        held_out: float | None = None,
        seed: int = 0,
        format: str | None = None,
        delimiter: str | None = None,
        encoding: str = "utf-8",
    ) -> None:
        super().__init__(split)
        self.path, self.text, self.label, self.second = Path(path).expanduser(), text, label, second
        self.labelled = labelled
        self._held_out = None if held_out is None else HeldOut("TextTable", held_out, seed)
        self._settings = {"format": format, "delimiter": delimiter, "encoding": encoding}

    def __iter__(self) -> Iterator[TextSample]:
        columns = [self.text, *([self.label] if self.labelled else []), *([self.second] if self.second else [])]
        missing = {self.label: _NO_CLASSES}
        for number, row in read_rows(self.path, columns, missing=missing, **self._settings):  # type: ignore[arg-type]
            place = f"{self.path}: line {number}"
            text = _read_text(place, row, self.text)
            second = None if self.second is None else _read_text(place, row, self.second)
            label = _read_label(place, row, self.label) if self.labelled else None
            if self._held_out is None or self._held_out.takes(text, self.split):
                yield TextSample.of(text, label, f"{self.path.name}:{number}", second)


def _read_text(place: str, row: dict[str, Any], column: str) -> str:
    if not isinstance(row[column], str):
        raise DataError(f"{place}: {column!r} must be a text, got {short(row[column])}; mend or remove it")
    return row[column]


def _read_label(place: str, row: dict[str, Any], column: str) -> str:
    """Return the class as text: words and integers are one, other numbers and what is missing are not."""
    given = row[column]
    name = _NAMES[given] if isinstance(given, bool) else str(given).strip() if isinstance(given, str | int) else ""
    if not name or any("\ud800" <= c <= "\udfff" for c in name):  # JSON may have half a character, which no file takes
        raise DataError(f"{place}: {column!r} must be a class, a word or an integer, got {short(given)}; mend it")
    return name
