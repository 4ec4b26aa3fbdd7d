"""The part of a picture that matters for a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from omegamax._arguments import check_interval
from omegamax.viz._marks import Mark
from omegamax.viz.key import finish
from omegamax.viz.overlay import lines
from omegamax.viz.picture import cells, dim, lay, pixels
from omegamax.viz.style import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH = 1.3
MATTERS = "what matters for the answer; the rest is dim"


def outline(
    image: Tensor,
    relevance: Tensor,
    ax: Axes | None = None,
    *,
    mass: float = 0.9,
    title: str = "",
    key: bool = True,
) -> Axes:
    """Draw a picture with a line round what is relevant in it; the rest is dim.

    Args:
        image: ``[3, H, W]``, bytes or colours in [0, 1]; it keeps its proportions.
        relevance: ``[h, w]`` at any resolution, >= 0: a map of zeros and ones, or where people looked. All 0: nothing
            in particular matters, and all is dim.
        mass: the line is round the smallest set of cells, ties included, that holds this much of the relevance; all
            ones of a map of zeros and ones.
        key: say beneath what the line means.
    """
    picture, map_ = pixels("outline", image), cells("outline", "relevance", relevance)
    check_interval("outline", "mass", mass, "(0, 1]")
    inside = _smallest(map_, mass)
    height, width = picture.shape[:2]
    new, ax = ax is None, axes_or_new(ax, height / width)
    rows, columns = ((2 * torch.arange(n) + 1) * m // (2 * n) for n, m in ((height, len(map_)), (width, map_.shape[1])))
    lay(ax, torch.where(inside[rows][:, columns].unsqueeze(-1), picture, dim(picture)))
    found = [Mark("cells", MATTERS)] if lines(ax, inside, _WIDTH) else []
    return finish(ax, title, found, key=key, grow=new)


def _smallest(map_: Tensor, mass: float) -> Tensor:
    """Return the cells ``[h, w]`` of the largest values that hold the mass between them."""
    falling = map_.flatten().sort(descending=True).values
    held = falling.cumsum(0)
    # Rounding must not ask for more than there is.
    last = (held < mass * held[-1] * (1 - 1e-12)).sum().clamp(max=len(held) - 1)
    return (map_ >= falling[last]) & (map_ > 0)
