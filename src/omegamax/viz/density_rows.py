"""Densities along a sentence, one for each word of another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from omegamax.viz._marks import Mark
from omegamax.viz.key import colour_bar, finish
from omegamax.viz.style import INK, LINE, axes_or_new, families, legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omegamax.densities import Density

_POINTS = 24  # of a word


@torch.no_grad()
def density_rows(
    densities: Sequence[Density],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    cmap: str = "YlGnBu",
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Draw densities over the unit interval that m words fill, one for each of n words, as rows of colours.

    A colour is the density times the share 1/m of a word, so that a word with all of it has 1 on average, as in
    :func:`~omegamax.viz.alignment`; what has exactly no density is left white. A dot marks each mean.

    Args:
        densities: n of them over one dimension, without batch axes or of batch ``[1]``.
        rows: n words, written on the left.
        columns: m words, written on top.
        key: draw a bar of the colours with numbers, and say beneath what the marks mean that occur.
    """
    if len(densities) != len(rows) or not columns:
        given = f"{len(densities)}, {len(rows)} and {len(columns)}"
        raise ValueError(f"density_rows: there must be as many densities as rows, and a column at least, got {given}")
    width = len(columns)
    t = (torch.arange(width * _POINTS, dtype=torch.float64) + 0.5) / (width * _POINTS)
    logs, means = [], []
    for p in densities:
        mean = p.mean.reshape(-1)
        if len(mean) != 1:
            shapes = f"batch shape {tuple(p.batch_shape)}, event shape {tuple(p.event_shape)}"
            raise ValueError(f"density_rows: each must be a single density over one dimension, got {shapes}")
        points = t.to(mean).reshape(-1, *[1] * (p.mean.dim() - 1), 1)
        logs.append(p.log_prob(points).reshape(-1).double().cpu())
        means.append(float(mean) * width - 0.5)
    log_prob = torch.stack(logs) if logs else torch.zeros(0, width * _POINTS, dtype=torch.float64)
    absent = log_prob == -math.inf  # and not where the density of a Gaussian is too small for a number
    ax = axes_or_new(ax, len(rows) / width)
    shown = (log_prob.exp() / width).where(~absent, math.nan).numpy()
    frame = (-0.5, width - 0.5, len(rows) - 0.5, -0.5)
    painted = ax.imshow(shown, cmap=cmap, vmin=0, vmax=1, extent=frame, aspect="auto", interpolation="nearest")
    ax.plot(means, range(len(rows)), "o", ms=3.2, mfc="white", mec=INK, mew=0.9, zorder=4)
    for line in range(1, width):
        ax.axvline(line - 0.5, color=LINE, linewidth=0.6, zorder=0)
    family = families("".join((*rows, *columns)))
    ax.set_yticks(range(len(rows)), [legible(word) for word in rows], fontfamily=family)
    top = [legible(word) for word in columns]
    ax.set_xticks(range(width), top, rotation=45, ha="left", rotation_mode="anchor", fontfamily=family)
    ax.tick_params(length=0, labelcolor=INK, labelsize=9)
    ax.tick_params(axis="x", top=False, labeltop=True, bottom=False, labelbottom=False, pad=2)
    ax.spines[:].set_visible(True)
    found = [Mark("hollow", "mean")] + ([Mark("white", "exactly 0")] if bool(absent.any()) else [])
    if key:
        colour_bar(ax, painted, "density, of a word's width")
    return finish(ax, title, found, key=key)
