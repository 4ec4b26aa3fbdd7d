"""A density over the picture that it attends to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from omegamax._arguments import is_number
from omegamax._numerics import phi
from omegamax.basis import grid_positions
from omegamax.viz._marks import Mark
from omegamax.viz._region import Region, region
from omegamax.viz.ellipses import ENDS, THICK, halo, mass_radii, trace_rings
from omegamax.viz.key import colour_bar, finish
from omegamax.viz.picture import LABEL, check_zeros, dim, end, lay, mark, paint, pixels, ticks
from omegamax.viz.style import INK, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omegamax.densities import BetaGaussian, Density

_LATTICE, _COARSE = 400, 160  # a density that is not elliptic may take a sum over hundreds of nodes at each point
_LEVELS = tuple(4.0**k for k in range(8))
_THIN = 0.7
_HALF = (0.5,)  # of its mass lies in the ellipse drawn for a component
HALF = "half of a component's mass"
MEAN, PART = "mean", "mean of a component, with its weight"


@torch.no_grad()
def contours(
    image: Tensor,
    density: Density,
    ax: Axes | None = None,
    *,
    levels: Sequence[float] = _LEVELS,
    vmax: float | None = None,
    index: int | tuple[int, ...] | None = None,
    zeros: str | None = "hatch",
    title: str = "",
    key: bool = True,
) -> Axes:
    """Continuous attention over a picture: colours and level lines of one density, dots at its means.

    Colours mean the density per unit area, as in :func:`overlay`: the picture has area 1, and 1 is what attention
    spread evenly has everywhere. Where the support ends there is a thick line. It is exact for elliptic densities and
    their mixtures, others are traced on a lattice. A mixture has, for each component with weight, a dashed ellipse
    that holds half of the component's mass, a dot at its mean and its weight beside it.

    Args:
        image: ``[3, H, W]``, bytes or colours in [0, 1]; it keeps its proportions.
        density: over the unit square, x to the right and y down: a single one, or a batch and ``index``.
        levels: densities at which thin lines are drawn, the same in every picture: by default 1, 4, 16 and so on.
        vmax: the density from which on colours are the darkest; the largest there is by default. Give the same to all
            pictures that stand side by side, see :func:`shared_vmax`.
        index: which member of a batch.
        zeros: what is outside the support is hatched, ``"white"``, or (None) left alone.
        key: draw a key of the marks that occur and a bar of the colours, as in :func:`overlay`.

    Reference: the figures of Farinhas (2021), ch. 6, and of Farinhas, Martins and Aguiar (2021).
    """
    picture, p = pixels("contours", image), region("contours", density, index)
    check_zeros("contours", zeros)
    heights = _heights(levels)
    surface = field(p)
    last = end("contours", vmax, peak(p, surface))
    new, ax = ax is None, axes_or_new(ax, picture.shape[0] / picture.shape[1])
    lay(ax, dim(picture))
    painted = paint(ax, surface, last, "bilinear")
    if key:
        colour_bar(ax, painted, LABEL, ticks(last))
    found = mark(ax, p.contains, zeros)
    single = p.ellipses if len(p.weights) == 1 else None
    if single is not None:
        levels_drawn = _ring(ax, trace_rings(single, _radii(single, heights)), _THIN, zorder=2)
    else:
        levels_drawn = _trace(ax, surface, [h for h in heights if h < surface.max()], _THIN)
    edges = 0
    if p.ellipses is not None:
        for arc in p.borders():
            edges += 1
            look: dict[str, Any] = {"solid_capstyle": "round", "path_effects": halo(THICK), "zorder": 3}
            ax.plot(*arc.T.numpy(), color=INK, linewidth=THICK, **look)
    elif not p.contains(_places(len(surface))).all():
        edges = _trace(ax, surface, [1e-9 * surface.max().item()], THICK)
    found += [Mark("edge", ENDS)] if edges else []
    found += [Mark("rings", _level_text(heights))] if levels_drawn else []
    found += _means(ax, p)
    return finish(ax, title, found, key=key, grow=new)


def _level_text(heights: Sequence[float]) -> str:
    shown = ", ".join(f"{height:g}" for height in heights[:3])
    return f"equal density: {shown}{', ...' if len(heights) > 3 else ''}"


def field(p: Region) -> Tensor:
    """Return the density at the centres of a lattice over the unit square, ``[S, S]``."""
    size = _COARSE if p.ellipses is None else _LATTICE
    return p.prob(_places(size)).reshape(size, size)


def peak(p: Region, surface: Tensor) -> float:
    """Return the largest density known: a narrow peak may lie between the points of the lattice."""
    return max(surface.max().item(), p.prob(p.means).max().item())


def _places(size: int) -> Tensor:
    return grid_positions((size, size), dtype=torch.float64)


def _heights(levels: Sequence[float]) -> list[float]:
    if not all(is_number(level) and 0 < level < math.inf for level in levels):
        raise ValueError(f"contours: levels must be finite numbers > 0, got {tuple(levels)}")
    return sorted({float(level) for level in levels})


def _radii(p: BetaGaussian, heights: Sequence[float]) -> Tensor:
    r"""Mahalanobis' distances ``[*, M]`` at which the density has these heights; inf where it is nowhere as high.

    From :math:`h = p(\mu) \, [1 - e q / 2c]^{1/e}`: the squared distance is :math:`q = 2c \, (1 - (h / p(\mu))^e) / e`.
    """
    e = torch.as_tensor(p.alpha, dtype=torch.float64).unsqueeze(-1) - 1
    fall = torch.tensor(heights, dtype=torch.float64).log() - p.log_peak.unsqueeze(-1)
    q = -2 * p.dilation.unsqueeze(-1) * fall * phi(e * fall)
    return torch.where(fall < 0, q, math.inf).sqrt()


def _ring(ax: Axes, curves: Tensor, width: float, **look: Any) -> int:
    """Draw closed lines through points ``[M, 2]``; returns how many."""
    for curve in curves:
        path_effects = halo(width)
        ax.fill(*curve.T.numpy(), fill=False, edgecolor=INK, linewidth=width, path_effects=path_effects, **look)
    return len(curves)


def _trace(ax: Axes, surface: Tensor, heights: Sequence[float], width: float) -> int:
    """Draw level lines read off the lattice, for densities whose lines have no formula; returns how many levels."""
    if heights:
        x, y = (c.reshape(surface.shape).numpy() for c in _places(len(surface)).unbind(-1))
        drawn = ax.contour(x, y, surface.numpy(), levels=list(heights), colors=INK, linewidths=width, zorder=2)
        drawn.set(path_effects=halo(width))
    return len(heights)


def _means(ax: Axes, p: Region) -> list[Mark]:
    """Draw a dot for each part, and for one of several its ellipse and its weight; returns the marks drawn."""
    from matplotlib import patheffects

    several = len(p.weights) > 1
    found = [Mark("mean", PART if several else MEAN)]
    if several and p.ellipses is not None:
        found.insert(0, Mark("dashes", HALF))
        _ring(ax, trace_rings(p.ellipses, mass_radii(p.ellipses, _HALF)), 1.1, linestyle=(0, (3, 1.6)), zorder=3)
    ax.plot(*p.means.T.numpy(), "o", ms=5, mfc=INK, mec="white", mew=1, zorder=5)
    middle = (p.weights @ p.means)[0] / p.weights.sum()
    for weight, (x, y) in zip(p.weights.tolist(), p.means.tolist(), strict=True) if several else ():
        if 0 <= x <= 1 and 0 <= y <= 1:
            # Away from the others, unless there is no room.
            side = 1 if x < 0.2 or middle <= x <= 0.8 else -1
            halo = [patheffects.withStroke(linewidth=2.2, foreground="white", alpha=0.9)]
            text = f"{weight:.2f}" if weight >= 0.005 else "<0.01"
            look: dict[str, Any] = {"ha": "left" if side > 0 else "right", "va": "center", "color": INK}
            place: dict[str, Any] = {"xytext": (5 * side, 0), "textcoords": "offset points"}
            look |= {"fontsize": 8, "fontweight": "bold", "path_effects": halo, "zorder": 6}
            ax.annotate(text, (x, y), **place, **look)
    inside = ((p.means >= 0) & (p.means <= 1)).all(-1)
    return found if bool(inside.any()) else found[:-1]
