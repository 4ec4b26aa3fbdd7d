"""SHAPES: yes/no questions about coloured shapes in nine places."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torch import Tensor
from torch.utils.data import Dataset

from omegamax._arguments import check_choice
from omegamax.data._kinds import yes_or_no
from omegamax.data.files import DataError, FilePath, Text, check_folder, find, read_json_lines, read_lines, value
from omegamax.data.pictures import Size, check_size, read_pictures, resize
from omegamax.data.sample import Sample

SPLITS = ("train", "val", "test")


class Shapes(Dataset[Sample]):
    """Questions such as "is a green shape left of a red shape" about pictures of 30 x 30 pixels; yes or no.

    ``folder`` holds ``images.npz`` with the uint8 arrays ``train``, ``val`` and ``test``, ``[N, 30, 30, 3]`` in RGB,
    and ``train.jsonl`` and so on (also ``.xz``, ``.gz``), where the i-th line, an object with ``question`` and
    ``answer`` ("true" or "false"), belongs to the i-th picture. Or the original files: ``train.large.input.npy`` in
    BGR, ``train.large.query_str.txt`` and ``train.large.output``, likewise for ``val`` and ``test``.

    Args:
        folder: with these files.
        split: ``"train"``, ``"val"`` or ``"test"``; their questions differ.
        size: ``(height, width)`` to which pictures are brought; None leaves them as they are.

    Reference: Andreas et al. (CVPR 2016), "Neural module networks", section 5. Source of the original files:
    https://github.com/ronghanghu/n2nmn.
    """

    def __init__(self, folder: FilePath, split: str = "train", *, size: Size | None = None) -> None:
        check_choice("Shapes", "split", split, SPLITS)
        self.folder, self.split = check_folder("Shapes", folder), split
        original = "train.large" if split == "train" else split
        names = [f"{split}.jsonl{end}" for end in ("", ".xz", ".gz")]
        path = find("Shapes", self.folder, [*names, f"{original}.query_str.txt"])
        self._images: Tensor
        if path.name.endswith(".query_str.txt"):
            self.questions = _pairs(path, find("Shapes", self.folder, [f"{original}.output"]))
            source = find("Shapes", self.folder, [f"{original}.input.npy"])
            self._images = read_pictures(source, split).flip(1)  # BGR to RGB
        else:
            self.questions = [_entry(place, entry) for place, entry in read_json_lines(path)]
            source = find("Shapes", self.folder, ["images.npz"])
            self._images = read_pictures(source, split)
        if len(self._images) != len(self.questions):
            raise DataError(
                f"{path} has {len(self.questions)} questions, but {source} {len(self._images)} pictures for them; "
                "get both files again"
            )
        self._size = check_size("Shapes", size)

    def __len__(self) -> int:
        return len(self.questions)

    def texts(self) -> Iterator[Text]:
        """Return every question with its answers and their scores."""
        return ((question, {answer: 1.0}) for question, answer in self.questions)

    def __getitem__(self, index: int) -> Sample:
        question, answer = self.questions[index]
        name = f"{self.split}-{range(len(self))[index]}"
        return Sample(question, {answer: 1.0}, "yes/no", name, image=resize(self._images[index], self._size))


def _entry(place: str, entry: dict[str, object]) -> tuple[str, str]:
    return _pair(place, value(place, entry, "question", str), value(place, entry, "answer", (str, bool)))


def _pair(place: str, question: str, label: object) -> tuple[str, str]:
    answer = yes_or_no(label)
    if answer is None:
        raise DataError(f"{place}: the answer must be 'true' or 'false', got {label!r}; mend or remove it")
    if not question.strip():
        raise DataError(f"{place}: the question is empty; mend or remove it")
    return question.strip(), answer


def _pairs(questions: Path, answers: Path) -> list[tuple[str, str]]:
    asked, told = list(read_lines(questions)), list(read_lines(answers))
    if len(asked) != len(told):
        raise DataError(f"{questions} has {len(asked)} lines, {answers} {len(told)}; get both files again")
    return [_pair(place, question, label) for (_, question), (place, label) in zip(asked, told, strict=True)]
