"""Text in CSV files that spreadsheets open: it stays text."""

from __future__ import annotations

import re
from typing import Any

# What a spreadsheet takes for the beginning of a formula, also as wide characters; quotes before it count, so that
# reading takes away what writing added and no more.
_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


def guard(value: Any) -> Any:
    """Return ``value`` as it goes into a cell: text that would be a formula has a quote before it; numbers stay.

    >>> [guard(text) for text in ("=1+1", "-0.5", "'=x", "sparsemax")], guard(-0.5)
    (["'=1+1", '-0.5', "''=x", 'sparsemax'], -0.5)
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) and not _is_number(value) else value


def unguard(text: str) -> str:
    """Return what :func:`guard` was given.

    >>> [unguard(text) for text in ("'=1+1", "-0.5", "''=x", "it's")]
    ['=1+1', '-0.5', "'=x", "it's"]
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and text.isprintable()
