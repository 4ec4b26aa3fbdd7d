"""Scripts of an experiment as modules."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import torch


@contextmanager
def import_scripts(folder: Path, names: tuple[str, ...]) -> Iterator[dict[str, ModuleType]]:
    """Import the scripts of a folder, by name; those of other experiments have the same names."""
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    threads = torch.get_num_threads()
    sys.path.insert(0, str(folder))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)
        torch.set_num_threads(threads)  # a job takes one
