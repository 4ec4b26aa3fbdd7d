"""Files by names that come from data: they stay inside the folder that they are looked for in."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath

from omegamax.data.errors import DataError


def check_name(source: object, name: str) -> str:
    """Return ``name`` if it leads nowhere outside a folder or archive: relative, and without ``..``.

    >>> check_name("images", "a/b.png")
    'a/b.png'
    """
    if leads_outside(name):
        raise DataError(f"{source}: a name must be that of a file inside, got {name!r}; mend or remove the entry")
    return name


def leads_outside(name: str) -> bool:
    """Tell whether a name, as POSIX or Windows reads it, is that of no file inside a folder.

    >>> [leads_outside(name) for name in ("a/b.png", "../b.png", "/b.png", "c:/b.png", "a/..", "")]
    [False, True, True, True, True, True]
    """
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    anchored = posix.is_absolute() or bool(windows.root) or (os.name == "nt" and bool(windows.drive))
    return not name or "\0" in name or ".." in posix.parts + windows.parts or anchored


def inside(folder: Path, name: str) -> Path:
    """Return the path of ``name`` in ``folder``; one that leaves it, also by a symbolic link, is refused.

    The folder itself may be a link.
    """
    path = folder / check_name(folder, name)
    try:
        real, root = os.path.realpath(path), os.path.realpath(folder)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: {name!r} cannot be looked up ({error}); mend or remove the entry") from error
    if not Path(real).is_relative_to(root):
        raise DataError(f"{path} is a link to {real}, outside the folder {folder}; copy the file there")
    return path
