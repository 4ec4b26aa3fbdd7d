"""SICK: pairs of sentences, and whether the one follows from the other."""

from __future__ import annotations

from collections.abc import Iterator

from omegamax.data.files import DataError, FilePath, check_folder, find
from omegamax.data.text.rows import read_rows
from omegamax.data.text.sample import TextSample
from omegamax.data.text.texts import Texts

_FILES = {"train": "SICK_train.txt", "val": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
_COLUMNS = ("pair_ID", "sentence_A", "sentence_B", "entailment_judgment")


class SICK(Texts):
    """Sentences involving compositional knowledge: 4,500 pairs to learn from, 500 for validation, 4,927 for a test.

    ``folder`` holds ``SICK_train.txt``, ``SICK_trial.txt`` and ``SICK_test_annotated.txt`` (also ``.xz``, ``.gz``),
    tables with a header and tabs between columns. The sentences of a pair are ``words`` and ``second``.

    Args:
        folder: with these files.
        split: ``"train"``, ``"val"`` or ``"test"``.

    Reference: Marelli et al., "SemEval-2014 task 1" (2014).
    """

    labels = ("contradiction", "neutral", "entailment")

    def __init__(self, folder: FilePath, split: str = "train") -> None:
        super().__init__(split)
        self.folder = check_folder("SICK", folder)
        self._path = find("SICK", self.folder, [_FILES[split] + end for end in ("", ".xz", ".gz")])

    def __iter__(self) -> Iterator[TextSample]:
        for number, row in read_rows(self._path, _COLUMNS, format="tsv"):
            label = row["entailment_judgment"].strip().lower()
            if label not in self.labels:
                wanted = f"one of {', '.join(self.labels)}"
                given = row["entailment_judgment"]
                raise DataError(f"{self._path}: line {number}: the judgment must be {wanted}, got {given!r}; mend it")
            yield TextSample.of(row["sentence_A"], label, f"{self.split}-{row['pair_ID']}", row["sentence_B"])
