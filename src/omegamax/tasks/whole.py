"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, whose file takes the name ``path`` once all is written.

    What is stopped in between, even by a kill, leaves the file that was there before.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole_file(f"{folder}/a/b.txt") as place:
        ...         _ = place.write_text("all")
        ...     Path(f"{folder}/a/b.txt").read_text(), len(list(Path(folder, "a").iterdir()))
        ('all', 1)
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, since only within a file system is renaming one step.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
