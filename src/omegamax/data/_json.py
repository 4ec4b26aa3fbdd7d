"""JSON that comes from files of others."""

from __future__ import annotations

import json
from typing import Any

MOST_DIGITS = 400  # of a number; the largest double has 309


def parse_json(text: str) -> Any:
    """The content of a JSON text; what its standard forbids or leaves open is a ValueError.

    Refused are NaN and Infinity, an object with the same key twice, and more levels than Python has room for.

    >>> parse_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
        ...
    ValueError: the key 'a' occurs twice in an object
    """
    try:
        return json.loads(text, parse_constant=_constant, parse_int=_int, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


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
