"""Weights of cells over the picture that they divide up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from omegamax.viz._marks import Mark
from omegamax.viz.ellipses import halo
from omegamax.viz.key import colour_bar, finish
from omegamax.viz.picture import (
    LABEL,
    ROUND,
    cells,
    check_zeros,
    dim,
    end,
    find_border,
    lay,
    mark,
    paint,
    pixels,
    ticks,
)
from omegamax.viz.style import INK, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH = 1.3


def overlay(
    image: Tensor,
    weights: Tensor,
    ax: Axes | None = None,
    *,
    vmax: float | None = None,
    index: int | tuple[int, ...] | None = None,
    zeros: str | None = "hatch",
    title: str = "",
    key: bool = True,
) -> Axes:
    """Discrete attention over a picture: each cell in the colour of its weight, on the dim picture.

    Colours mean density per unit area, a cell's weight times the number of cells, so that they can be compared with
    those of :func:`contours` and of other grids: 1 is what attention spread evenly has everywhere. They go with its
    square root. The more there is, the darker and the more opaque. Where some weights are exactly 0 a line runs round
    the others.

    A key beneath says what the marks mean that occur, a bar at the side which colour is which density.

    Args:
        image: ``[3, H, W]``, bytes or colours in [0, 1]; it keeps its proportions.
        weights: ``[h, w]``, row by row from the upper left, >= 0. They need not sum to one. ``[*, h, w]`` with
            ``index``.
        vmax: the density from which on colours are the darkest; the largest there is by default. Give the same to all
            pictures that stand side by side, see :func:`shared_vmax`.
        index: which member of a batch.
        zeros: cells of weight exactly 0 are hatched, ``"white"``, or (None) left like the faintest others.
        key: draw the key and the bar. The key of a figure of several axes is drawn once for all.

    Reference: the figures of Farinhas (2021), ch. 6.
    """
    picture, densities = pixels("overlay", image), cells("overlay", "weights", weights, index)
    check_zeros("overlay", zeros)
    last = end("overlay", vmax, densities.max().item())
    new, ax = ax is None, axes_or_new(ax, picture.shape[0] / picture.shape[1])
    lay(ax, dim(picture))
    painted = paint(ax, densities, last, "nearest")
    if key:
        colour_bar(ax, painted, LABEL, ticks(last))
    (h, w), support = densities.shape, densities > 0
    size = densities.new_tensor([w, h])

    def contains(points: Tensor) -> Tensor:
        column, row = (points * size).long().minimum(size.long() - 1).unbind(-1)
        return support[row, column]

    found = mark(ax, contains, zeros, step=1 / max(h, w))
    if zeros is not None and lines(ax, support, _WIDTH):
        found.append(Mark("cells", ROUND))
    return finish(ax, title, found, key=key, grow=new)


def lines(ax: Axes, support: Tensor, width: float) -> bool:
    """Draw a line round the cells of the unit square where ``support [h, w]`` holds; False if it has no edge."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    (h, w), sides = support.shape, find_border(support)
    if not sides:
        return False
    # One path for all: its pale edge then lies under the whole line. Centres of cells are given as integers.
    places = [((a + 0.5) / w, (b + 0.5) / h) for x, y in sides for a, b in zip(x, y, strict=True)]
    border = Path(places, [Path.MOVETO, Path.LINETO] * len(sides))
    look: dict[str, Any] = {"fill": False, "edgecolor": INK, "linewidth": width, "capstyle": "projecting"}
    ax.add_patch(PathPatch(border, zorder=3, path_effects=halo(width), **look))
    return True
