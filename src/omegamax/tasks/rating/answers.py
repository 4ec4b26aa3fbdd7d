"""Files of answers to a survey, of one rater each, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from omegamax.data.errors import DataError
from omegamax.data.files import parse_json, read_text, value
from omegamax.data.unpack import MIB
from omegamax.tasks.rating.page import ANSWERS_FORMAT
from omegamax.tasks.rating.survey import Key, name_survey

_MOST = 256 * MIB  # bytes of a file of answers


class Unit(NamedTuple):
    """What one grade is given to: a network's text about a picture, or its attention for one word (by its index)."""

    picture: str
    network: str
    word: int | None = None


@dataclass(frozen=True)
class Ratings:
    """Grades from 1 to 5 that people gave.

    Args:
        key: of the survey.
        raters: their names, in the order of the files.
        grades: for each rater, the grade of each unit rated; what somebody left out is not there.
    """

    key: Key
    raters: tuple[str, ...]
    grades: tuple[dict[Unit, int], ...]

    @property
    def units(self) -> list[Unit]:
        """Return all that there was to rate, in the order shown."""
        return list_units(self.key)


def list_units(key: Key) -> list[Unit]:
    """Return all that a survey asks to rate, in the order shown."""
    units = []
    for picture, order, looks in zip(key.pictures, key.order, key.rated, strict=True):
        for index, (_, rated) in zip(order, looks, strict=True):
            name = key.networks[index]
            units += [Unit(picture, name), *(Unit(picture, name, word) for word in rated)]
    return units


def read_ratings(paths: Sequence[str | PathLike[str]]) -> Ratings:
    """Read files of answers to one survey, as its page saves them.

    A file in which answers are missing counts with those that it has. Refused, by the names of the files, are answers
    to different surveys and two files of the same rater: which of them is meant is for somebody to decide.

    Args:
        paths: one for each rater, at least one.
    """
    if not paths:
        raise DataError("there is no file of answers; give those that raters saved")
    read = [(path, *_read(path)) for path in map(Path, paths)]
    first, survey, key, _, _ = read[0]
    raters: dict[str, Path] = {}
    for path, other, _, rater, _ in read:
        if other != survey:
            raise DataError(f"{path} has answers to another page ({other}) than {first} ({survey}); give those to one")
        same = rater.casefold()
        if same in raters:
            raise DataError(f"{raters[same]} and {path} are both by {rater}; give one of them, the later say")
        raters[same] = path
    return Ratings(key, tuple(rater for _, _, _, rater, _ in read), tuple(grades for *_, grades in read))


def _read(path: Path) -> tuple[str, Key, str, dict[Unit, int]]:
    """Return the name of the survey, its key, the rater, and the grades that a file has."""
    try:
        data = parse_json(read_text(path, _MOST))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; check the path") from None
    except ValueError as error:
        raise DataError(f"{path} is no file of answers ({error}); give one that the page saved") from error
    if not isinstance(data, dict) or data.get("format") != ANSWERS_FORMAT:
        raise DataError(f"{path} is no file of answers; give one that the page saved")
    place = str(path)
    survey, rater, sealed = (value(place, data, name, str) for name in ("survey", "rater", "key"))
    try:
        key = Key.unseal(sealed)
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}; ask for it again") from error
    if name_survey(sealed) != survey:
        raise DataError(f"{path} is damaged: it has the key of another page; ask for it again")
    if not rater.strip():
        raise DataError(f"{path} does not say who rated; put a name into 'rater'")
    return survey, key, rater.strip(), _collect(place, key, value(place, data, "answers", list))


def _collect(place: str, key: Key, answers: list[Any]) -> dict[Unit, int]:
    """Return the grades of a file by what they are given to."""
    if len(answers) != len(key.pictures):
        raise DataError(f"{place}: wanted answers about {len(key.pictures)} pictures, got {len(answers)}")
    grades: dict[Unit, int] = {}
    for picture, order, rated, looks in zip(key.pictures, key.order, key.rated, answers, strict=True):
        if not isinstance(looks, list) or len(looks) != len(order):
            raise DataError(f"{place}: {picture} must have answers about {len(order)} networks, got {looks!r:.60}")
        for index, (_, words), look in zip(order, rated, looks, strict=True):
            name = key.networks[index]
            given = value(place, look, "words", list)
            if len(given) != len(words):
                raise DataError(f"{place}: {picture} must have {len(words)} grades of words, got {len(given)}")
            units = [Unit(picture, name), *(Unit(picture, name, word) for word in words)]
            for unit, grade in zip(units, [look.get("text"), *given], strict=True):
                if grade is None:
                    continue
                if type(grade) is not int or not 1 <= grade <= 5:
                    raise DataError(f"{place}: {picture}: grades must be 1 to 5, or null, got {grade!r}")
                grades[unit] = grade
    return grades
