"""NLVR: is a statement true of a picture?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch.utils.data import Dataset

from omegamax._arguments import check_choice
from omegamax.data._kinds import yes_or_no
from omegamax.data.files import DataError, FilePath, Text, check_folder, find, read_json_lines, value
from omegamax.data.paths import check_name
from omegamax.data.pictures import Pictures, Size, check_size, resize
from omegamax.data.sample import Sample

# The names of each split's files; the first that is found is taken.
NAMES = {"train": ("train", "train_subset"), "val": ("dev",), "test": ("test",), "hidden": ("hidden",)}


class Statement(NamedTuple):
    """A statement, the name of its picture, the answer yes or no, and its identifier."""

    image: str
    sentence: str
    answer: str
    id: str


class NLVR(Dataset[Sample]):
    """Statements about three boxes of coloured objects, pictures of 400 x 100 pixels; yes if true, no if false.

    ``folder`` holds, for a split S (``train`` or ``train_subset``, ``dev``, ``test``, ``hidden``), ``S.jsonl`` (also
    ``.xz``, ``.gz``), objects with ``sentence``, ``label``, ``identifier`` and ``image``, and ``S_images.zip`` or the
    folder ``S_images``. Or the original ``S/S.json`` and the folder ``S/images``, where the picture of an object is
    ``<directory>/S-<identifier>-0.png``, the first of the six orders of the boxes.

    Args:
        folder: with these files.
        split: ``"train"``, ``"val"`` (``dev``), ``"test"`` or ``"hidden"``.
        size: ``(height, width)`` to which pictures are brought; None leaves them as they are.

    Reference: Suhr et al. (ACL 2017), "A corpus of natural language for visual reasoning".
    """

    def __init__(self, folder: FilePath, split: str = "train", *, size: Size | None = None) -> None:
        check_choice("NLVR", "split", split, tuple(NAMES))
        self.folder, self.split = check_folder("NLVR", folder), split
        packed = {f"{part}.jsonl{end}": part for part in NAMES[split] for end in ("", ".xz", ".gz")}
        original = {f"{part}/{part}.json": part for part in NAMES[split]}
        path = find("NLVR", self.folder, [*packed, *original])
        name = path.relative_to(self.folder).as_posix()
        part = {**packed, **original}[name]
        self.statements = [_statement(place, entry, part) for place, entry in read_json_lines(path)]
        sources = [f"{part}/images"] if name in original else [f"{part}_images.zip", f"{part}_images"]
        self._pictures = Pictures(find("NLVR", self.folder, sources))
        self._size = check_size("NLVR", size)

    def __len__(self) -> int:
        return len(self.statements)

    def texts(self) -> Iterator[Text]:
        """Return every statement with its answers and their scores; no picture is read."""
        return ((statement.sentence, {statement.answer: 1.0}) for statement in self.statements)

    def __getitem__(self, index: int) -> Sample:
        statement = self.statements[index]
        image = resize(self._pictures[statement.image], self._size)
        return Sample(statement.sentence, {statement.answer: 1.0}, "yes/no", statement.id, image=image)


def _statement(place: str, entry: dict[str, Any], part: str) -> Statement:
    sentence, identifier = value(place, entry, "sentence", str), value(place, entry, "identifier", str)
    answer = yes_or_no(value(place, entry, "label", (bool, str)))
    if answer is None:
        raise DataError(f"{place}: 'label' must be true or false, got {entry['label']!r}; mend or remove it")
    if not sentence.strip():
        raise DataError(f"{place}: the sentence is empty; mend or remove it")
    if "image" in entry:
        image = value(place, entry, "image", str)
    else:
        image = f"{value(place, entry, 'directory', (str, int))}/{part}-{identifier}-0.png"
    check_name(place, image)
    return Statement(image, sentence.strip(), answer, identifier)
