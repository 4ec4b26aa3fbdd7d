"""Arrays from .npy and .npz files, read without running code and only as large as the file can hold."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from omegamax.data.errors import DataError
from omegamax.data.files import BROKEN, reason
from omegamax.data.unpack import MOST_BYTES, open_member, too_much

MOST_HEADER = 10_000  # bytes that tell the shape; numpy reads no longer ones either
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_array(path: Path, key: str | None = None) -> np.ndarray:
    """Return an array of an ``.npz`` file (``key``, or the only one) or an ``.npy`` file, without running code."""
    with _open(path) as file:
        if not zipfile.is_zipfile(file):
            file.seek(0)
            return _read(file, path.stat().st_size, path)
        with zipfile.ZipFile(file) as archive:
            members = _members(archive)
            name = key if key in members else next(iter(members)) if len(members) == 1 else None
            if name is None:
                given = ", ".join(members) or "of none"
                raise DataError(f"{path} has the arrays {given}; wanted {key!r}, or a single one")
            place = f"{path}: {name}"
            with open_member(archive, members[name], place) as member:
                return _read(member, members[name].file_size, place)


def list_arrays(path: Path) -> list[str]:
    """Return the names of the arrays of an ``.npz`` file; an ``.npy`` file has none."""
    with _open(path) as file:
        if not zipfile.is_zipfile(file):
            return []
        with zipfile.ZipFile(file) as archive:
            return list(_members(archive))


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a file, and name it in what goes wrong."""
    try:
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; check the path") from None
    except DataError:
        raise
    except (*BROKEN, RuntimeError, MemoryError) as error:
        raise DataError(f"{path} is damaged or no file of numbers ({reason(error)}); get it again") from error


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {info.filename.removesuffix(".npy"): info for info in archive.infolist()}


def _read(file: BinaryIO, size: int, place: object) -> np.ndarray:
    """Return the array of an ``.npy`` file of ``size`` bytes, once its header promises no more than that."""
    version = npy.read_magic(file)
    if version not in _HEADERS:  # the third version, for names of fields that are not Latin
        raise ValueError(f"version {version[0]} of the format is for records")
    count = file.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(count, "little")
    if length > MOST_HEADER:  # numpy reads it all before it looks
        raise ValueError(f"a header must have at most {MOST_HEADER:,} bytes, got {length:,}")
    shape, fortran, dtype = _HEADERS[version](io.BytesIO(count + file.read(length)))
    if dtype.hasobject or dtype.names is not None:
        raise ValueError(f"it holds {dtype}, and objects could run code")
    if any(side < 0 for side in shape):
        raise DataError(f"{place} promises the shape {shape}, which no array has; get it again")
    promised = math.prod(shape) * dtype.itemsize
    if promised > size:
        raise DataError(f"{place} promises {promised:,} bytes of {dtype} {shape}, but has {size:,}; get it again")
    if promised > MOST_BYTES:
        raise too_much(place, MOST_BYTES)
    array = np.empty(promised, np.uint8)
    view, done = array.data, 0
    while done < promised:
        count = file.readinto(view[done : done + (1 << 24)])  # type: ignore[attr-defined]
        if not count:
            raise DataError(f"{place} promises {promised:,} bytes of {dtype} {shape}, but has {done:,}; get it again")
        done += count
    flat = array.view(dtype) if promised else np.empty(0, dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
