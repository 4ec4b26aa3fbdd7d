"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PART = ".part"  # in the name of a file that is being written
_LITTLE = 1 << 16  # bytes that a full disk may still have, in blocks too few for what was to be written


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to, whose file takes the name ``path`` once all is written.

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
    # It ends as the file does, for those who tell the format by it.
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{_PART}{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    except OSError:
        raise
    except Exception as error:
        # Writers in other languages have their own errors for a full disk.
        if shutil.disk_usage(path.parent).free < _LITTLE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def remove_parts(folder: str | os.PathLike[str]) -> None:
    """Remove what :func:`whole_file` had begun in a folder when its process was killed; nobody else may be writing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, ".last.12.part.ckpt").write_text("half"), Path(folder, "last.ckpt").write_text("whole")
    ...     remove_parts(folder)
    ...     [path.name for path in Path(folder).iterdir()]
    ['last.ckpt']
    """
    for path in Path(folder).glob(f".*{_PART}*"):
        if re.fullmatch(rf"\..+\.\d+{re.escape(_PART)}(\.[^.]*)?", path.name):
            path.unlink(missing_ok=True)
