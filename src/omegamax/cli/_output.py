"""Whether results can be written, asked before they are computed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from omegamax.cli._errors import CommandError, os_reason

_BLOCK = 4096  # bytes: a full disk still takes an empty file


def check_folder(path: Path, option: str = "--out") -> None:
    """Refuse a folder that files cannot be written into, or, where it is not there yet, that cannot be made."""
    there = path
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if there == path and not path.is_dir():
        raise CommandError(f"{option} must be a folder, and {path} is a file; give another")
    try:
        with tempfile.TemporaryFile(dir=there) as probe:
            probe.write(bytes(_BLOCK))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        reason = error.strerror or str(error)
        raise CommandError(f"{option} {path} cannot be written to ({reason}: {there}); give another folder") from None


def check_picture(path: Path, option: str = "--out") -> None:
    """Refuse a picture that cannot be written, or whose format the ending of its name does not tell."""
    from matplotlib.figure import Figure

    known = sorted(Figure().canvas.get_supported_filetypes())
    if path.suffix.lower().lstrip(".") not in known:
        raise CommandError(f"{option} must end in the name of a format, .{', .'.join(known)}, got {path}")
    check_file(path, option)


def check_file(path: Path, option: str = "--out") -> None:
    """Refuse a file that cannot be written."""
    if path.is_dir():
        raise CommandError(f"{option} must be a file, and {path} is a folder; give a file in it")
    check_folder(path.parent, option)
    if path.exists():
        try:
            path.open("ab").close()
        except OSError as error:
            reason = os_reason(error)
            raise CommandError(f"{option} {path} cannot be written to ({reason}); give another file") from None
