"""DAQUAR: questions about photographs of rooms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from torch.utils.data import Dataset

from omegamax._arguments import check_choice
from omegamax.data._kinds import kind_of
from omegamax.data._split import held_out as held_out_pictures
from omegamax.data.files import (
    DataError,
    FilePath,
    Text,
    check_folder,
    find,
    read_json_lines,
    read_lines,
    short,
    value,
)
from omegamax.data.paths import check_name, inside
from omegamax.data.pictures import Pictures, Size, check_size, resize
from omegamax.data.sample import Sample
from omegamax.data.vqa2.features import SUFFIXES, Features, read_features

SPLITS = ("train", "val", "test")
SOURCES = ("images_short192.zip", "images.zip", "images", "nyu_depth_images")  # of pictures, in the folder of the set
_TAIL = 100  # characters at the end of a question in which its picture is named
_PICTURE = re.compile(r"\s*(?:in\s+)?(?:the|this)?\s*\bimage(\d+)\s*\?\s*$")


class Entry(NamedTuple):
    """A question, the name of its picture, and the answers, which together are right."""

    image: str
    question: str
    answers: tuple[str, ...]


class Daquar(Dataset[Sample]):
    """Questions about the indoor photographs of NYU-Depth v2, official split by photograph.

    ``folder`` holds ``train.jsonl`` and ``test.jsonl`` (also ``.xz``, ``.gz``), objects with ``image``, ``question``
    and ``answers``, a list; or the original ``qa.894.raw.train.txt`` and ``qa.894.raw.test.txt``, a line with a
    question that names its picture and a line with the answers, separated by commas. Pictures lie in
    ``images_short192.zip``, ``images.zip``, or in a folder ``images`` or ``nyu_depth_images``.

    Every tenth question or so asks for a set ("what is on the desk"), and all of it must be named: the accuracy of the
    paper. Such a sample has one answer, the words in the order of the alphabet with a comma between (``"book, lamp"``).

    Args:
        folder: with these files.
        split: ``"train"``, ``"val"`` (pictures that are taken from the training part) or ``"test"``.
        size: ``(height, width)`` to which pictures are brought; None leaves them as they are.
        held_out: share of the training pictures that validation takes.
        features: folder with a file for each picture, named after it (``image3.npz`` or ``image3.pth``), in one of the
            formats of :func:`~omegamax.data.vqa2.read_features`: features in place of pictures.
        sets: ``"whole"`` as above; ``"each"``: every word of the set counts as a full answer, which is kinder than the
            paper; ``"leave out"`` questions that ask for a set.

    Reference: Malinowski & Fritz (NIPS 2014), "A multi-world approach to question answering about real-world scenes".
    """

    def __init__(
        self,
        folder: FilePath,
        split: str = "train",
        *,
        size: Size | None = None,
        held_out: float = 0.1,
        features: FilePath | None = None,
        sets: str = "whole",
    ) -> None:
        check_choice("Daquar", "split", split, SPLITS)
        check_choice("Daquar", "sets", sets, ("whole", "each", "leave out"))
        self.folder, self.split, self.sets = check_folder("Daquar", folder), split, sets
        part = "test" if split == "test" else "train"
        names = [f"{part}.jsonl", f"{part}.jsonl.xz", f"{part}.jsonl.gz", f"qa.894.raw.{part}.txt"]
        path = find("Daquar", self.folder, names)
        entries = _read_raw(path) if path.suffix == ".txt" else _read_json(path)
        if part == "train":
            pictures = list(dict.fromkeys(entry.image for entry in entries))
            chosen = {pictures[i] for i in held_out_pictures("Daquar", len(pictures), held_out)}
            entries = [entry for entry in entries if (entry.image in chosen) == (split == "val")]
        self.entries = [entry for entry in entries if sets != "leave out" or len(entry.answers) == 1]
        self._size = check_size("Daquar", size)
        self._features = None if features is None else check_folder("Daquar", features)
        self._pictures = Pictures(find("Daquar", self.folder, SOURCES)) if features is None else None

    def __len__(self) -> int:
        return len(self.entries)

    def texts(self) -> Iterator[Text]:
        """Return every question with its answers and their scores; no picture is read."""
        return ((entry.question, self._scores(entry)) for entry in self.entries)

    def _scores(self, entry: Entry) -> dict[str, float]:
        return dict.fromkeys(entry.answers if self.sets == "each" else (", ".join(entry.answers),), 1.0)

    def __getitem__(self, index: int) -> Sample:
        entry = self.entries[index]
        given = None if self._features is None else _features(self._features, entry.image)
        kinds = {kind_of(answer) for answer in entry.answers}
        return Sample(
            entry.question,
            self._scores(entry),
            kinds.pop() if len(kinds) == 1 else "other",
            f"{self.split}-{range(len(self))[index]}",
            image=None if self._pictures is None else resize(self._pictures[entry.image], self._size),
            features=None if given is None else given.features,
            boxes=None if given is None else given.boxes,
            pictures=(str(PurePosixPath(entry.image).with_suffix("")),),
        )


def _features(folder: Path, image: str) -> Features:
    """Return the features of a picture, of a grid or of regions."""
    names = [str(PurePosixPath(check_name(folder, image)).with_suffix(ending)) for ending in SUFFIXES]
    paths = [inside(folder, name) for name in names]
    for path in paths:
        if path.is_file():
            return read_features(path)
    wanted = " or ".join(path.name for path in paths)
    raise FileNotFoundError(f"{folder} has no features of the picture {image}: no {wanted}; extract them")


def _entry(place: str, image: str, question: str, answers: list[str]) -> Entry:
    words = sorted({answer.strip() for answer in answers} - {""})
    if not words or not question.strip() or not image:
        what = "answer" if not words else "question" if not question.strip() else "picture"
        raise DataError(f"{place} has no {what}; mend or remove it")
    check_name(place, image)
    return Entry(image, question.strip(), tuple(words))


def _read_json(path: Path) -> list[Entry]:
    entries = []
    for place, entry in read_json_lines(path):
        answers = value(place, entry, "answers", list)
        if not all(isinstance(answer, str) for answer in answers):
            raise DataError(f"{place}: 'answers' must be a list of words, got {short(answers)}; mend or remove it")
        entries.append(_entry(place, value(place, entry, "image", str), value(place, entry, "question", str), answers))
    return entries


def _read_raw(path: Path) -> list[Entry]:
    lines = list(read_lines(path))
    if len(lines) % 2 or not lines:
        raise DataError(f"{path} must have a line of answers after each question, got {len(lines)} lines; get it again")
    entries = []
    for (place, question), (_, answers) in zip(lines[::2], lines[1::2], strict=True):
        question = question.rstrip()
        named = _PICTURE.search(question, max(0, len(question) - _TAIL))  # searching all of it takes its length squared
        if named is None:
            wanted = "a question that ends in 'in the image3 ?'"
            raise DataError(f"{place} must be {wanted}, got {short(question)}; mend it")
        entries.append(_entry(place, f"image{named[1]}.png", question[: named.start()], answers.split(",")))
    return entries
