"""Bars for work that takes long, on the error stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def progress(things: Iterable[T], what: str) -> Iterator[T]:
    """The same things, with a bar while they are worked on; it goes away at the end.

    Without a terminal, nothing is shown.

        >>> list(progress([1, 2], "counting"))
        [1, 2]
    """
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(things, f"{what:<18}", console=console, transient=True, disable=not console.is_terminal)
