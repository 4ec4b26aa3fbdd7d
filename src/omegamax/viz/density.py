"""A density over an interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from omegamax.viz._marks import Mark
from omegamax.viz.key import finish
from omegamax.viz.style import INK, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omegamax.densities import Density

_POINTS = 1000


@torch.no_grad()
def density(
    p: Density,
    low: float = 0.0,
    high: float = 1.0,
    *,
    fill: float = 0.14,
    colour: str = INK,
    label: str | None = None,
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Draw the curve of one density over the line, from ``low`` to ``high``; call again to add another.

    It is drawn only where the density is positive, and a hollow dot marks each end of the support: tails that are
    merely small run on to the frame.

    Args:
        p: any density over one dimension, without batch axes; its support may be in pieces.
        fill: how opaque the area under the curve is.
        key: say beneath what a dot means, if there is one.
    """
    if p.event_shape != (1,) or p.batch_shape:
        shapes = f"batch shape {tuple(p.batch_shape)}, event shape {tuple(p.event_shape)}"
        raise ValueError(f"density: p must be a single density over one dimension, got {shapes}")
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"density: low must be below high, both finite, got {low} and {high}")
    new, ax = ax is None, axes_or_new(ax)
    edges = _edges(p, low, high)
    # A gap after each piece of the support keeps them one line, with one label.
    gap = torch.full((1,), math.nan, dtype=torch.float64)
    t, height = [gap], [gap]
    for start, end in edges.reshape(-1, 2).tolist():
        nodes = _nodes(p, start, end)
        t += [nodes.double().cpu(), gap]
        height += [p.prob(nodes.unsqueeze(-1)).double().cpu(), gap]
    x, y = torch.cat(t).numpy(), torch.cat(height).numpy()
    ax.plot(x, y, color=colour, linewidth=1.8, label=label, zorder=3)
    if fill:
        ax.fill_between(x, y, color=colour, alpha=fill, linewidth=0)
    ends = [end for end in edges.tolist() if low < end < high]
    if ends:
        ax.plot(ends, [0] * len(ends), "o", ms=5.5, mfc="white", mec=colour, mew=1.5, clip_on=False, zorder=4)
    ax.set_xlim(low, high)
    top = ax.dataLim.y1  # of all that was drawn: a limit set by an earlier call would stay
    ax.set_ylim(0, 1.06 * top if 0 < top < math.inf else 1)
    found = [Mark("hollow", "end of the support: exactly 0 beyond")] if ends else []
    return finish(ax, title, found, key=key, grow=new)


def _edges(p: Density, low: float, high: float) -> Tensor:
    """Return where the support begins and ends, begins and ends, ..., within the interval."""
    t = _with_mean(p, torch.linspace(low, high, 2 * _POINTS + 1, dtype=torch.float64))
    inside = p.support_contains(t.unsqueeze(-1))
    (change,) = torch.nonzero(inside[1:] != inside[:-1], as_tuple=True)
    within = torch.where(inside[change], t[change], t[change + 1])
    without = torch.where(inside[change], t[change + 1], t[change])
    for _ in range(60):
        middle = (within + without) / 2
        held = p.support_contains(middle.unsqueeze(-1))
        within, without = torch.where(held, middle, within), torch.where(held, without, middle)
    # The side without: there the density is exactly 0, and the curve comes down to the axis.
    return torch.cat([t[:1][inside[:1]], without, t[-1:][inside[-1:]]])


def _nodes(p: Density, a: float, b: float) -> Tensor:
    """Return points from a to b, dense at both ends, where a density with a large alpha is steep."""
    x = torch.linspace(0, math.pi, _POINTS, dtype=torch.float64).cos()
    t = (a + b) / 2 - (b - a) / 2 * x
    t[0], t[-1] = a, b
    return _with_mean(p, t)


def _with_mean(p: Density, t: Tensor) -> Tensor:
    """Return sorted points and the mean, if it lies between them: a peak or a narrow support is not to be missed."""
    mean = p.mean.flatten()
    t = t.to(mean)
    return torch.cat([t, mean[(mean > t[0]) & (mean < t[-1])]]).sort().values
