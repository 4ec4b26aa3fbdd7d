"""The answers a model chooses from: those that are frequent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from omegamax._arguments import check_integer
from omegamax.data.files import DataError, FilePath, read_json
from omegamax.data.vqa2.answers import normalise_answer
from omegamax.data.vqa2.files import Annotation


def answer_dictionary(annotations: Iterable[Annotation], least: int = 9) -> list[str]:
    """Return the normalised majority answers of at least ``least`` questions, frequent ones first.

    Published models take train and val of VQA-v2 together and the default of 9, and report 3,129 answers.

    >>> yes = Annotation(7, 1, "is the", "yes/no", "Yes", ("yes",) * 10, ("yes",) * 10)
    >>> answer_dictionary([yes, yes], least=2)
    ['yes']
    """
    check_integer("answer_dictionary", "least", least, least=1)
    counts = Counter(normalise_answer(annotation.answer) for annotation in annotations)
    del counts[""]
    kept = sorted((answer for answer, count in counts.items() if count >= least), key=lambda a: (-counts[a], a))
    if not kept:
        raise ValueError(f"answer_dictionary: no answer occurs {least} times; take a smaller least")
    return kept


def save_dictionary(path: FilePath, answers: Sequence[str]) -> None:
    """Write the answers as a JSON list; the place in the list is the number of the answer."""
    Path(path).write_text(json.dumps(list(answers), ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def load_dictionary(path: FilePath) -> list[str]:
    """Read the answers: a JSON list, or an object from answers to their numbers 0, 1, ...

    Or, as published with models, a list of two objects: that one, and its inverse from numbers to answers.
    """
    content = read_json(path)
    if isinstance(content, list) and len(content) == 2 and all(isinstance(part, dict) for part in content):
        content, inverse = content
        if {str(number): answer for answer, number in content.items()} != inverse:
            raise DataError(f"{path}: the second object must lead from each number back to its answer; mend it")
    if isinstance(content, dict):
        if not all(type(number) is int for number in content.values()) or (
            sorted(content.values()) != list(range(len(content)))
        ):
            raise DataError(f"{path}: the numbers of the answers must be 0 to {len(content) - 1}, each once; mend them")
        content = sorted(content, key=content.__getitem__)
    if not isinstance(content, list) or not content:
        raise DataError(f"{path} must be a list of answers that is not empty; write it with save_dictionary")
    seen = set()
    for position, answer in enumerate(content):
        if not isinstance(answer, str) or not answer or answer in seen:
            what = "occurs twice" if isinstance(answer, str) and answer in seen else "is not a word"
            raise DataError(f"{path}: entry {position}, {answer!r}, {what}; mend or remove it")
        seen.add(answer)
    return content
