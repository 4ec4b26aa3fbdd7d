"""Files of datasets: found, opened, read and parsed, or refused with the name, the position and the remedy."""

from __future__ import annotations

import gc
import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any, BinaryIO

from omegamax.data.errors import DataError as DataError
from omegamax.data.unpack import MIB, BoundedReader, open_bounded, too_much

FilePath = str | PathLike[str]
Text = tuple[str, dict[str, float]]  # a question, and the score of each answer

BROKEN = (OSError, EOFError, ValueError, KeyError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, NotImplementedError)
MOST_TEXT = 4096 * MIB  # bytes of a text file; the annotations of VQA-v2 have a tenth of that
MOST_DIGITS = 400  # of a number; the largest double has 309
MOST_LINE = 16 * MIB  # characters of a line of one


def check_folder(name: str, folder: FilePath) -> Path:
    """Return the folder as a path; refuse what is none."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise FileNotFoundError(f"{name}: the folder {path} {what}; give the folder that holds the set's files")
    return path


def find(name: str, folder: Path, candidates: Sequence[str]) -> Path:
    """Return the first of the candidates that is in the folder."""
    for candidate in candidates:
        if (folder / candidate).exists():
            return folder / candidate
    wanted = " or ".join(candidates)
    raise FileNotFoundError(f"{name}: {folder} has no {wanted}; put the file there, or give another folder")


def open_text(path: Path) -> IO[str]:
    """Open a UTF-8 text file, plain or compressed by xz or gzip, as its ending says; too long a one is an error."""
    return io.TextIOWrapper(open_bounded(path, MOST_TEXT), encoding="utf-8")


def read_text(path: FilePath, most: int) -> str:
    """Return the content of a plain UTF-8 text file, whatever its ending; more than ``most`` bytes are an error."""
    path = Path(path)
    if path.stat().st_size > most:
        raise too_much(path, most)
    raw = io.BufferedReader(BoundedReader(path.open("rb"), path, most), MIB)
    with io.TextIOWrapper(raw, encoding="utf-8") as file:
        return file.read()


def parse_json(text: str, *, finite: bool = True) -> Any:
    """Return the content of a JSON text; what its standard forbids or leaves open is a ValueError.

    Refused are NaN and Infinity (unless ``finite`` is False), an object with the same key twice, and more levels than
    Python has room for.

    >>> parse_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
        ...
    ValueError: the key 'a' occurs twice in an object
    """
    constant = _constant if finite else float
    try:
        return json.loads(text, parse_constant=constant, parse_int=_int, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: FilePath) -> Any:
    """Return the content of a JSON file."""
    path = Path(path)
    try:
        with open_text(path) as file:
            return parse_json(file.read())
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; check the path") from None
    except DataError:
        raise
    except BROKEN as error:
        raise DataError(f"{path} is damaged or not a JSON file ({reason(error)}); get the file again") from error


def number_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers, from 1 on, one after the other and never all at once.

    A line with a byte that is not of the encoding, or with a NUL, which no text has, is an error that names it. A mark
    of the byte order at the beginning is passed over.
    """
    try:
        with open_bounded(path, MOST_TEXT) as stream:
            yield from number_stream(stream, path, encoding)
    except BROKEN as error:
        if isinstance(error, DataError):  # has said what there is to say
            raise
        raise DataError(f"{path} is damaged or not a text file ({reason(error)}); get the file again") from error


def number_stream(stream: BinaryIO, place: object, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield the lines of a stream as :func:`number_lines` does; ``place`` is what errors call it."""
    try:
        # Bytes that cannot be decoded come through as surrogates, so that the line is known that has them.
        with _decode(stream, place, encoding) as file:
            number = 0
            while line := file.readline(MOST_LINE + 1):
                number += 1
                if len(line) > MOST_LINE:
                    wanted = f"at most {MOST_LINE:,} characters"
                    raise DataError(f"{place}: line {number} must have {wanted}, but is longer; get the file again")
                if not line.isascii() or "\0" in line:
                    _check_decoded(place, number, line, encoding)
                yield number, line.removeprefix("\ufeff") if number == 1 else line
    except BROKEN as error:
        if isinstance(error, DataError):  # has said what there is to say
            raise
        raise DataError(f"{place} is damaged or not a text file ({reason(error)}); get the file again") from error


def _decode(stream: BinaryIO, place: object, encoding: str) -> io.TextIOWrapper:
    try:
        return io.TextIOWrapper(stream, encoding, "surrogateescape")
    except LookupError as error:
        wanted = "one that Python knows, such as utf-8 or latin-1"
        raise DataError(f"{place} cannot be read: its encoding must be {wanted}, got {encoding!r}") from error


def _check_decoded(place: object, number: int, line: str, encoding: str) -> None:
    wrong = next((c for c in line if c == "\0" or "\udc80" <= c <= "\udcff"), None)
    if wrong is not None:
        what = "a NUL" if wrong == "\0" else f"the byte 0x{ord(wrong) & 0xFF:02x}, which is not {encoding}"
        raise DataError(
            f"{place} is damaged or not a text file (line {number} has {what}); get it again, or give its encoding"
        )


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of a text file that are not blank, each with the position to name in messages."""
    for number, line in number_lines(path):
        if line.strip():
            yield f"{path}: line {number}", line.rstrip("\n")


def read_json_lines(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the objects of a file with one of them a line, each with the position to name in messages."""
    entries = [(f"{path}: line {number}", entry) for number, entry in number_json_lines(path)]
    if not entries:
        raise DataError(f"{path} is empty; get the file again")
    return entries


def number_json_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file with one of them a line, with the numbers of their lines; blank ones have none."""
    for number, line in number_lines(path, encoding):
        if not line.strip():
            continue
        place = Place(path, ": line ", number)
        try:
            entry = parse_json(line)
        except ValueError as error:
            raise DataError(f"{place} is not JSON ({reason(error)}); mend or remove the line") from error
        if not isinstance(entry, dict):
            raise DataError(f"{place} must be an object {{...}}, got {short(entry)}; mend or remove the line")
        yield number, entry


class Place:
    """A place in a file, put into words only where there is something to say about it: files have millions."""

    __slots__ = ("parts",)

    def __init__(self, *parts: object) -> None:
        self.parts = parts

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


def value(place: str | Place, entry: Any, key: str, kind: type | tuple[type, ...]) -> Any:
    """Return ``entry[key]``, refused if it is missing or of another type."""
    if isinstance(entry, dict) and key in entry:
        found = entry[key]
        # bool is an int in Python, but true is no number of a question.
        if isinstance(found, kind) and (not isinstance(found, bool) or _takes(bool, kind)):
            return found
    names = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
    if not isinstance(entry, dict):
        raise DataError(f"{place} must be an object with {key!r}, got {short(entry)}; mend or remove it")
    if key not in entry:
        raise DataError(f"{place} has no {key!r} (wanted: {names}); mend or remove it")
    raise DataError(f"{place}: {key!r} must be {names}, got {short(entry[key])}; mend or remove it")


@contextmanager
def many_objects() -> Iterator[None]:
    """Run a block without the search for cycles, which takes longer than reading millions of objects."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _takes(kind: type, kinds: type | tuple[type, ...]) -> bool:
    return kind in (kinds if isinstance(kinds, tuple) else (kinds,))


def reason(error: BaseException) -> str:
    """Return name and message of a library's error in one text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def short(thing: object) -> str:
    """Return the ``repr`` of a thing, or the beginning of a long one."""
    text = repr(thing[:60] if isinstance(thing, (str, list)) else thing)
    return text if len(text) <= 60 else text[:57] + "..."


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _int(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number must have at most {MOST_DIGITS} digits, got {len(digits)}")
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:60]!r} occurs twice in an object")
    return made
