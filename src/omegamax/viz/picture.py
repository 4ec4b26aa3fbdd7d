"""A picture with attention over it: on axes that are the unit square, in one colour scale, with exact zeros marked.

x goes to the right and y down. Colours mean density per unit area; they and the marks are the same over cells and over
densities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from omegamax._arguments import check_choice, check_number, check_type, is_integer
from omegamax.basis import grid_positions
from omegamax.viz._marks import Mark, hatching
from omegamax.viz.style import pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Contains = Callable[[Tensor], Tensor]  # points [N, 2] to bool [N]

Index = int | tuple[int, ...]
EXTENT = (0.0, 1.0, 1.0, 0.0)  # left, right, bottom, top
_LUMINANCE = (0.2126, 0.7152, 0.0722)
_GREY = 0.85  # how far a dim picture goes to grey
_DARKEST, _LIGHTEST, _LEAST = 0.55, 0.97, 0.35  # of a dim picture; the least range of greys stretched to that
_OVERSHOOT = 0.5  # what resampling may add to colours in [0, 1]; more is another range
_STEP = 1 / 20  # between strokes, in widths of the picture
_POINTS = 600  # along each stroke
_FINEST = 0.4  # strokes of fine grids are thinner, down to this
_WASH, _LATTICE = 0.8, 400
_FLAT = (0.82, 0.83, 0.85, 0.5)  # red, green, blue and opacity of what lies under hatching
ZERO = "exactly 0"
ROUND = "edge of the cells above 0"
_SHADES, _PART = "magma_r", (0.04, 0.88)  # warm on grey; lines in ink still show on the darkest
_OPAQUE = 0.9  # at the end of the scale
LABEL = "attention density (1: spread evenly)"


def pixels(name: str, image: Tensor) -> Tensor:
    """Return ``[3, H, W]`` as colours ``[H, W, 3]`` in [0, 1], float64 on the CPU; refuses what is no picture."""
    check_type(name, "image", image, Tensor, "a tensor [3, H, W]")
    if image.dim() != 3 or image.shape[0] != 3 or not image.numel():
        raise ValueError(f"{name}: image must have shape [3, H, W], got {tuple(image.shape)}")
    if image.dtype != torch.uint8 and not image.is_floating_point():
        raise TypeError(f"{name}: image must be uint8, or floating with colours in [0, 1], got dtype {image.dtype}")
    picture = image.detach().cpu().double().permute(1, 2, 0)
    if image.dtype == torch.uint8:
        return picture / 255
    low, high = picture.min().item(), picture.max().item()
    if not -_OVERSHOOT <= low <= high <= 1 + _OVERSHOOT:  # NaN too
        raise ValueError(f"{name}: image must have colours in [0, 1], got values from {low:g} to {high:g}")
    return picture.clamp(0, 1)


def dim(picture: Tensor) -> Tensor:
    """Turn ``[H, W, 3]`` into pale greys with a touch of its colours, so that what lies over it stands out."""
    grey = (picture @ picture.new_tensor(_LUMINANCE)).unsqueeze(-1)
    some = grey.flatten()[:: max(1, grey.numel() // 100_000)]  # quantile has a limit
    low, high = some.quantile(0.01), some.quantile(0.99)
    gain = (_LIGHTEST - _DARKEST) / (high - low).clamp(min=_LEAST)
    pale = (_DARKEST + _LIGHTEST) / 2 + gain * (grey - (low + high) / 2)
    return (pale + gain * (1 - _GREY) * (picture - grey)).clamp(_DARKEST, 1)


def lay(ax: Axes, picture: Tensor) -> None:
    """Put a picture ``[H, W, 3]`` on the axes, which become the unit square in its proportions."""
    ax.imshow(picture.numpy(), extent=EXTENT, zorder=0)
    ax.set_xlim(0, 1)
    ax.set_ylim(1, 0)
    ax.set_aspect(picture.shape[0] / picture.shape[1])
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(True)


def check_zeros(name: str, zeros: str | None) -> None:
    """Refuse a mark that is not known."""
    if zeros is not None:
        check_choice(name, "zeros", zeros, ("hatch", "white"))


def mark(ax: Axes, contains: Contains, zeros: str | None, step: float = _STEP) -> list[Mark]:
    """Hatch or whiten the points of the unit square that the support does not contain; returns the marks drawn."""
    if zeros == "white" and _veil(ax, contains, (1.0, 1.0, 1.0, _WASH)):
        return [Mark("white", ZERO)]
    if zeros == "hatch" and _hatch(ax, contains, min(step, _STEP)):
        # Stripes of the picture itself fade, so that they are not taken for hatching nor hide it.
        _veil(ax, contains, _FLAT)
        return [Mark("hatch", ZERO)]
    return []


def _veil(ax: Axes, contains: Contains, colour: tuple[float, float, float, float]) -> bool:
    """Cover what the support does not contain with a colour; False if it contains all."""
    outside = ~contains(grid_positions((_LATTICE, _LATTICE), dtype=torch.float64)).reshape(_LATTICE, _LATTICE, 1)
    if outside.any():
        veil = torch.tensor(colour).repeat(_LATTICE, _LATTICE, 1)
        veil[..., 3:] *= outside
        look: dict[str, Any] = {"extent": EXTENT, "aspect": ax.get_aspect(), "zorder": 1.4}
        ax.imshow(veil.numpy(), interpolation="nearest", **look)
    return bool(outside.any())


def _hatch(ax: Axes, contains: Contains, step: float) -> bool:
    """Draw strokes at 45 degrees over the whole square, broken where the support is; False if there are none."""
    from matplotlib.collections import LineCollection

    ratio = float(ax.get_aspect())  # height of the picture in widths
    offsets = torch.arange(step / 2, 1 + ratio, step, dtype=torch.float64)
    # Stroke c is x + y = c in widths: from the left or bottom side up to the top or right.
    low, high = (offsets - ratio).clamp(min=0), offsets.clamp(max=1)
    x = low[:, None] + (high - low)[:, None] * torch.linspace(0, 1, _POINTS, dtype=torch.float64)
    points = torch.stack([x, (offsets[:, None] - x) / ratio], -1)
    outside = ~contains(points.reshape(-1, 2)).reshape(points.shape[:2])
    # Each run of points outside is one stroke, from its first to its last.
    change = torch.nn.functional.pad(outside.int(), (1, 1)).diff()
    first, last = (change == 1).nonzero(), (change == -1).nonzero()
    strokes = torch.stack([points[first[:, 0], first[:, 1]], points[last[:, 0], last[:, 1] - 1]], 1)
    if len(strokes):
        look = hatching(min(1.0, max(_FINEST, step / _STEP)))
        ax.add_collection(LineCollection(list(strokes.numpy()), capstyle="butt", zorder=1.5, **look), autolim=False)
    return len(strokes) > 0


def find_border(support: Tensor) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """List the edges of cells with the support on one side only, as ``(x, x), (y, y)``; none on the frame."""
    down = torch.nonzero(support[1:] != support[:-1]).tolist()
    right = torch.nonzero(support[:, 1:] != support[:, :-1]).tolist()
    flat = [((j - 0.5, j + 0.5), (i + 0.5, i + 0.5)) for i, j in down]
    upright = [((j + 0.5, j + 0.5), (i - 0.5, i + 0.5)) for i, j in right]
    return flat + upright


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
    check_type(name, argument, weights, Tensor, "a tensor [h, w]")
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
    return check_number(name, "vmax", vmax, above=0)


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
