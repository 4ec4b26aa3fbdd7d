"""The mark of attention that is exactly zero, the same over cells and over densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from omegamax._arguments import check_choice
from omegamax.basis import grid_positions
from omegamax.viz._marks import Mark, hatching
from omegamax.viz._picture import EXTENT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Contains = Callable[[Tensor], Tensor]  # points [N, 2] to bool [N]

_STEP = 1 / 20  # between strokes, in widths of the picture
_POINTS = 600  # along each stroke
_FINEST = 0.4  # strokes of fine grids are thinner, down to this
_WASH, _LATTICE = 0.8, 400
_FLAT = (0.82, 0.83, 0.85, 0.5)  # red, green, blue and opacity of what lies under hatching
ZERO = "exactly 0"


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
