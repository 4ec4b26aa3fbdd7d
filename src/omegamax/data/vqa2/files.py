"""Question and annotation files of VQA, versions 1 and 2."""

from __future__ import annotations

from sys import intern
from typing import Any, NamedTuple

from omegamax.data._files import DataError, FilePath, read_json, value
from omegamax.data.sample import KINDS


class Question(NamedTuple):
    """One question about one picture of MS-COCO."""

    question_id: int
    image_id: int
    question: str


class Annotation(NamedTuple):
    """The answers that people gave to a question, ten of them in the distributed files.

    ``answer_type`` is ``"yes/no"``, ``"number"`` or ``"other"``, ``question_type`` the first words ("how many"),
    ``answer`` the most frequent answer, ``confidences`` each person's ``"yes"``, ``"maybe"`` or ``"no"``.
    """

    question_id: int
    image_id: int
    question_type: str
    answer_type: str
    answer: str
    answers: tuple[str, ...]
    confidences: tuple[str, ...]


class QuestionFile(NamedTuple):
    """The questions by number, in the order of the file, and the part of MS-COCO (``"train2014"``) that it names."""

    questions: dict[int, Question]
    subset: str | None


def read_questions(path: FilePath) -> QuestionFile:
    """Read a file such as ``v2_OpenEnded_mscoco_train2014_questions.json`` (also ``.gz``, ``.xz``).

    An object with the list ``questions`` of objects with ``question_id``, ``image_id`` and ``question``.
    """
    content, entries = _entries(path, "questions")
    questions: dict[int, Question] = {}
    for place, entry in entries:
        number = value(place, entry, "question_id", int)
        place = f"{place} (question_id {number})"
        text = value(place, entry, "question", str)
        if not text.strip():
            raise DataError(f"{place}: the question is empty; mend or remove it")
        if number in questions:
            raise DataError(f"{place} occurs twice; remove one of the two")
        questions[number] = Question(number, value(place, entry, "image_id", int), text)
    subset = content.get("data_subtype")
    return QuestionFile(questions, subset if isinstance(subset, str) else None)


def read_annotations(path: FilePath) -> dict[int, Annotation]:
    """Read a file such as ``v2_mscoco_train2014_annotations.json`` (also ``.gz``, ``.xz``), by question number.

    An object with the list ``annotations`` of objects with ``question_id``, ``image_id``, ``question_type``,
    ``answer_type``, ``multiple_choice_answer`` and ``answers``, a list of objects with ``answer`` and
    ``answer_confidence``.
    """
    annotations: dict[int, Annotation] = {}
    for place, entry in _entries(path, "annotations")[1]:
        number = value(place, entry, "question_id", int)
        place = f"{place} (question_id {number})"
        kind = value(place, entry, "answer_type", str)
        if kind not in KINDS:
            wanted = ", ".join(map(repr, KINDS))
            raise DataError(f"{place}: 'answer_type' must be one of {wanted}, got {kind!r}; mend or remove it")
        given = value(place, entry, "answers", list)
        if not given:
            raise DataError(f"{place} has no answers; mend or remove it")
        if number in annotations:
            raise DataError(f"{place} occurs twice; remove one of the two")
        answers, confidences = [], []
        for position, answer in enumerate(given, 1):
            where = f"{place}, answer {position}"
            # Each of the few thousand answers once in memory, and not several million times.
            answers.append(intern(value(where, answer, "answer", str)))
            confidences.append(intern(str(answer.get("answer_confidence", ""))))
        annotations[number] = Annotation(
            number,
            value(place, entry, "image_id", int),
            intern(value(place, entry, "question_type", str)),
            intern(kind),
            intern(value(place, entry, "multiple_choice_answer", str)),
            tuple(answers),
            tuple(confidences),
        )
    return annotations


def _entries(path: FilePath, key: str) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """The whole content, and the entries of its list ``key`` with their places."""
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get(key), list):
        found = f"the keys {', '.join(content)}" if isinstance(content, dict) else type(content).__name__
        raise DataError(f"{path} must be an object with a list {key!r}, got {found}; is it the {key} file?")
    if not content[key]:
        raise DataError(f"{path}: the list {key!r} is empty; get the file again")
    return content, [(f"{path}: {key}[{position}]", entry) for position, entry in enumerate(content[key])]
