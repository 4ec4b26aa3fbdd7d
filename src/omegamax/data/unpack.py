"""Compressed files and archives, unpacked piece by piece and never beyond a limit."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from omegamax.data.errors import DataError

MIB = 1 << 20
FREE = 32 * MIB  # what any compressed file may hold
RATIO = 200  # bytes that one compressed byte may stand for beyond that; text and pictures stay well below
MOST_BYTES = 16384 * MIB  # what any file may hold
_LOCAL = struct.Struct("<26x2H")  # the header before a member of a zip archive: lengths of its name and extra field


def allowance(packed: int, most: int = MOST_BYTES) -> int:
    """Tell how many bytes a compressed file of ``packed`` bytes may hold.

    >>> allowance(1000) == FREE, allowance(10**6) == 200 * 10**6
    (True, True)
    """
    return min(max(FREE, RATIO * packed), most)


def too_much(place: object, limit: int, packed: int | None = None) -> DataError:
    """Return the error about a file that holds more than ``limit`` bytes."""
    why = "" if packed is None else f" (what {packed:,} compressed bytes may stand for)"
    return DataError(f"{place} must hold at most {limit:,} bytes{why}, but holds more; unpack it, or get it again")


class BoundedReader(io.RawIOBase):
    """The bytes of a stream; more than ``limit`` of them are an error."""

    def __init__(self, stream: Any, place: object, limit: int, packed: int | None = None) -> None:
        self._stream, self._place, self._limit, self._packed, self._count = stream, place, limit, packed, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(min(len(buffer), self._limit - self._count + 1))
        self._count += len(piece)
        if self._count > self._limit:
            raise too_much(self._place, self._limit, self._packed)
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._stream.close()
        super().close()


def open_bounded(path: Path, most: int = MOST_BYTES) -> BinaryIO:
    """Open the bytes of a file, plain or compressed by xz or gzip as its suffix says; too many are an error."""
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    if path.suffix in openers:
        packed = path.stat().st_size
        raw = BoundedReader(openers[path.suffix](path, "rb"), path, allowance(packed, most), packed)
    else:
        raw = BoundedReader(path.open("rb"), path, most)
    return cast(BinaryIO, io.BufferedReader(raw, MIB))


def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, place: object, most: int = MOST_BYTES) -> BinaryIO:
    """Return the bytes of a member of a zip archive; too many of them, promised or there, are an error."""
    stored = info.compress_type == zipfile.ZIP_STORED
    limit = most if stored else allowance(info.compress_size, most)
    packed = None if stored else info.compress_size
    if info.file_size > limit:
        raise too_much(place, limit, packed)
    there = os.fstat(cast(IO[bytes], archive.fp).fileno()).st_size
    if info.compress_size > there or (stored and info.file_size > info.compress_size):
        raise DataError(f"{place} promises {info.file_size:,} bytes, more than are in the archive; get it again")
    if info.compress_type in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA) and not info.flag_bits & 1:
        # zipfile unpacks these 4 kB at a time, which can stand for gigabytes.
        return io.BytesIO(_unpack(archive, info, place))
    return cast(BinaryIO, io.BufferedReader(BoundedReader(archive.open(info), place, limit, packed), MIB))


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, place: object) -> bytes:
    """Return a member compressed by bzip2 or LZMA, of the size that the archive promises."""
    file = cast(IO[bytes], archive.fp)
    file.seek(info.header_offset)
    name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
    file.seek(name + extra, io.SEEK_CUR)
    data = file.read(info.compress_size)
    if info.compress_type == zipfile.ZIP_BZIP2:
        content = bz2.BZ2Decompressor().decompress(data, info.file_size + 1)
    else:
        # Version, length of the properties and these, then the stream: as in a .lzma file, but for the size.
        size = struct.unpack_from("<H", data, 2)[0] if len(data) > 4 else 0
        head = data[4 : 4 + size] + struct.pack("<Q", info.file_size)
        content = lzma.LZMADecompressor(lzma.FORMAT_ALONE).decompress(head + data[4 + size :], info.file_size + 1)
    if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
        raise DataError(f"{place} is damaged: its size or checksum is not what the archive says; get it again")
    return content
