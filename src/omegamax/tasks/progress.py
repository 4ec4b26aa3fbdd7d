"""How far work that takes long has got, on the error stream."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

T = TypeVar("T")
_SECONDS = 15.0  # from one line to the next


def progress(things: Iterable[T], what: str) -> Iterator[T]:
    """Yield the same things, with a bar while they are worked on; it goes away at the end.

    Without a terminal, a line every quarter of a minute, and none for what takes less.

        >>> list(progress([1, 2], "counting"))
        [1, 2]
    """
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    if console.is_terminal:
        yield from track(things, f"{what:<18}", console=console, transient=True)
    else:
        yield from _with_lines(things, what)


def _with_lines(things: Iterable[T], what: str) -> Iterator[T]:
    total = f" of {len(things)}" if isinstance(things, Sized) else ""
    said = time.monotonic()
    for done, thing in enumerate(things):
        if time.monotonic() - said >= _SECONDS:
            said = time.monotonic()
            print(f"  {what}: {done}{total}", file=sys.stderr, flush=True)
        yield thing
