"""One sheet for everything: a row for each promise and each reading, written as soon as it is known."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COLUMNS = (
    "section",  # as on the command line; machine for where the numbers come from
    "work",  # what is computed: the map, or the setting of attention; of a machine the sections measured on it
    "shape",
    "dtype",
    "way",  # forward, backward, forward+backward; for a contract the input and what is compared
    "name",  # who computes it: omegamax, torch, entmax, adasplash
    "ms",  # of the GPU: median, by CUDA events, the L2 cache flushed
    "over",  # median of the time over the baseline's in the same round
    "call_ms",  # the same two of the processor, until the call is issued
    "call_over",
    "bar",  # the most that ``over`` (or what ``note`` says) should be
    "peak_mib",  # GPU memory at its peak over what was held before
    "error",  # largest, against float64
    "limit",  # the most the error may be
    "ok",  # yes or no, for rows with a limit or a bar
    "note",
)
Row = dict[str, object]


class Sheet:
    """A CSV file that grows by a row at a time, so that what was found outlives a crash."""

    def __init__(self, path: Path, **fixed: object):
        self.path, self.fixed = path, fixed
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write(dict(zip(COLUMNS, COLUMNS, strict=True)))

    def add(self, **row: object) -> None:
        row = {**self.fixed, **row}
        unknown = set(row) - set(COLUMNS)
        if unknown:
            raise ValueError(f"Sheet.add: no column {', '.join(sorted(unknown))}")
        self._write({column: _text(row.get(column, "")) for column in COLUMNS})

    def contract(self, error: float, limit: float, **row: object) -> None:
        """A promise: kept if the error is at most the limit. NaN is never kept."""
        self.add(error=error, limit=limit, ok="yes" if error <= limit else "no", **row)

    @contextmanager
    def kept(self, **row: object) -> Iterator[None]:
        """A contract that an exception inside breaks, by its message."""
        try:
            yield
        except Exception as problem:
            self.add(ok="no", note=said(problem), **row)

    def _write(self, row: dict[str, str]) -> None:
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, fieldnames=COLUMNS).writerow(row)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def said(problem: BaseException) -> str:
    """An exception in one line of a table."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[0] if lines else ''}"[:160]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return str(value)
