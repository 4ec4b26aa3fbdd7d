"""Maps of attention as a page keeps them: a level of the colour scale for each cell, drawn over a photograph there."""

from __future__ import annotations

import io
from base64 import b64encode
from typing import Any

import numpy as np
from torch import Tensor

from omegamax.data.pictures import shrink
from omegamax.viz.picture import shades


def encode_map(weights: Tensor, vmax: float | None = None) -> str:
    """Return the levels of the cells of a map ``[h, w]``, row by row, a byte each, as base64.

    Level 0 is a weight of exactly 0, and nothing else; from 1 to 255 levels go with the root of the weight.

    Args:
        vmax: weight of level 255; the largest of this map by default.

    >>> import torch
    >>> encode_map(torch.tensor([[0.0, 1e-9], [0.25, 1.0]]))  # bytes 0, 1, 128, 255
    'AAGA/w=='
    """
    w = weights.double().cpu().numpy()
    last = float(w.max(initial=0.0)) if vmax is None else vmax
    levels = np.round(255 * np.sqrt(np.clip(w / last, 0, 1))) if last > 0 else np.zeros_like(w)
    return b64encode(np.where(w > 0, np.maximum(levels, 1), 0).astype(np.uint8).tobytes()).decode("ascii")


def list_shades() -> list[list[int]]:
    """Return the colour of each level of a map, red, green, blue and how opaque, 0 to 255; the first is transparent."""
    colours = np.round(255 * shades()(np.arange(256))).astype(int)
    colours[0, 3] = 0
    return colours.tolist()  # type: ignore[no-any-return]


def jpeg_address(image: Tensor, most: int, quality: int = 85) -> str:
    """Return the address of a photograph that is in the page itself, as a JPEG file.

    Args:
        image: ``[3, H, W]``, bytes or colours in [0, 1].
        most: pixels along the longer side, to which a larger one is shrunk.
    """
    from PIL import Image

    pixels: Any = image if not image.is_floating_point() else (255 * image).round().clamp(0, 255).byte()
    file = io.BytesIO()
    Image.fromarray(shrink(pixels, most).permute(1, 2, 0).contiguous().numpy()).save(file, "JPEG", quality=quality)
    return "data:image/jpeg;base64," + b64encode(file.getvalue()).decode("ascii")
