"""easy-VQA: one coloured shape, thirteen answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torch import Tensor
from torch.utils.data import Dataset

from omegamax._arguments import check_choice
from omegamax.data._kinds import kind_of
from omegamax.data._split import held_out as held_out_pictures
from omegamax.data.files import DataError, FilePath, Text, check_folder, find, read_json, short
from omegamax.data.pictures import Pictures, Size, check_size, read_pictures, resize
from omegamax.data.sample import Sample

SPLITS = ("train", "val", "test")


class EasyVQA(Dataset[Sample]):
    """Questions about pictures of 64 x 64 pixels with one shape, answers such as yes, circle, teal.

    ``folder`` holds ``train_questions.json`` and ``test_questions.json`` (also ``.xz``, ``.gz``), lists of
    ``[question, answer, picture number]``, and ``train_images.npz`` and ``test_images.npz``, uint8 ``[N, 64, 64, 3]``;
    or the folders ``train`` and ``test`` of the original package, with ``questions.json`` and ``images/0.png``, ...

    Args:
        folder: with these files.
        split: ``"train"``, ``"val"`` (pictures that are taken from the training part) or ``"test"``.
        size: ``(height, width)`` to which pictures are brought; None leaves them as they are.
        held_out: share of the training pictures that validation takes.

    Source: https://github.com/vzhou842/easy-VQA.
    """

    def __init__(
        self, folder: FilePath, split: str = "train", *, size: Size | None = None, held_out: float = 0.1
    ) -> None:
        check_choice("EasyVQA", "split", split, SPLITS)
        self.folder, self.split = check_folder("EasyVQA", folder), split
        part = "test" if split == "test" else "train"
        path = find("EasyVQA", self.folder, _questions(part))
        questions = _read(path)
        source = find("EasyVQA", self.folder, [f"{part}_images.npz", f"{part}/images"])
        self._images: Pictures | Tensor
        if source.is_dir():
            self._images = Pictures(source)
            count = 1 + max(number for _, _, number in questions)
        else:
            self._images = read_pictures(source, "images")
            count = len(self._images)
        for entry, (_, _, number) in enumerate(questions):
            if not 0 <= number < count:
                given = f"{path}: entry {entry} is about picture {number}"
                raise DataError(f"{given}, but {source} has {count} of them; get both files again")
        if part == "train":
            chosen = held_out_pictures("EasyVQA", count, held_out)
            questions = [each for each in questions if (each[2] in chosen) == (split == "val")]
        self.questions = questions
        self._size = check_size("EasyVQA", size)

    def __len__(self) -> int:
        return len(self.questions)

    def texts(self) -> Iterator[Text]:
        """Return every question with its answers and their scores."""
        return ((question, {answer: 1.0}) for question, answer, _ in self.questions)

    def __getitem__(self, index: int) -> Sample:
        question, answer, number = self.questions[index]
        image = self._images[f"{number}.png"] if isinstance(self._images, Pictures) else self._images[number]
        name = f"{self.split}-{range(len(self))[index]}"
        return Sample(question, {answer: 1.0}, kind_of(answer), name, image=resize(image, self._size))


def _questions(part: str) -> list[str]:
    return [name + end for name in (f"{part}_questions.json", f"{part}/questions.json") for end in ("", ".xz", ".gz")]


def _read(path: Path) -> list[tuple[str, str, int]]:
    content = read_json(path)
    if not isinstance(content, list) or not content:
        raise DataError(f"{path} must be a list of [question, answer, picture number]; get the file again")
    for number, entry in enumerate(content):
        fits = isinstance(entry, list) and [type(part) for part in entry] == [str, str, int]
        if not fits or not all(part.strip() for part in entry[:2]):
            wanted = "[question, answer, picture number]"
            raise DataError(f"{path}: entry {number} must be {wanted}, got {short(entry)}; mend or remove it")
    return [(question, answer, picture) for question, answer, picture in content]
