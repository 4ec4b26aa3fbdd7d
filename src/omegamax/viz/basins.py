"""Where a memory in the plane leads to, from everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from omegamax.viz._marks import Mark
from omegamax.viz.key import finish
from omegamax.viz.style import INK, MUTED, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PALETTE = ("#d1495b", "#2176ae", "#e09f3e", "#2a9d8f", "#7d5ba6", "#8a6a52", "#5f7c2b", "#c9609f")
_PALE = 0.55  # of the colour of a pattern, the rest is white
_DARK = (0.12, 0.16, 0.2, 0.6)  # red, green, blue and opacity of hatching: all colours here are pale
_WHOLE = 0.999  # the weight from which a state is that of one pattern


def basins(
    weights: Tensor,
    patterns: Tensor,
    extent: tuple[float, float, float, float],
    *,
    states: Tensor | None = None,
    trajectories: Tensor | None = None,
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Draw the plane coloured by what a query that starts there ends with.

    Args:
        weights: of the patterns at the end, ``[H, W, N]``, rows from bottom to top. A pattern has its colour, a state
            of several the mixture of theirs, hatched.
        patterns: ``[N, 2]``, drawn as discs.
        extent: ``(left, right, bottom, top)`` of the region.
        states: where queries end, ``[*, 2]``: those that are no pattern are drawn as crosses.
        trajectories: ``[T, Q, 2]``, drawn as lines from a small dot on.
        key: say beneath what the marks mean that occur.
    """
    if weights.dim() != 3 or patterns.shape != (weights.shape[-1], 2):
        shapes = f"{tuple(weights.shape)} and {tuple(patterns.shape)}"
        raise ValueError(f"basins: wanted weights [H, W, N] and patterns [N, 2], got shapes {shapes}")
    new, ax = ax is None, axes_or_new(ax)
    found = [Mark("disc", "pattern, and the queries that end at it", _PALETTE[0])]
    p, x = (t.detach().double().cpu() for t in (weights, patterns))
    p = p / p.sum(-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
    colours = torch.tensor([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in _PALETTE], dtype=p.dtype)
    own = colours[torch.arange(len(x)) % len(colours)]
    ax.imshow((1 - _PALE + _PALE * (p @ own)).clamp(0, 1).numpy(), extent=extent, origin="lower", zorder=0)
    several = (p.amax(-1) < _WHOLE).double().numpy()
    if several.any():
        hatched = ax.contourf(several, levels=[0.5, 1.5], extent=extent, colors="none", hatches=["////"], zorder=1)
        hatched.set_edgecolor(_DARK)
        hatched.set_linewidth(0)
        found.append(Mark("several", "ends between several patterns"))
    if trajectories is not None:
        way = trajectories.detach().double().cpu().numpy()
        ax.plot(way[..., 0], way[..., 1], color=INK, linewidth=0.8, alpha=0.75, zorder=3)
        ax.plot(way[0, :, 0], way[0, :, 1], "o", color=INK, markersize=1.8, zorder=3)
        found.append(Mark("line", "way of a query, from its dot"))
    if states is not None:
        ends = states.detach().double().cpu().reshape(-1, 2)
        ends = ends[torch.cdist(ends, x).amin(-1) > 1e-3 * x.norm(dim=-1).max()]
        ends = (ends * 1e3).round().unique(dim=0) / 1e3
        ax.plot(ends[:, 0], ends[:, 1], "x", color=INK, markersize=5, markeredgewidth=1.4, zorder=4)
        found += [Mark("cross", "end that is no pattern")] if len(ends) else []
    ax.scatter(x[:, 0], x[:, 1], s=34, c=own.numpy(), edgecolors="white", linewidths=1.2, zorder=5)
    ax.set(xlim=extent[:2], ylim=extent[2:], xticks=[], yticks=[], aspect="equal")
    for spine in ax.spines.values():
        spine.set(visible=True, color=MUTED, linewidth=0.5)
    return finish(ax, title, found, key=key, grow=new)
