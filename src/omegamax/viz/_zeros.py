"""The mark of attention that is exactly zero, the same over cells and over densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from omegamax._checks import check_choice
from omegamax.basis import grid_positions
from omegamax.viz._picture import EXTENT
from omegamax.viz.style import MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Contains = Callable[[Tensor], Tensor]  # points [N, 2] to bool [N]

_STEP = 1 / 20  # between strokes, in widths of the picture
_POINTS = 600  # along each stroke
_WASH, _LATTICE = 0.8, 400


def check_zeros(name: str, zeros: str | None) -> None:
    """Refuse a mark that is not known."""
    if zeros is not None:
        check_choice(name, "zeros", zeros, ("hatch", "white"))


def mark(ax: Axes, contains: Contains, zeros: str | None, step: float = _STEP) -> None:
    """Hatch or whiten the points of the unit square that the support does not contain."""
    if zeros == "white":
        inside = contains(grid_positions((_LATTICE, _LATTICE), dtype=torch.float64)).reshape(_LATTICE, _LATTICE)
        if not inside.all():
            veil = torch.ones(_LATTICE, _LATTICE, 4)
            veil[..., 3] = _WASH * ~inside
            ax.imshow(veil.numpy(), extent=EXTENT, aspect=ax.get_aspect(), interpolation="nearest", zorder=1.5)
    elif zeros == "hatch":
        _hatch(ax, contains, min(step, _STEP))


def _hatch(ax: Axes, contains: Contains, step: float) -> None:
    """Strokes at 45 degrees over the whole square, broken where the support is."""
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
        look = LineCollection(list(strokes.numpy()), colors=MUTED, linewidths=0.5, alpha=0.65, zorder=1.5)
        ax.add_collection(look, autolim=False)
