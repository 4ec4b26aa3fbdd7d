"""Pictures from a folder or a zip archive, as tensors."""

from __future__ import annotations

import io
import lzma
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from omegamax.data.arrays import read_array
from omegamax.data.files import DataError, FilePath
from omegamax.data.paths import check_name, inside, leads_outside
from omegamax.data.unpack import MIB, open_bounded, open_member

Size = tuple[int, int]

# Pillow lets the errors of its decoders through: SyntaxError is a broken PNG.
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, struct.error, zlib.error)
MOST_PICTURE = 1024 * MIB  # bytes of the file of a picture
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def check_size(name: str, size: Size | None) -> Size | None:
    """Return ``(H, W)``, at least one pixel each, or None."""
    if size is None:
        return None
    sides = tuple(size)
    if len(sides) != 2 or any(type(side) is not int or side < 1 for side in sides):
        raise ValueError(f"{name}: size must be (height, width), at least 1 pixel each, or None; got {size!r}")
    return sides


def resize(image: Tensor, size: Size | None) -> Tensor:
    """Return a uint8 image ``[3, H, W]`` in another size, smoothed where it shrinks; as it is if ``size`` is None."""
    if size is None or tuple(image.shape[-2:]) == size:
        return image
    resized = interpolate(image[None].float(), size, mode="bilinear", antialias=True, align_corners=False)[0]
    return resized.round_().clamp_(0, 255).to(torch.uint8)


def shrink(image: Tensor, most: int) -> Tensor:
    """Return bytes ``[3, H, W]`` with at most so many pixels along the longer side, in the same proportions."""
    height, width = image.shape[1:]
    ratio = most / max(height, width)
    return image if ratio >= 1 else resize(image, (max(1, round(ratio * height)), max(1, round(ratio * width))))


def decode(data: bytes, place: str, mode: str = "RGB") -> Tensor:
    """Return the pixels of a picture file, uint8: ``[3, H, W]``, or ``[H, W]`` in the mode ``"L"``."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise ImportError(f"{place}: to read pictures, pip install pillow") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(io.BytesIO(data))  # reads the head alone
        with opened as file:
            if file.format == "EPS":
                raise DataError(f"{place} is a program that draws (EPS), which is not run; give a picture of pixels")
            picture = ImageOps.exif_transpose(file)  # a camera held upright says so beside the pixels
            if picture.mode == "P" and "transparency" in picture.info:
                picture = picture.convert("RGBA")  # pillow warns of the direct way
            if picture.mode.startswith("I"):  # 16 bits, which convert would cut off at 255
                pixels = _bytes(np.asarray(picture), mode)
            else:
                pixels = torch.from_numpy(np.array(picture.convert(mode)))
    except DataError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        wanted = f"at most {Image.MAX_IMAGE_PIXELS:,} pixels (PIL.Image.MAX_IMAGE_PIXELS)"
        raise DataError(f"{place} must have {wanted}, but has more ({error}); make it smaller") from error
    except _BROKEN as error:
        # Of a file that it does not know, pillow tells the address in memory.
        why = "its format is not known" if isinstance(error, UnidentifiedImageError) else error
        raise DataError(f"{place} is damaged or not a picture ({why}); get the file again") from error
    return pixels if pixels.dim() == 2 else pixels.permute(2, 0, 1).contiguous()


def _bytes(grey: np.ndarray, mode: str) -> Tensor:
    """Return a grey picture of 16 bits in 8."""
    pixels = torch.from_numpy((np.clip(grey.astype(np.int64), 0, 65535) + 128) // 257).to(torch.uint8)
    return pixels if mode == "L" else pixels.unsqueeze(-1).expand(-1, -1, 3)


def read_picture(path: FilePath, mode: str = "RGB") -> Tensor:
    """Return the pixels of one picture file, see :func:`decode`."""
    path = Path(path)
    try:
        with open_bounded(path, MOST_PICTURE) as file:
            data = file.read()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; check the path") from None
    except DataError:
        raise
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}); give a picture file") from error
    return decode(data, str(path), mode)


def read_pictures(path: Path, key: str) -> Tensor:
    """Return the pictures of an array ``[N, H, W, 3]`` in a file, uint8 ``[N, 3, H, W]``."""
    array = read_array(path, key)
    if array.ndim != 4 or array.shape[-1] != 3 or array.dtype != np.uint8:
        given = f"{array.dtype} {array.shape}"
        raise DataError(f"{path}: {key!r} must be uint8 (N, H, W, 3), got {given}; get the file again")
    return torch.from_numpy(array).permute(0, 3, 1, 2)


class Pictures:
    """The pictures of a folder or of a zip archive, by name; read when asked for."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self._archive: tuple[int, zipfile.ZipFile] | None = None

    def __getitem__(self, name: str) -> Tensor:
        """Read the picture of a name, which may come from a file: it stays inside the folder or archive."""
        if self.source.is_dir():
            path = inside(self.source, name)
            if path.exists() and not path.is_file():
                raise DataError(f"{path} is no file; give the folder that holds the pictures")
            return read_picture(path)
        place = f"{self.source}: {check_name(self.source, name)}"
        try:
            archive = self._open()
            with open_member(archive, archive.getinfo(name), place, MOST_PICTURE) as member:
                data = member.read()
        except KeyError:
            raise FileNotFoundError(f"{self.source} has no picture {name}; get the archive again") from None
        except DataError:
            raise
        except (*_BROKEN, zipfile.BadZipFile, lzma.LZMAError, RuntimeError, NotImplementedError) as error:
            raise DataError(f"{place} is damaged ({error}); get the archive again") from error
        return decode(data, place)

    def find(self, stems: Iterable[str]) -> str | None:
        """Return the name of the first picture that there is, of these with or without ending; None if there is none.

        It may lie in a subfolder of the folder, or anywhere in the archive; its ending may be in capitals.
        """
        for stem in stems:
            path = PurePosixPath(check_name(self.source, stem))
            whole = ("",) if path.suffix.lower() in ENDINGS else ()
            for name in (f"{path}{ending}" for ending in (*whole, *ENDINGS, *map(str.upper, ENDINGS))):
                if not self.source.is_dir():
                    if name in self._members:
                        return self._members[name]
                    continue
                for folder in ("", *self._folders):
                    if inside(self.source, f"{folder}{name}").is_file():
                        return f"{folder}{name}"
        return None

    @cached_property
    def _folders(self) -> list[str]:
        return sorted(f"{path.name}/" for path in self.source.iterdir() if path.is_dir())

    @cached_property
    def _members(self) -> dict[str, str]:
        """Return the members of the archive by their names, and by those without folders."""
        names = [name for name in self._open().namelist() if not leads_outside(name)]
        return {PurePosixPath(name).name: name for name in reversed(names)} | {name: name for name in names}

    def _open(self) -> zipfile.ZipFile:
        # A worker process that is a copy of this one shares the place in the file: it opens its own.
        if self._archive is None or self._archive[0] != os.getpid():
            try:
                self._archive = (os.getpid(), zipfile.ZipFile(self.source))
            except zipfile.BadZipFile as error:
                raise DataError(f"{self.source} is damaged or no zip archive ({error}); get it again") from error
        return self._archive[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_archive": None}  # an open file cannot be sent to another process
