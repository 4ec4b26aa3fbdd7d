"""How a distribution opens up as the temperature rises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from omegamax.viz._marks import Mark
from omegamax.viz.key import finish
from omegamax.viz.style import axes_or_new, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def path(
    temperatures: Tensor,
    p: Tensor,
    *,
    labels: Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Draw each probability of ``p: [T, K]`` as a line against ``temperatures: [T]``, on a logarithmic axis.

    A line is drawn only where its probability is positive, so it starts where the entry joins the support.

    Args:
        labels: names of the K entries, for a legend made by the caller.
        key: say beneath which line is whose.
    """
    if p.dim() != 2 or temperatures.shape != p.shape[:1]:
        shapes = f"{tuple(p.shape)} and {tuple(temperatures.shape)}"
        raise ValueError(f"path: wanted p [T, K] and temperatures [T], got shapes {shapes}")
    new, ax = ax is None, axes_or_new(ax)
    t = temperatures.detach().double().cpu().numpy()
    shades = pyplot().get_cmap("viridis")
    for i, column in enumerate(p.detach().double().cpu().unbind(-1)):
        drawn = column > 0
        # The zero next to the support belongs to the line: a steep map would else seem to start in the air.
        drawn[1:] |= column[:-1] > 0
        drawn[:-1] |= column[1:] > 0
        line = column.where(drawn, float("nan")).numpy()
        shade = shades(0.92 * i / max(p.shape[1] - 1, 1))
        ax.plot(t, line, color=shade, linewidth=1.7, label=labels[i] if labels is not None else None)
    ax.set_xscale("log")
    ax.set_xlim(t.min(), t.max())
    ax.set_ylim(bottom=0)
    spread = " ".join(_hex(shades(0.92 * i / 6)) for i in range(7))
    found = [Mark("hues", "entries in order, from the first to the last", spread)]
    return finish(ax, title, found if p.shape[1] > 1 else [], key=key, grow=new)


def _hex(colour: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in colour[:3])
