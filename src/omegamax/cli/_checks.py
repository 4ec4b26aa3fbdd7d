"""Checks of a command before it begins: its arguments, the packages it needs, where it is to write."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

VIZ = ("matplotlib",)
TRAIN = (
    *VIZ,
    "lightning",
    "jsonargparse",
    "docstring_parser",
    "typeshed_client",
    "PIL",
    "rich",
    "safetensors",
    "torchmetrics",
)
_BLOCK = 4096  # bytes: a full disk still takes an empty file


class CommandError(Exception):
    """A request that cannot be met; the user sees its message and no traceback.

    Args:
        message: what is wrong, and what to do about it.
        status: exit status of the command, 2 where the request itself makes no sense.
    """

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


def os_reason(error: OSError) -> str:
    """Put an error of the operating system into words: what is wrong, and with which file.

    >>> os_reason(OSError(28, "No space left on device", "demo/report.html"))
    'No space left on device: demo/report.html'
    """
    if error.strerror is None:
        return str(error)
    return f"{error.strerror}: {error.filename}" if error.filename is not None else error.strerror


def at_least(least: int) -> Callable[[str], int]:
    """Return a type of argument: integers from ``least`` on.

    >>> at_least(1)("3")
    3
    """

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"must be an integer, at least {least}, got {text}")
        return value

    return parse


def require(packages: tuple[str, ...]) -> None:
    """Refuse to begin where one of ``packages`` is missing, and say which extra brings it."""
    for package in packages:
        try:
            there = find_spec(package) is not None
        except ModuleNotFoundError:
            there = False
        if not there:
            extra = "omegamax[viz]" if packages == VIZ else "omegamax[train]"
            raise ImportError(f"{package} is not installed: pip install '{extra}'", name="omegamax")


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
