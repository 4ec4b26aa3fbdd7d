"""Files that were made to do harm: small on the disk, endless in memory, or with names that lead elsewhere."""

import functools
import gzip
import io
import json
import lzma
import struct
import zipfile
import zlib

import numpy as np
import torch
from PIL import Image

MIB = 1 << 20
EVEN = b"\0" * 16 * MIB


@functools.cache  # packing takes seconds
def gzip_bomb(head=b"", mib=512):
    """Zeros, a thousand times as many as bytes: members of an archive one after the other are one content."""
    return gzip.compress(head, 1) + gzip.compress(EVEN, 9) * (mib // 16)


@functools.cache
def xz_bomb(head=b"", mib=512):
    return lzma.compress(head) + lzma.compress(EVEN) * (mib // 16)


@functools.cache
def zip_bomb(name, method=zipfile.ZIP_DEFLATED, mib=64):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive, archive.open(name, "w") as member:
        for _ in range(mib // 16):
            member.write(EVEN)
    return file.getvalue()


def npy(shape, dtype="<f4", content=b""):
    """An array that promises a shape and has the content given."""
    head = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + content


def npz(shape, method=zipfile.ZIP_DEFLATED, content=b"", name="x.npy"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive, archive.open(name, "w") as member:
        member.write(npy(shape))
        for piece in content if isinstance(content, list) else [content]:
            member.write(piece)
    return file.getvalue()


def pickled():
    file = io.BytesIO()
    np.savez(file, x=np.array([{"a": 1}], dtype=object))
    return file.getvalue()


def png_bomb(side):
    """The head of a picture of ``side`` squared pixels, and zeros."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(EVEN)) + chunk(b"IEND", b"")


def expanded():
    """A tensor of four bytes that has a shape of terabytes."""
    file = io.BytesIO()
    torch.save(torch.zeros(1).expand(1, 10**4, 10**4, 10**4), file)
    return file.getvalue()


@functools.cache
def deflated():
    """A file of torch whose numbers are compressed, which torch unpacks without a look at their size."""
    plain, file = io.BytesIO(), io.BytesIO()
    torch.save(torch.zeros(1, 64, 1000, 1000), plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name))
    return file.getvalue()


def picture():
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG")
    return file.getvalue()


DEEP = b"[" * 200_000 + b"]" * 200_000
LINE = b'{"question": "' + b"a" * (17 * MIB) + b'"}'
TWICE = b'{"question_id": 1, "question_id": 2}'
ENTRY = json.dumps({"image": "a.png", "question": "what is it", "answers": ["lamp"]})
