"""Five sets of labelled sentences: MR, SST-2, SST-5, TREC and Subj."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from omegamax._arguments import check_choice
from omegamax.data.files import DataError, FilePath, check_folder, find, number_lines, short
from omegamax.data.text.imdb import POLARITY
from omegamax.data.text.sample import TextSample
from omegamax.data.text.texts import Folds, HeldOut, Texts


class _Layout(NamedTuple):
    """How a set is laid out: its classes in the order of their numbers, and its files.

    ``files`` of a set whose lines begin with the number of the class are by split; of one that has a file for each
    class, in the order of the classes.
    """

    labels: tuple[str, ...]
    files: dict[str, str] | tuple[str, ...]


_LAYOUTS = {
    "mr": _Layout(POLARITY, ("rt-polarity.neg", "rt-polarity.pos")),
    "sst2": _Layout(POLARITY, {split: f"stsa.binary.{split}" for split in ("train", "dev", "test")}),
    "sst5": _Layout(
        ("very negative", "negative", "neutral", "positive", "very positive"),
        {split: f"stsa.fine.{split}" for split in ("train", "dev", "test")},
    ),
    "trec": _Layout(
        ("description", "entity", "abbreviation", "human", "location", "number"),
        {"train": "TREC.train.all", "test": "TREC.test.all"},
    ),
    "subj": _Layout(("objective", "subjective"), ("subj.objective", "subj.subjective")),
}
SENTENCES = tuple(_LAYOUTS)


class Sentences(Texts):
    """Sentences with a class each, one of five sets.

    ========== ======================================= ======== ===========================================
    ``name``   what is told                            classes  parts
    ========== ======================================= ======== ===========================================
    ``"mr"``   praise or blame of a film               2        a cross-validation, ``fold`` of ``folds``
    ``"sst2"`` praise or blame of a film               2        as distributed
    ``"sst5"`` the same in five degrees                5        as distributed
    ``"trec"`` what a question asks for                6        validation taken from the training part
    ``"subj"`` an opinion, or what happens in a film   2        a cross-validation, ``fold`` of ``folds``
    ========== ======================================= ======== ===========================================

    ``folder`` holds ``rt-polarity.neg`` and ``.pos``, ``subj.objective`` and ``.subjective``, one sentence a line;
    ``stsa.binary.train``, ``.dev``, ``.test``, ``stsa.fine.*``, ``TREC.train.all`` and ``TREC.test.all``, whose lines
    begin with the number of the class. All may end in ``.xz`` or ``.gz``.

    Args:
        folder: with these files.
        name: of the set.
        split: ``"train"``, ``"val"`` or ``"test"``.
        fold, folds: of a cross-validation: the fold is the test, the next one the validation.
        held_out: share that validation takes from the training part of TREC.
        seed: of which text is in which part, where that is not given.
        encoding: of the files; the first releases of MR and Subj are ``"cp1252"``.

    References: Pang and Lee (ACL 2004, 2005); Socher et al. (EMNLP 2013); Li and Roth (COLING 2002).
    """

    def __init__(
        self,
        folder: FilePath,
        name: str,
        split: str = "train",
        *,
        fold: int = 0,
        folds: int = 10,
        held_out: float = 0.1,
        seed: int = 0,
        encoding: str = "utf-8",
    ) -> None:
        super().__init__(split)
        check_choice("Sentences", "name", name, SENTENCES)
        self.folder, self.name, self.encoding = check_folder("Sentences", folder), name, encoding
        self.labels, files = _LAYOUTS[name]
        self._part: Folds | HeldOut | None = None
        self._files: list[tuple[Path, str | None]]
        if isinstance(files, tuple):
            self._part = Folds("Sentences", fold, folds, seed)
            self._files = [(self._find(file), label) for file, label in zip(files, self.labels, strict=True)]
        else:
            if "dev" not in files and split != "test":
                self._part = HeldOut("Sentences", held_out, seed)
            wanted = "test" if split == "test" else "dev" if split == "val" and "dev" in files else "train"
            self._files = [(self._find(files[wanted]), None)]

    def _find(self, file: str) -> Path:
        return find("Sentences", self.folder, [file + end for end in ("", ".xz", ".gz")])

    def __iter__(self) -> Iterator[TextSample]:
        for path, label in self._files:
            for number, line in number_lines(path, self.encoding):
                text = line.strip()
                if not text:
                    continue
                which = label
                if which is None:
                    digit, _, text = text.partition(" ")
                    which = self._name_class(f"{path}: line {number}", digit)
                if self._part is None or self._part.takes(text, self.split):
                    yield TextSample.of(text, which, f"{path.name.removesuffix('.xz').removesuffix('.gz')}-{number}")

    def _name_class(self, place: str, digit: str) -> str:
        assert self.labels is not None
        if not digit.isdecimal() or int(digit) >= len(self.labels):
            wanted = f"begin with a class, 0 to {len(self.labels) - 1}"
            raise DataError(f"{place} must {wanted}, got {short(digit)}; mend or remove it")
        return self.labels[int(digit)]
