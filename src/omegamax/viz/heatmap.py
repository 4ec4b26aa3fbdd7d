"""Attention over the cells of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from omegamax._checks import check_shape
from omegamax.viz._marks import Mark
from omegamax.viz.key import colour_bar, finish
from omegamax.viz.picture import ROUND, find_border
from omegamax.viz.style import INK, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def heatmap(
    weights: Tensor,
    *,
    cmap: str = "YlGnBu",
    sparse: bool = True,
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Draw ``weights: [H, W]`` as an image.

    Args:
        sparse: leave white what is exactly 0, and draw a line round the rest.
        key: draw a bar of the colours with numbers, and say beneath what the marks mean that occur.
    """
    check_shape("heatmap", "weights", weights, "H", "W")
    new, ax = ax is None, axes_or_new(ax, weights.shape[0] / max(weights.shape[1], 1))
    w = weights.detach().double().cpu()
    shown = w.where(w > 0, float("nan")) if sparse else w
    painted = ax.imshow(shown.numpy(), cmap=cmap, vmin=0, vmax=w.max().item() or 1)
    found = []
    if sparse and bool((w == 0).any()):
        # A thin support on a large white page is easy to miss without its border.
        for segment in find_border(w > 0):
            ax.plot(*segment, color=INK, linewidth=0.9, solid_capstyle="projecting")
        found = [Mark("white", "exactly 0"), *([Mark("cells", ROUND)] if bool((w > 0).any()) else [])]
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(True)
    if key:
        colour_bar(ax, painted, "weight")
    return finish(ax, title, found, key=key, grow=new)
