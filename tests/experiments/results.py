"""What scripts of experiments leave behind."""

import csv
from pathlib import Path


def rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, by the names of its columns."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
