"""Features of pictures, on a grid or of regions, from the file formats in which they are handed on."""

from __future__ import annotations

from math import isqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax._checks import check_shape
from omegamax.data.arrays import read_array
from omegamax.data.files import DataError, FilePath, check_folder
from omegamax.data.paths import inside
from omegamax.data.tensors import load_tensors
from omegamax.data.vqa2.regions import has_regions, read_regions

GridSize = tuple[int, int]
SUFFIXES = (".npz", ".pth")
_AGAIN = "get or extract the file again"


class Features(NamedTuple):
    """What a file says of a picture: ``features [h, w, D]``, and their ``boxes``.

    Cells of a grid have no boxes, None. L regions are a row, ``[1, L, D]``, with boxes ``[L, 4]``.
    """

    features: Tensor
    boxes: Tensor | None = None


def read_features(path: FilePath, *, channels: int | None = None, grid: GridSize | None = None) -> Features:
    """Return the features of one picture, of a grid as :func:`read_grid` or of regions as :func:`read_regions` has it.

    An ``.npz`` file with an array ``bbox`` of more than one axis is one of regions.
    """
    if not has_regions(path):
        return Features(read_grid(path, channels=channels, grid=grid))
    regions = read_regions(path, channels=channels)
    return Features(regions.features.unsqueeze(0), regions.boxes)


def read_grid(path: FilePath, *, channels: int | None = None, grid: GridSize | None = None) -> Tensor:
    """Return the features of one picture, float32 ``[h, w, D]``, read without running code.

    Args:
        path: ``.npz`` with an array ``x``, or a single one, of shape (L, D), cells row by row: (196, 2048) for a grid
            of 14 x 14. Or ``.pth`` with a tensor (1, D, H, W), where each picture may have its own H and W.
        channels: D, if it is known; another one is then an error.
        grid: ``(h, w)`` of the cells of an ``.npz`` file; None if it is square.
    """
    path = Path(path)
    if path.suffix == ".npz":
        cells = _from_npz(path, channels, grid)
    elif path.suffix == ".pth":
        cells = _from_pth(path)
    else:
        raise DataError(f"{path}: features are read from {' and '.join(SUFFIXES)} files; convert it")
    if 0 in cells.shape:
        raise DataError(f"{path} has no features: shape {tuple(cells.shape)}; {_AGAIN}")
    if channels is not None and cells.shape[-1] != channels:
        raise DataError(f"{path} has {cells.shape[-1]} channels, wanted {channels}; {_AGAIN}, or change channels")
    if not bool(cells.isfinite().all()):
        raise DataError(f"{path} has features that are infinite or not numbers; {_AGAIN}")
    return cells


def write_grid(path: FilePath, features: Tensor) -> None:
    """Write features ``[h, w, D]`` in one of the formats of :func:`read_grid`: ``.npz`` (square grids) or ``.pth``."""
    path = Path(path)
    check_shape("write_grid", "features", features, "h", "w", "D")
    cells = features.detach().cpu().float().contiguous()
    if path.suffix == ".pth":
        torch.save(cells.permute(2, 0, 1)[None].contiguous(), path)
    elif path.suffix == ".npz":
        if cells.shape[0] != cells.shape[1]:
            raise ValueError(f"write_grid: a grid of {cells.shape[0]} x {cells.shape[1]} needs a .pth file, got {path}")
        np.savez(path, x=cells.flatten(0, 1).numpy())
    else:
        raise ValueError(f"write_grid: the name must end in .npz or .pth, got {path}")


class GridFeatures:
    """The feature files of a folder, by picture number.

    For the picture 9 of ``train2014``, and with the ending ``.npz`` or ``.pth``, the names that are tried are
    ``COCO_train2014_000000000009``, the same with ``.jpg``, ``000000000009`` and ``9``, in the folder and in its
    subfolder ``train2014``.

    Args:
        folder: holds the files.
        channels, grid: as for :func:`read_features`.
    """

    def __init__(self, folder: FilePath, *, channels: int | None = None, grid: GridSize | None = None) -> None:
        self.folder = check_folder("GridFeatures", folder)
        self.channels, self.grid = channels, grid
        self._last = 0  # the form of the name that was right the last time is tried first

    def path(self, image_id: int, subset: str | None = None) -> Path:
        """Return the file of a picture."""
        paths = [self.folder / name for name in _names(image_id, subset)]
        if self._last < len(paths) and paths[self._last].is_file():
            return paths[self._last]
        for self._last, path in enumerate(paths):
            if path.is_file():
                return path
        raise FileNotFoundError(
            f"{self.folder} has no features of picture {image_id}: no {paths[0].name}, ..., {paths[-1].name}; "
            "extract them, or give another folder"
        )

    def read(self, image_id: int, subset: str | None = None) -> Tensor:
        """Return the features of a picture on a grid, ``[h, w, D]``."""
        return read_grid(self._inside(image_id, subset), channels=self.channels, grid=self.grid)

    def read_features(self, image_id: int, subset: str | None = None) -> Features:
        """Return the features of a picture, of a grid or of regions, with the boxes of these."""
        return read_features(self._inside(image_id, subset), channels=self.channels, grid=self.grid)

    def _inside(self, image_id: int, subset: str | None) -> Path:
        path = self.path(image_id, subset)
        return inside(path.parent, path.name)


def picture_names(image_id: int, subset: str | None) -> list[str]:
    """List the names, without suffix, of the files that belong to a picture of MS-COCO, with their subfolders."""
    plain = [f"{image_id:012d}", f"{image_id}"]
    if subset is None:
        return plain
    names = [f"COCO_{subset}_{image_id:012d}", *plain]
    return [*names, *(f"{subset}/{name}" for name in names)]


def _names(image_id: int, subset: str | None) -> list[str]:
    stems = picture_names(image_id, subset)
    return [f"{stem}{middle}{end}" for end in SUFFIXES for middle in ("", ".jpg") for stem in stems]


def _from_npz(path: Path, channels: int | None, grid: GridSize | None) -> Tensor:
    if has_regions(path):
        raise DataError(
            f"{path} has regions with boxes (bbox), and no grid; read it with read_features or read_regions"
        )
    array = read_array(path, "x")
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.floating):
        raise DataError(f"{path} must hold numbers of shape (L, D), got {array.dtype} {array.shape}; {_AGAIN}")
    count = array.shape[0]
    if channels is not None and array.shape[1] != channels and count == channels:
        raise DataError(f"{path} holds (D, L) = {array.shape}, wanted (L, D); write the transposed array")
    h, w = grid or (isqrt(count), isqrt(count))
    if h * w != count or h < 0:
        wanted = "is no square number" if grid is None else f"does not fill the grid {grid}"
        raise DataError(f"{path} has {count} cells, which {wanted}; give the right grid=(h, w)")
    # Half precision in the file saves space; the model computes in single.
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is then refused
        return torch.from_numpy(array.astype(np.float32)).unflatten(0, (h, w))


def _from_pth(path: Path) -> Tensor:
    content = load_tensors(path, "damaged, or holds more than a tensor", _AGAIN)
    if not isinstance(content, Tensor):
        raise DataError(f"{path} must hold a tensor (1, D, H, W), got {type(content).__name__}; {_AGAIN}")
    dense = content.layout == torch.strided and content.is_floating_point()
    if not dense or content.dim() != 4 or content.shape[0] != 1:
        given = f"{content.dtype} {tuple(content.shape)}" + ("" if content.layout == torch.strided else ", not dense")
        raise DataError(f"{path} must hold numbers of shape (1, D, H, W), got {given}; {_AGAIN}")
    return content.detach()[0].permute(1, 2, 0).float().contiguous()
