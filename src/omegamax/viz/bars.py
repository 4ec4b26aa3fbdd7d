"""A distribution over a handful of choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from omegamax._checks import check_shape
from omegamax.viz._marks import Mark
from omegamax.viz.key import finish
from omegamax.viz.style import INK, MUTED, axes_or_new, families, legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bars(
    p: Tensor,
    *,
    labels: Sequence[str] | None = None,
    colour: str = INK,
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Draw one bar for each of ``p: [K]``. What is exactly 0 gets a hollow dot on the axis, not a very short bar.

    Args:
        labels: names of the choices, written under the bars.
        key: say beneath what a dot means, if there is one.
    """
    check_shape("bars", "p", p, "K")
    new, ax = ax is None, axes_or_new(ax)
    values = p.detach().double().cpu()
    zeros = (values == 0).nonzero().flatten().tolist()
    ax.bar(range(len(values)), values.tolist(), color=colour, width=0.78, linewidth=0)
    ax.axhline(0, color=MUTED, linewidth=0.8)
    if zeros:
        # Zeros are the point of a sparse map, so they are drawn.
        ax.plot(zeros, [0] * len(zeros), "o", ms=4.5, mfc="white", mec=MUTED, mew=0.9, clip_on=False, zorder=3)
    names = [""] * len(values) if labels is None else [legible(label) for label in labels]
    ax.set_xticks(range(len(values)), names, fontfamily=families("".join(names)))
    ax.tick_params(axis="x", length=0)
    ax.spines["bottom"].set_visible(False)
    return finish(ax, title, [Mark("hollow", "exactly 0", MUTED)] if zeros else [], key=key, grow=new)
