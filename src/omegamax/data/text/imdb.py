"""IMDB: reviews of films, positive or negative."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from omegamax.data.files import DataError, FilePath, check_folder, find, number_lines, value
from omegamax.data.text.rows import read_rows
from omegamax.data.text.sample import TextSample
from omegamax.data.text.texts import HeldOut, Texts

POLARITY = ("negative", "positive")
_FOLDERS = {"neg": "negative", "pos": "positive"}
_NAME = re.compile(r"(\d+)_\d+\.txt")


class IMDB(Texts):
    """The Large Movie Review Dataset: 25,000 reviews to learn from and 25,000 for a test, half of each positive.

    ``folder`` holds ``train.jsonl`` and ``test.jsonl`` (also ``.xz``, ``.gz``) with objects of ``id``, ``label`` (1
    positive, 0 negative) and ``text``; or it is ``aclImdb`` as distributed, with ``train/pos/0_9.txt`` and so on, of
    which the reviews without a label, ``train/unsup``, are left aside.

    Args:
        folder: with these files.
        split: ``"train"``, ``"val"`` (reviews that are taken from the training part) or ``"test"``.
        held_out: share of the training part that validation takes.
        seed: of which these are.

    Reference: Maas et al., "Learning word vectors for sentiment analysis" (ACL 2011).
    """

    labels = POLARITY

    def __init__(self, folder: FilePath, split: str = "train", *, held_out: float = 0.1, seed: int = 0) -> None:
        super().__init__(split)
        self.folder = check_folder("IMDB", folder)
        self._part = "test" if split == "test" else "train"
        self._held_out = HeldOut("IMDB", held_out, seed)
        endings = ("", ".xz", ".gz")
        self._source = find("IMDB", self.folder, [*(f"{self._part}.jsonl{end}" for end in endings), self._part])

    def __iter__(self) -> Iterator[TextSample]:
        for label, id, text in self.read():
            yield TextSample.of(text, label, id)

    def read(self) -> Iterator[tuple[str, str, str]]:
        """Yield the class, the id and the text of each review, as it is written."""
        for label, id, text in self._folders() if self._source.is_dir() else self._lines():
            if self.split == "test" or self._held_out.takes(text, self.split):
                yield label, id, text

    def _lines(self) -> Iterator[tuple[str, str, str]]:
        for number, row in read_rows(self._source, ("id", "label", "text"), format="jsonl"):
            place = f"{self._source}: line {number}"
            text, label, id = value(place, row, "text", str), row["label"], row["id"]
            if type(label) is not int or label not in (0, 1):  # 1.0 and true are 1 in Python
                raise DataError(f"{place}: 'label' must be 0 or 1, got {label!r}; mend or remove it")
            yield POLARITY[label], f"{self._part}-{POLARITY[label]}-{id}", text

    def _folders(self) -> Iterator[tuple[str, str, str]]:
        for name, label in _FOLDERS.items():
            folder = check_folder("IMDB", self._source / name)
            files = sorted((int(m.group(1)), path) for path in folder.iterdir() if (m := _NAME.fullmatch(path.name)))
            if not files:
                raise DataError(f"{folder} has no reviews, such as 0_9.txt; get the set again")
            for number, path in files:
                yield label, f"{self._part}-{label}-{number}", _read(path)


def _read(path: Path) -> str:
    return "".join(line for _, line in number_lines(path))
