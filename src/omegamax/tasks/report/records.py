"""What the records of a comparison share, whatever was asked: numbers that JSON can hold, and how they are kept."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeVar

from omegamax.data.files import parse_json, read_text
from omegamax.data.unpack import MIB

Record = TypeVar("Record")
MOST_COMPARISON = 1024 * MIB  # bytes of a saved comparison


class ModelRow(Protocol):
    """One model of a table: what the page shows of any.

    Attributes:
        name: label shown; the looks of an example refer to it.
        kind: of the attention, ``"continuous_softmax"``; it chooses the colour.
        accuracy: in [0, 1], of ``"overall"`` and of each part; None where there was nothing of it.
        parameters: how many the model learns.
        step_ms: milliseconds of one training step.
        curve: points in order, each with ``"step"`` and any of ``"seconds"``, ``"train_loss"``, ``"val_loss"``,
            ``"val_accuracy"``.
        difference: of the accuracy from that of the first row on the same examples, and the ends of its 95 % interval.
    """

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def accuracy(self) -> dict[str, float | None]: ...

    @property
    def parameters(self) -> int: ...

    @property
    def step_ms(self) -> float | None: ...

    @property
    def curve(self) -> list[dict[str, float | None]]: ...

    @property
    def difference(self) -> tuple[float, float, float] | None: ...


def settle_row(row: ModelRow, numbers: Iterable[str]) -> None:
    """Check a row that is being made; a number in ``numbers`` that is not finite counts as not known, and is None."""
    kind = type(row).__name__
    if not row.name.strip():
        raise ValueError(f"{kind}: name is empty")
    set_field(row, "accuracy", {str(part): plain_number(value) for part, value in row.accuracy.items()})
    for name in numbers:
        set_field(row, name, plain_number(getattr(row, name)))
    set_field(row, "curve", [{key: plain_number(value) for key, value in point.items()} for point in row.curve])
    if any(point.get("step") is None for point in row.curve):
        raise ValueError(f"{kind} {row.name!r}: every point of the curve needs a 'step'")
    if row.difference is not None:
        ends = tuple(float(value) for value in row.difference)
        set_field(row, "difference", ends if len(ends) == 3 and all(map(math.isfinite, ends)) else None)


def check_records(kind: str, rows: Sequence[ModelRow], examples: Sequence[Any]) -> None:
    """Refuse two rows or examples of the same name, and the look of a model that has no row."""
    names = [row.name for row in rows]
    for what, given in (("rows", names), ("examples", [example.id for example in examples])):
        seen: set[str] = set()
        for name in given:
            if name in seen:
                raise ValueError(f"{kind}: two {what} are called {name!r}")
            seen.add(name)
    for example in examples:
        strange = [name for name in example.looks if name not in names]
        if strange:
            found, known = f"{example.id!r} has a look of {strange[0]!r}", ", ".join(map(repr, names))
            raise ValueError(f"{kind}: example {found}; the rows are {known}")


def save_record(record: Any, form: str, path: str | PathLike[str]) -> None:
    """Write a comparison as JSON under the name of its format, pictures as base64."""

    def encode(value: object) -> str:
        if isinstance(value, bytes):
            return b64encode(value).decode("ascii")
        raise TypeError(f"{type(record).__name__}.save: cannot write {type(value).__name__}")

    text = json.dumps({"format": form, **asdict(record)}, default=encode, allow_nan=False, indent=1)
    Path(path).write_text(text, encoding="utf-8")


def load_record(kind: type[Record], form: str, path: str | PathLike[str], **build: Callable[[Any], Any]) -> Record:
    """Read what :func:`save_record` wrote; ValueError for anything else.

    Args:
        kind: of the record.
        form: the name of its format.
        build: by name, functions that make fields of what JSON has of them; the others are taken as they are.
    """
    try:
        data = parse_json(read_text(path, MOST_COMPARISON))
        if not isinstance(data, dict) or data.pop("format", None) != form:
            raise ValueError(f"no {form!r}")
        return kind(**{name: build[name](value) if name in build else value for name, value in data.items()})
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{kind.__name__}.load: {path} is not a saved comparison: {error}") from error


def set_field(record: object, name: str, value: object) -> None:
    """Set a field of a frozen dataclass, while it is being made."""
    object.__setattr__(record, name, value)


def plain_number(value: Any) -> float | None:
    """Return a plain number, None if it is not finite: JSON has no NaN, and NaN is unequal to itself.

    >>> plain_number(0.5), plain_number(float("nan")), plain_number(3)
    (0.5, None, 3)
    """
    if value is None or isinstance(value, bool | int):
        return value
    return float(value) if math.isfinite(value) else None
