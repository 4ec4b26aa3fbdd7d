"""Losses along a line of scores."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor

from omegamax.viz._marks import Mark
from omegamax.viz.key import finish
from omegamax.viz.style import INK, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def losses(
    gaps: Tensor,
    values: Tensor,
    *,
    margin: float = math.inf,
    colour: str = INK,
    label: str | None = None,
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Draw a loss ``values: [T]`` against ``gaps: [T]``, the lead of the target's score; call again to add another.

    Args:
        margin: the gap from which the loss is 0, marked by a dot; ``inf`` marks nothing.
        key: say beneath what the dot means, if there is one.
    """
    if gaps.dim() != 1 or gaps.shape != values.shape:
        raise ValueError(f"losses: wanted gaps and values [T], got {tuple(gaps.shape)} and {tuple(values.shape)}")
    new, ax = ax is None, axes_or_new(ax)
    found = []
    ax.plot(gaps.detach().cpu().numpy(), values.detach().cpu().numpy(), color=colour, linewidth=1.8, label=label)
    if margin <= float(gaps.max()):
        ax.axvline(margin, color=colour, linewidth=0.8, linestyle=(0, (3, 3)))
        ax.plot([margin], [0], "o", ms=6, mfc="white", mec=colour, mew=1.6, clip_on=False, zorder=4)
        found.append(Mark("hollow", "margin: the loss is exactly 0 from here on"))
    ax.set_ylim(bottom=0)
    return finish(ax, title, found, key=key, grow=new)
