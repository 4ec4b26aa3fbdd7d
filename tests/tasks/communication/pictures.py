"""Small sets of pictures that can be told apart, as idx files."""

from __future__ import annotations

import struct
from pathlib import Path

import torch
from torch import Tensor


def write_idx(path: Path, values: Tensor) -> None:
    """Bytes, in the format of the files of MNIST."""
    head = bytes([0, 0, 8, values.dim()]) + struct.pack(f">{values.dim()}I", *values.shape)
    path.write_bytes(head + values.to(torch.uint8).contiguous().numpy().tobytes())


def bright_spots(folder: Path, train: int = 400, test: int = 100) -> Path:
    """Pictures of 4 x 4 pixels with a bright one, which is what to talk about, and dim noise."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(7)
    for part, count in (("train", train), ("t10k", test)):
        labels = torch.randint(16, (count,), generator=generator)
        images = torch.randint(40, (count, 16), generator=generator).scatter(1, labels[:, None], 255)
        write_idx(folder / f"{part}-images-idx3-ubyte", images.reshape(count, 4, 4))
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels)
    return folder
