"""Tensors from files that torch wrote, read without running code and only as large as the file can hold."""

from __future__ import annotations

import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from omegamax.data.errors import DataError
from omegamax.data.unpack import allowance, too_much

MOST_ITEMS = 10_000_000  # things in the lists and mappings of a file, those that are named twice counted twice


def load_tensors(path: str | PathLike[str], what: str, remedy: str, map_location: Any = "cpu") -> Any:
    """Return all that is in a file of ``torch.save``: tensors, numbers, words, and lists and mappings of them.

    Args:
        path: of the file.
        what: it is if it cannot be read, for the message.
        remedy: what to do then.
        map_location: as for :func:`torch.load`.
    """
    path = Path(path)
    try:
        check_archive(path)
        content = torch.load(path, map_location=map_location, weights_only=True)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; {remedy}") from None
    except DataError:
        raise
    except Exception as error:  # what a damaged file makes the reader stumble over cannot be listed
        # Not the rest of torch's message, which goes on to say how the file's code could be run.
        reason = str(error).splitlines()[0].split(". ")[0] if str(error) else type(error).__name__
        raise DataError(f"{path} is {what} ({reason}); {remedy}") from error
    check_tensors(path, content, remedy)
    return content


def check_tensors(path: object, content: Any, remedy: str) -> None:
    """Refuse what would take more memory, or time to walk through, than the file it came from."""
    left, count = [content], 0
    while left:
        thing = left.pop()
        count += 1
        if count + len(left) > MOST_ITEMS:
            raise DataError(f"{path} must hold at most {MOST_ITEMS:,} things, but holds more; {remedy}")
        if isinstance(thing, dict):
            left += [*thing.keys(), *thing.values()]
        elif isinstance(thing, (list, tuple, set, frozenset)):
            left += thing
        elif isinstance(thing, Tensor) and thing.layout == torch.strided and not thing.is_quantized:
            # An expanded tensor repeats a few numbers over any shape.
            there, wanted = thing.untyped_storage().nbytes(), thing.numel() * thing.element_size()
            if wanted > there:
                given = f"{thing.dtype} {tuple(thing.shape)} out of {there:,} bytes"
                raise DataError(f"{path} has a tensor whose numbers are not all in the file, {given}; {remedy}")


def check_archive(path: Path) -> None:
    """Refuse an archive whose members would unpack to far more than it holds; torch leaves them uncompressed."""
    if not zipfile.is_zipfile(path):
        return
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        total = sum(info.file_size for info in archive.infolist())
    if total > allowance(size):
        raise too_much(path, allowance(size), size)
