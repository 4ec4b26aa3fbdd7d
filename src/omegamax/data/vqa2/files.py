"""Question and annotation files of VQA, versions 1 and 2."""

from __future__ import annotations

from sys import intern
from typing import Any, NamedTuple

from omegamax.data.files import DataError, FilePath, Place, many_objects, read_json, value
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
    with many_objects():
        content = _content(path, "questions")
        questions: dict[int, Question] = {}
        for position, entry in enumerate(content["questions"]):
            question = _question(Place(path, ": questions[", position, "]"), entry)
            if questions.setdefault(question.question_id, question) is not question:
                place = f"{path}: questions[{position}] (question_id {question.question_id})"
                raise DataError(f"{place} occurs twice; remove one of the two")
    subset = content.get("data_subtype")
    return QuestionFile(questions, subset if isinstance(subset, str) else None)


def read_annotations(path: FilePath) -> dict[int, Annotation]:
    """Read a file such as ``v2_mscoco_train2014_annotations.json`` (also ``.gz``, ``.xz``), by question number.

    An object with the list ``annotations`` of objects with ``question_id``, ``image_id``, ``question_type``,
    ``answer_type``, ``multiple_choice_answer`` and ``answers``, a list of objects with ``answer`` and
    ``answer_confidence``.
    """
    with many_objects():
        annotations: dict[int, Annotation] = {}
        for position, entry in enumerate(_content(path, "annotations")["annotations"]):
            annotation = _annotation(Place(path, ": annotations[", position, "]"), entry)
            if annotations.setdefault(annotation.question_id, annotation) is not annotation:
                place = f"{path}: annotations[{position}] (question_id {annotation.question_id})"
                raise DataError(f"{place} occurs twice; remove one of the two")
    return annotations


def _question(place: Place, entry: Any) -> Question:
    number = _identifier(place, entry, "question_id")
    place = Place(place, " (question_id ", number, ")")
    text = value(place, entry, "question", str)
    if not text.strip():
        raise DataError(f"{place}: the question is empty; mend or remove it")
    return Question(number, _identifier(place, entry, "image_id"), text)


def _annotation(place: Place, entry: Any) -> Annotation:
    number = _identifier(place, entry, "question_id")
    place = Place(place, " (question_id ", number, ")")
    kind = value(place, entry, "answer_type", str)
    if kind not in KINDS:
        wanted = ", ".join(map(repr, KINDS))
        raise DataError(f"{place}: 'answer_type' must be one of {wanted}, got {kind!r}; mend or remove it")
    given = value(place, entry, "answers", list)
    if not given:
        raise DataError(f"{place} has no answers; mend or remove it")
    # Each of the few thousand answers once in memory, and not several million times.
    answers = [intern(value(Place(place, ", answer ", i), each, "answer", str)) for i, each in enumerate(given, 1)]
    return Annotation(
        number,
        _identifier(place, entry, "image_id"),
        intern(value(place, entry, "question_type", str)),
        intern(kind),
        intern(value(place, entry, "multiple_choice_answer", str)),
        tuple(answers),
        tuple(intern(str(each.get("answer_confidence", ""))) for each in given),
    )


def _identifier(place: Place, entry: Any, key: str) -> int:
    """Return a number that names a question or a picture; it becomes part of a file's name."""
    number = value(place, entry, key, int)
    if not -(2**63) <= number < 2**63:
        raise DataError(f"{place}: {key!r} must be a number of 64 bits, got one of {number.bit_length()}; mend it")
    return number


def _content(path: FilePath, key: str) -> dict[str, Any]:
    """Return the content of a file with a list ``key``."""
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get(key), list):
        found = f"the keys {', '.join(content)}" if isinstance(content, dict) else type(content).__name__
        raise DataError(f"{path} must be an object with a list {key!r}, got {found}; is it the {key} file?")
    if not content[key]:
        raise DataError(f"{path}: the list {key!r} is empty; get the file again")
    return content
