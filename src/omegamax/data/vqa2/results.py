"""The file of answers that the evaluation server takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from omegamax.data.files import DataError, FilePath, read_json, value


def write_results(path: FilePath, results: Mapping[int, str]) -> None:
    """Write ``[{"question_id": 262148000, "answer": "down"}, ...]``, in the order of the numbers.

    The server wants an answer to every question of a split, under a name such as
    ``v2_OpenEnded_mscoco_test-dev2015_mcan_results.json``.
    """
    for number, answer in results.items():
        if type(number) is not int or not isinstance(answer, str):
            raise TypeError(f"write_results: wanted answers (str) by question number (int), got {number!r}: {answer!r}")
    entries = [{"question_id": number, "answer": results[number]} for number in sorted(results)]
    Path(path).write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")


def read_results(path: FilePath) -> dict[int, str]:
    """Read a results file: answers by question number."""
    content = read_json(path)
    if not isinstance(content, list):
        raise DataError(f"{path} must be a list of objects with 'question_id' and 'answer'; is it a results file?")
    results: dict[int, str] = {}
    for position, entry in enumerate(content):
        place = f"{path}: entry {position}"
        number = value(place, entry, "question_id", int)
        if number in results:
            raise DataError(f"{place}: question_id {number} occurs twice; remove one of the two")
        results[number] = value(place, entry, "answer", str)
    return results
