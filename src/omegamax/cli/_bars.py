"""How far several parts of the work are, on the error stream."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def show_bars(totals: dict[str, int]) -> Iterator[Callable[[str, int], None]]:
    """Show a bar for each part of the work; in a pipe or a file, a line at each quarter."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        reached = dict.fromkeys(totals, 0)

        def line(part: str, done: int) -> None:
            quarter = 4 * done // totals[part]
            if quarter > reached[part]:
                reached[part] = quarter
                print(f"  {part.replace('_', ' ')}: {25 * quarter} %", file=sys.stderr, flush=True)

        yield line
        return
    columns = TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        bars = {part: progress.add_task(part.replace("_", " "), total=n, start=False) for part, n in totals.items()}

        def move(part: str, done: int) -> None:
            progress.start_task(bars[part])
            progress.update(bars[part], completed=done)

        yield move
