"""Warnings of this package as lines that a user can read, without the place in the code that they come from."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omegamax.data.errors import printable

_PACKAGE = Path(__file__).parent.parent


@contextmanager
def show_plainly(command: str) -> Iterator[None]:
    """Write each warning of this package as one line of a command, ``omegamax <command>: warning: ...``.

    Those of other packages keep the file and the line, which say whose they are.
    """
    whole = warnings.formatwarning

    def format(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        named = category.__module__.partition(".")[0] == "omegamax" or str(message).startswith("omegamax")
        ours = named or _PACKAGE in Path(filename).parents
        if not ours:
            return whole(message, category, filename, lineno, line)
        return f"omegamax {command}: warning: {printable(' '.join(str(message).split()))}\n"

    warnings.formatwarning = format
    try:
        yield
    finally:
        warnings.formatwarning = whole
