"""Numbers on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """A type of argument: whole numbers from ``least`` on.

    >>> at_least(1)("3")
    3
    """

    def whole(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"must be a whole number, at least {least}, got {text}")
        return value

    return whole
