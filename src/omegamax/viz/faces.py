"""Samples of a mixed distribution on the triangle, told apart by the face they lie on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from omegamax.viz._marks import Mark
from omegamax.viz.key import finish
from omegamax.viz.simplex import CORNERS
from omegamax.viz.style import INK, MUTED, axes_or_new, families, legible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_VERTEX, _EDGE, _INSIDE = "#d1495b", "#e09f3e", "#2176ae"
_EDGES = ((0, 1), (1, 2), (2, 0))
_HEIGHT = 0.45  # of a histogram at density 1, where the triangle has the radius 1


def faces(
    y: Tensor,
    *,
    bins: int = 32,
    points: int = 1500,
    labels: Sequence[str] | None = None,
    shares: bool = True,
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Draw samples ``y: [S, 3]`` on the simplex: dots inside, histograms on the edges, discs on the vertices.

    The histograms stand on the outside of their edges; their height is the density along the edge, on one scale in all
    pictures. The area of a disc is the probability of its vertex.

    Args:
        bins: of each histogram.
        points: at most so many samples are drawn inside.
        labels: names of the three vertices.
        shares: write the share of the samples beside each face.
        key: say beneath what the marks mean that occur.
    """
    if y.dim() != 2 or y.shape[-1] != 3:
        raise ValueError(f"faces: y must have shape [S, 3], got {tuple(y.shape)}")
    if not len(y):
        raise ValueError("faces: y must hold at least one sample, got none")
    if labels is not None and len(labels) != 3:
        raise ValueError(f"faces: labels must be 3 names, got {len(labels)}")
    new, ax = ax is None, axes_or_new(ax)
    y = y.detach().double().cpu()
    support = y > 0
    size = support.sum(-1)
    inside = y[size == 3]
    dots = inside[:points] @ CORNERS
    ax.plot(dots[:, 0].tolist(), dots[:, 1].tolist(), ".", color=_INSIDE, markersize=2.2, alpha=0.35, mew=0, zorder=2)
    loop = torch.cat([CORNERS, CORNERS[:1]])
    ax.plot(loop[:, 0].tolist(), loop[:, 1].tolist(), color=INK, linewidth=0.9, zorder=3)
    if shares:
        _write(ax, torch.zeros(2, dtype=y.dtype), len(inside) / len(y), _INSIDE)
    for i, j in _EDGES:
        on = support[:, i] & support[:, j] & (size == 2)
        _histogram(ax, y[on, j], len(y), i, j, bins, shares)
    for i, corner in enumerate(CORNERS):
        share = float((support[:, i] & (size == 1)).double().mean())
        ax.scatter(float(corner[0]), float(corner[1]), s=1800 * share, color=_VERTEX, alpha=0.85, linewidth=0, zorder=4)
        beside = 1.2 + 0.35 * share**0.5  # the disc
        if shares:
            _write(ax, beside * corner, share, _VERTEX)
        if labels is not None:
            x, height = (max(1.42, beside + 0.16 if shares else beside) * corner).tolist()
            look: dict[str, Any] = {"color": MUTED, "ha": "center", "va": "center", "fontsize": 8}
            ax.text(x, height, legible(labels[i]), fontfamily=families(labels[i]), **look)
    ax.set_aspect("equal")
    ax.set_xlim(-1.3, 1.3)
    ax.set_ylim(-1.0, 1.5)
    ax.set_axis_off()
    meanings = {3: ("dots", "sample without a zero", _INSIDE), 2: ("patch", "samples with one exact 0", _EDGE)}
    meanings[1] = ("disc", "samples with two exact 0s: area is their share", _VERTEX)
    found = [Mark(*meaning) for count, meaning in meanings.items() if bool((size == count).any())]
    return finish(ax, title, found, key=key, grow=new)


def _histogram(ax: Axes, t: Tensor, total: int, i: int, j: int, bins: int, shares: bool) -> None:
    """Draw a histogram of positions ``t`` from corner i (0) to corner j (1), on the outer side of the edge."""
    start, end = CORNERS[i], CORNERS[j]
    along = end - start
    normal = start + end  # away from the centre, which is the origin
    normal = normal / normal.norm()
    density = torch.histc(t, bins, 0, 1) / total * bins
    where = torch.linspace(0, 1, bins + 1, dtype=t.dtype).repeat_interleave(2)[1:-1, None]
    height = _HEIGHT * density.repeat_interleave(2)[:, None]
    outline = torch.cat([start[None], start + where * along + height * normal, end[None]])
    ax.fill(outline[:, 0].tolist(), outline[:, 1].tolist(), color=_EDGE, alpha=0.85, linewidth=0, zorder=2.5)
    if shares:
        _write(ax, 0.5 * (start + end) + (0.14 + float(height.max())) * normal, len(t) / total, _EDGE)


def _write(ax: Axes, at: Tensor, share: float, colour: str) -> None:
    text = f"{share:.0%}" if share == 0 or share >= 0.01 else "<1%"
    halo = dict(facecolor="white", edgecolor="none", alpha=0.7, pad=0.6) if not at.any() else None
    ink = colour if share else MUTED
    ax.text(float(at[0]), float(at[1]), text, color=ink, ha="center", va="center", fontsize=8, bbox=halo, zorder=5)
