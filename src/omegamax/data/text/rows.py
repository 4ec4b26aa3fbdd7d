"""Rows of a table in a text file, one after the other: CSV, TSV, or JSON objects a line each."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegamax._arguments import check_choice
from omegamax.data.files import MOST_LINE, DataError, Place, number_json_lines, number_lines, short

FORMATS = ("csv", "tsv", "jsonl")
_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_SHOWN = 8  # columns that an error names
_DELIMITERS = {"csv": ",", "tsv": "\t"}


def tell_format(path: Path) -> str:
    """Tell the format of a file by the ending of its name; that of its compression, ``.xz`` or ``.gz``, comes after.

    >>> tell_format(Path("reviews.tsv.gz"))
    'tsv'
    """
    ending = (path.with_suffix("") if path.suffix in (".xz", ".gz") else path).suffix.lower()
    if ending not in _ENDINGS:
        wanted = f"one of {', '.join(_ENDINGS)}"
        raise DataError(f"{path}: the ending must be {wanted}, or give the format, csv, tsv or jsonl (--data.format)")
    return _ENDINGS[ending]


def read_rows(
    path: Path,
    columns: Sequence[str],
    *,
    optional: Sequence[str] = (),
    missing: Mapping[str, str] | None = None,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of the line that each row begins at, and its cells by the names of the columns asked for.

    Only one row at a time is in memory. A CSV or TSV file has the names of its columns in its first line. In a CSV
    file a cell with line ends or delimiters stands between quotation marks; in a TSV file these have no meaning, and
    a line is a row. Blank lines are passed over. Cells are text, in JSON whatever the value is.

    Args:
        path: plain, or compressed by xz or gzip.
        columns: names of those that every row must have.
        optional: names of others to return where they are there.
        missing: what to do about columns that are not, by name, for messages.
        format: ``"csv"``, ``"tsv"`` or ``"jsonl"``; None: by the ending of the name.
        delimiter: between cells, another than the format's.
        encoding: of the characters.
    """
    kind = format or tell_format(path)
    check_choice("read_rows", "format", kind, FORMATS)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        wanted = "one character, no quotation mark and no line end"
        raise ValueError(f"read_rows: delimiter must be {wanted}, got {delimiter!r} (--data.delimiter)")
    if not path.exists() or path.is_dir():  # a pipe will do
        raise FileNotFoundError(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}; check the path")
    if kind == "jsonl":
        return _objects(path, columns, optional, missing or {}, encoding)
    return _cells(path, columns, optional, missing or {}, kind, delimiter or _DELIMITERS[kind], encoding)


def _objects(
    path: Path, columns: Sequence[str], optional: Sequence[str], missing: Mapping[str, str], encoding: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, entry in number_json_lines(path, encoding):
        absent = next((name for name in columns if name not in entry), None)
        if absent is not None:
            remedy = missing.get(absent, "name the columns to read")
            there = _list_names(list(entry))
            raise DataError(f"{path}: line {number} has no {absent!r}, it has {there}; {remedy}")
        yield number, {name: entry[name] for name in (*columns, *optional) if name in entry}


def _cells(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str],
    missing: Mapping[str, str],
    kind: str,
    delimiter: str,
    encoding: str,
) -> Iterator[tuple[int, dict[str, Any]]]:
    begun = 0  # the last line that was read

    def follow() -> Iterator[str]:
        nonlocal begun
        for number, line in number_lines(path, encoding):
            begun = number
            yield line

    # Python's own limit is 128 KiB for each cell of each file; that of a line holds here.
    csv.field_size_limit(max(csv.field_size_limit(), MOST_LINE))
    marks: Any = csv.QUOTE_NONE if kind == "tsv" else csv.QUOTE_MINIMAL
    reader = csv.reader(follow(), delimiter=delimiter, quoting=marks, strict=True)
    head: list[str] | None = None
    place: dict[str, int] = {}
    while True:
        first = begun + 1
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            raise DataError(f"{path}: the row that begins at line {first} cannot be read ({error}); mend it") from error
        if not row:  # a blank line; cells that are there and empty make a row
            continue
        if head is None:
            head, place = row, _find_columns(path, row, columns, optional, missing, delimiter)
            continue
        if len(row) != len(head):
            wanted = f"{len(head)} cells, as the first line"
            raise DataError(f"{Place(path, ': line ', first)} must have {wanted}, got {len(row)}; mend or remove it")
        yield first, {name: row[index] for name, index in place.items()}
    if head is None:
        raise DataError(f"{path} is empty; get the file again")


def _find_columns(
    path: Path,
    head: list[str],
    columns: Sequence[str],
    optional: Sequence[str],
    missing: Mapping[str, str],
    delimiter: str,
) -> dict[str, int]:
    """Return where the columns asked for are."""
    names = [name.strip() for name in head]
    for name in columns:
        if name not in names:
            remedy = "name those to read"
            mark = next((each for each in ",;|\t" if each != delimiter and each in names[0]), None)
            if len(names) == 1 and mark is not None:
                remedy = f"if {mark!r} is between its cells, give it as delimiter (--data.delimiter)"
            elif name in missing:
                remedy = missing[name]
            raise DataError(f"{path} has no column {name!r}, it has {_list_names(names)}; {remedy}")
    for name, times in Counter(names).items():
        if times > 1 and (name in columns or name in optional):
            raise DataError(f"{path} has {times} columns called {name!r}; rename one, so that it is clear which counts")
    return {name: names.index(name) for name in (*columns, *optional) if name in names}


def _list_names(names: list[str]) -> str:
    """Return the names of columns in a line, the beginning of long ones and of many."""
    return ", ".join(map(short, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "") or "none"
