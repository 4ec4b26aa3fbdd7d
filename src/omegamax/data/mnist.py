"""Grey pictures of 28 x 28 pixels in ten classes, from idx files: MNIST, Fashion-MNIST and their kin."""

from __future__ import annotations

import copy
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from omegamax._arguments import check_choice
from omegamax.data.files import DataError, FilePath, check_folder, find
from omegamax.data.unpack import MIB, allowance, open_bounded, too_much

_PARTS = {"train": "train", "test": "t10k"}
_AGAIN = "get the file again"
MOST_IDX = 2048 * MIB  # bytes of an idx file


def read_idx(path: FilePath) -> Tensor:
    """Return the bytes of an idx file, plain or ``.gz``, as a uint8 tensor of the shape that its head tells.

    The head is the number 0x08nn for bytes in nn dimensions, and the nn sizes, big-endian.
    """
    path = Path(path)
    try:
        packed = path.stat().st_size
        limit = allowance(packed, MOST_IDX) if path.suffix == ".gz" else MOST_IDX
        with open_bounded(path, MOST_IDX) as file:
            start = file.read(4)
            if len(start) < 4 or start[:3] != b"\x00\x00\x08" or not start[3]:
                raise DataError(f"{path} is no idx file of bytes; {_AGAIN}")
            sizes = file.read(4 * start[3])
            shape = struct.unpack(f">{len(sizes) // 4}I", sizes[: len(sizes) // 4 * 4])
            wanted = math.prod(shape)
            if len(shape) == start[3] and wanted > limit:
                raise too_much(f"{path}: its shape {shape} promises {wanted:,} bytes: it", limit, packed)
            content = file.read(wanted + 1) if len(shape) == start[3] else b""
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; check the path") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}); {_AGAIN}") from error
    if len(shape) != start[3] or len(content) != wanted:
        raise DataError(f"{path} is cut off or too long for its shape {shape}; {_AGAIN}")
    return torch.from_numpy(np.frombuffer(content, np.uint8).reshape(shape).copy())


class MNIST(Dataset[tuple[Tensor, int]]):
    """Pictures with their classes; ``images [N, 28, 28]`` in bytes and ``labels [N]`` are all of them.

    ``folder`` holds the four files as distributed, ``train-images-idx3-ubyte`` and so on, plain or ``.gz``; those of
    Fashion-MNIST have the same names. An item is an image ``[1, 28, 28]`` in [0, 1] and its class.

    Args:
        folder: with these files.
        split: ``"train"`` or ``"test"``.

    References: LeCun et al. (1998), "Gradient-based learning applied to document recognition"; Xiao et al. (2017),
    "Fashion-MNIST".
    """

    def __init__(self, folder: FilePath, split: str = "train") -> None:
        check_choice("MNIST", "split", split, tuple(_PARTS))
        self.folder, self.split = check_folder("MNIST", folder), split
        names = [f"{_PARTS[split]}-{what}-ubyte" for what in ("images-idx3", "labels-idx1")]
        paths = [find("MNIST", self.folder, [name, f"{name}.gz"]) for name in names]
        self.images, self.labels = read_idx(paths[0]), read_idx(paths[1]).long()
        if self.images.dim() != 3 or self.labels.dim() != 1 or len(self.images) != len(self.labels):
            shapes = f"{tuple(self.images.shape)} and {tuple(self.labels.shape)}"
            raise DataError(f"{paths[0]} and {paths[1]} must hold [N, H, W] and [N], got {shapes}; get both again")

    def part(self, first: int, last: int) -> MNIST:
        """Return the pictures from number ``first`` to before ``last``, to hold some out."""
        if not 0 <= first < last <= len(self):
            given = f"{first} and {last}"
            raise ValueError(f"MNIST.part: first and last must be 0 <= first < last <= {len(self)}, got {given}")
        made = copy.copy(self)
        made.images, made.labels = self.images[first:last], self.labels[first:last]
        return made

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index][None].float() / 255, int(self.labels[index])
