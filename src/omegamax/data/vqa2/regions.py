"""Features of regions with their boxes, as detectors of objects write them (bottom-up attention)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from omegamax.data.arrays import list_arrays, read_array
from omegamax.data.files import DataError, FilePath

_SLACK = 0.5  # pixels that rounding may put a corner outside the picture; they are cut off
_AGAIN = "get or extract the file again"


class Regions(NamedTuple):
    """What was found in a picture: ``features [L, D]`` and ``boxes [L, 4]``, x1, y1, x2, y2 in [0, 1]."""

    features: Tensor
    boxes: Tensor


def has_regions(path: FilePath) -> bool:
    """Tell whether a feature file holds regions with boxes, and not a grid.

    Files of grids may have a ``bbox`` too, which fills in a list of four numbers where there are no boxes.
    """
    path = Path(path)
    return path.suffix == ".npz" and "bbox" in list_arrays(path) and read_array(path, "bbox").ndim != 1


def read_regions(path: FilePath, *, channels: int | None = None) -> Regions:
    """Return the regions of one picture, float32, read without running code.

    Args:
        path: ``.npz`` with ``x``, features (L, D) or (D, L); ``bbox``, corners x1, y1, x2, y2 in pixels, (L, 4);
            ``image_w`` and ``image_h``, width and height of the picture; and perhaps ``num_bbox``, L. Each picture may
            have its own L. Which axis of ``x`` is L is known from ``bbox``.
        channels: D, if it is known; another one is then an error.

    Reference: Anderson et al. (CVPR 2018), "Bottom-up and top-down attention for image captioning and visual question
    answering".
    """
    path = Path(path)
    names = list_arrays(path)
    missing = [name for name in ("x", "bbox", "image_w", "image_h") if name not in names]
    if missing:
        given = ", ".join(names) or "none"
        raise DataError(
            f"{path} must have x, bbox, image_w and image_h; no {', '.join(missing)} among {given}; {_AGAIN}"
        )
    corners = read_array(path, "bbox")
    if corners.ndim != 2 or corners.shape[1] != 4 or corners.dtype.kind not in "fiu":
        raise DataError(f"{path}: bbox must be numbers of shape (L, 4), got {corners.dtype} {corners.shape}; {_AGAIN}")
    count = len(corners)
    if not count:
        raise DataError(f"{path} has no regions: bbox of shape {corners.shape}; {_AGAIN}")
    if "num_bbox" in names and (told := _number(path, "num_bbox")) != count:
        raise DataError(f"{path} has {count} boxes, but num_bbox says {told:g}; {_AGAIN}")
    features = _features(path, count, channels)
    return Regions(features, _boxes(path, corners, _number(path, "image_w"), _number(path, "image_h")))


def _features(path: Path, count: int, channels: int | None) -> Tensor:
    """Return features ``[L, D]``, L being the axis that ``bbox`` has too."""
    array = read_array(path, "x")
    if array.ndim != 2 or array.dtype.kind != "f" or 0 in array.shape:
        raise DataError(
            f"{path}: x must be numbers of shape (L, D) or (D, L), got {array.dtype} {array.shape}; {_AGAIN}"
        )
    if count not in array.shape:
        raise DataError(f"{path} has {count} boxes, and x of shape {array.shape} is not of as many regions; {_AGAIN}")
    if array.shape[0] == array.shape[1]:
        wanted = "as many regions as features, which leaves open which axis is which"
        raise DataError(f"{path}: x of shape {array.shape} has {wanted}; leave out a region")
    if array.shape[0] != count:
        array = array.T
    if channels is not None and array.shape[1] != channels:
        raise DataError(f"{path} has {array.shape[1]} channels, wanted {channels}; {_AGAIN}, or change channels")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is then refused
        features = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
    if not bool(features.isfinite().all()):
        raise DataError(f"{path} has features that are infinite or not numbers; {_AGAIN}")
    return features


def _boxes(path: Path, corners: np.ndarray, width: float, height: float) -> Tensor:
    """Return corners in pixels as parts of the picture's sides, checked one by one."""
    for name, side in (("image_w", width), ("image_h", height)):
        if not 0 < side < np.inf:
            raise DataError(f"{path}: {name} must be the size of the picture in pixels, > 0, got {side:g}; {_AGAIN}")
    pixels = torch.from_numpy(corners.astype(np.float64))
    sides = torch.tensor([width, height, width, height], dtype=torch.float64)
    # A comparison with NaN is False: such a corner is outside.
    outside = ~((pixels >= -_SLACK) & (pixels <= sides + _SLACK)).all(-1)
    if bool(outside.any()):
        row = int(outside.nonzero()[0])
        what = f"lies outside the picture of {width:g} x {height:g} pixels"
        raise DataError(f"{path}: bbox[{row}] = {pixels[row].tolist()} {what}; {_AGAIN}")
    boxes = (pixels / sides).clamp(0, 1).float()
    empty = ~(boxes[:, 2:] > boxes[:, :2]).all(-1)
    if bool(empty.any()):
        row = int(empty.nonzero()[0])
        raise DataError(f"{path}: bbox[{row}] = {pixels[row].tolist()} must have x1 < x2 and y1 < y2; {_AGAIN}")
    return boxes


def _number(path: Path, name: str) -> float:
    array = read_array(path, name)
    if array.size != 1 or array.dtype.kind not in "fiu":
        raise DataError(f"{path}: {name} must be one number, got {array.dtype} {array.shape}; {_AGAIN}")
    return float(array.reshape(()))
