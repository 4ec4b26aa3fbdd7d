"""One colour scale for all attention over images: density per unit area."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from omegamax._arguments import is_integer, is_number
from omegamax.viz.picture import EXTENT
from omegamax.viz.style import pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Index = int | tuple[int, ...]
_SHADES, _PART = "magma_r", (0.04, 0.88)  # warm on grey; lines in ink still show on the darkest
_OPAQUE = 0.9  # at the end of the scale
LABEL = "attention density (1: spread evenly)"


def check_index(name: str, batch: tuple[int, ...], index: Index | None, argument: str = "density") -> tuple[int, ...]:
    """Return the index in full; refuse one that the batch lacks, and None where it has more than one member."""
    if index is None:
        if math.prod(batch) != 1:
            raise ValueError(f"{name}: {argument} must be a single one, or index be given, got batch shape {batch}")
        return (0,) * len(batch)
    whole = index if isinstance(index, tuple) else (index,)
    if len(whole) != len(batch) or not all(is_integer(i) and -n <= i < n for i, n in zip(whole, batch, strict=True)):
        raise IndexError(f"{name}: index must name one member of batch shape {batch}, got {index!r}")
    return tuple(int(i) for i in whole)


def cells(name: str, argument: str, weights: Tensor, index: Index | None = None) -> Tensor:
    """Return weights ``[h, w]`` of cells as densities: times the number of cells; float64 on the CPU."""
    if not isinstance(weights, Tensor):
        raise TypeError(f"{name}: {argument} must be a tensor [h, w], got {type(weights).__name__}")
    if index is not None and weights.dim() >= 2:
        weights = weights[check_index(name, tuple(weights.shape[:-2]), index)]
    if weights.dim() != 2 or not weights.numel() or weights.is_complex():
        raise ValueError(f"{name}: {argument} must be real of shape [h, w], got {tuple(weights.shape)}")
    w = weights.detach().cpu().double()
    if not bool(((w >= 0) & w.isfinite()).all()):
        bad = w[~((w >= 0) & w.isfinite())]
        raise ValueError(f"{name}: {argument} must be finite and >= 0, got {bad[0]:g} in {len(bad)} of {w.numel()}")
    return w * w.numel()


def end(name: str, vmax: float | None, peak: float) -> float:
    """Return where the colours end: ``vmax``, or the peak; 1 if there is nothing to show."""
    if vmax is None:
        return peak if 0 < peak < math.inf else 1.0
    if not is_number(vmax) or not 0 < vmax < math.inf:
        raise ValueError(f"{name}: vmax must be a finite number > 0, got {vmax!r}")
    return float(vmax)


@cache
def shades() -> Any:
    """Return the colours of attention: the more there is, the darker and the less of the picture shows through."""
    from matplotlib.colors import ListedColormap

    colours = pyplot().get_cmap(_SHADES)(np.linspace(*_PART, 256))
    colours[:, 3] = _OPAQUE * np.linspace(0, 1, 256) ** 0.6
    return ListedColormap(colours, name="attention")


def scale_picture() -> bytes:
    """Return the colours from 0 on the left to the end of the scale, as a PNG file."""
    import io

    from matplotlib.image import imsave

    file = io.BytesIO()
    imsave(file, np.broadcast_to(shades()(np.linspace(0, 1, 256)), (16, 256, 4)), format="png")
    return file.getvalue()


def scale_ticks(vmax: float) -> list[tuple[float, str]]:
    """Return numbers for the scale as text, each with its place on the scale, from 0 to 1."""
    return [(math.sqrt(value / vmax), text) for value, text in ticks(vmax)]


def norm(vmax: float) -> Any:
    """Map densities to colours by the square root: peaks differ a lot between kinds of attention."""
    from matplotlib.colors import PowerNorm

    return PowerNorm(0.5, vmin=0, vmax=vmax, clip=True)


def paint(ax: Axes, densities: Tensor, vmax: float, interpolation: str) -> Any:
    """Colour the unit square by densities ``[S, T]`` of its cells; returns the image."""
    look: dict[str, Any] = {"extent": EXTENT, "aspect": ax.get_aspect(), "zorder": 1}
    return ax.imshow(densities.numpy(), cmap=shades(), norm=norm(vmax), interpolation=interpolation, **look)


def ticks(vmax: float) -> list[tuple[float, str]]:
    """Return numbers for the scale, with their text: powers of 4, which are twice as far from 0 each under the root."""
    steps = [4.0**k for k in range(-12, 16) if 0.06 * vmax <= 4.0**k <= vmax]
    return [(0.0, "0"), *((step, f"{step:g}") for step in steps)]
