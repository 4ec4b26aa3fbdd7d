"""Files by names that come from data: they stay inside the folder that they are looked for in."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath

from omegamax.data._errors import DataError


def check_name(source: object, name: str) -> str:
    """``name`` if it leads nowhere outside a folder or archive: relative, without ``..``, of printable characters.

    >>> check_name("images", "a/b.png")
    'a/b.png'
    """
    parts = PurePosixPath(name).parts + PureWindowsPath(name).parts
    absolute = PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor
    if not name or "\0" in name or ".." in parts or absolute:
        raise DataError(f"{source}: a name must be that of a file inside, got {name!r}; mend or remove the entry")
    return name


def inside(folder: Path, name: str) -> Path:
    """The path of ``name`` in ``folder``; one that leaves it, also by a symbolic link, is refused.

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
