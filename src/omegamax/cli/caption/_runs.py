"""What ``rate`` and ``compare`` share: names of runs, and where their photographs are."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where the photographs are."""
    add = parser.add_argument
    add("--split", choices=["val", "test"], default="test", help="part of the data that the captions are of (test)")
    add("--folder", metavar="FOLDER", help="of the data, if it is not where it was in training")
    help = "folders or archives of the photographs (those of the data)"
    add("--pictures", nargs="+", default=[], metavar="FOLDER|ZIP", help=help)


def name_runs(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the runs by the names of their folders, or, where two have the same, by their paths.

    >>> name_runs([Path("runs/softmax"), Path("runs/tvmax/captions.jsonl")])
    {'softmax': PosixPath('runs/softmax'), 'tvmax': PosixPath('runs/tvmax/captions.jsonl')}
    """
    from omegamax.data import DataError

    if len(set(paths)) < len(paths):
        raise DataError(f"the same run is named twice: {', '.join(map(str, paths))}; name each once")
    names = [(path.parent if path.suffix else path).resolve().name for path in paths]
    return dict(zip(names if len(set(names)) == len(names) else map(str, paths), paths, strict=True))


def find_settings(tasks: Iterable[Any]) -> Mapping[str, Any]:
    """Return the settings of the data that the first network that knows them was trained on; empty if none does."""
    return next((task.data_settings for task in tasks if task is not None and task.data_settings), {})
