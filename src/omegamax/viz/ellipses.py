"""Attention to regions of an image: where a density over the plane lies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from omegamax._numerics import phi
from omegamax.densities import BetaGaussian
from omegamax.viz._marks import Mark
from omegamax.viz.key import finish
from omegamax.viz.style import INK, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omegamax.densities import Density

    Frame = tuple[float, float, float, float]

_POINTS = 240
_LATTICE = 400
_THIN, THICK = 1.1, 2.6
ENDS = "end of the density: exactly 0 outside"


@torch.no_grad()
def ellipses(
    p: Density,
    *,
    image: Tensor | None = None,
    masses: Sequence[float] = (0.25, 0.5, 0.75, 0.95),
    fade: float = 0.6,
    frame: Frame = (0.0, 1.0, 0.0, 1.0),
    cmap: str = "gray",
    colour: str = INK,
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Draw level lines of densities over the plane, and a thick line where their support ends.

    Coordinates are those of :func:`omegamax.basis.grid_positions`: (x, y) in the unit square, y downwards, so that
    ``image[r, c]`` covers the cell around its position.

    Args:
        p: a density over two dimensions, or a batch of them. Elliptic ones have exact lines; others are traced on a
            lattice over the frame.
        image: what they attend to, ``[H, W, 3]`` with colours in [0, 1] or bytes, or ``[H, W]``, coloured by ``cmap``.
            It keeps its proportions.
        masses: each line encloses this much of the probability.
        fade: how far the image goes to white where every density is exactly 0.
        frame: left, right, top and bottom end of what is shown; an image fills it.
        key: say beneath what the marks mean that occur.
    """
    _check(p, image, masses)
    new, ax = ax is None, axes_or_new(ax, None if image is None else image.shape[0] / image.shape[1])
    found = []
    left, right, top, bottom = frame
    extent = (left, right, bottom, top)
    if image is not None:
        ax.imshow(_pixels(image), extent=extent, cmap=cmap)
        outside = ~p.support_contains(_lattice(p, frame)).reshape(_LATTICE, _LATTICE, -1).any(-1)
        if fade and outside.any():
            veil = torch.ones(_LATTICE, _LATTICE, 4)
            veil[..., 3] = fade * outside.cpu()
            ax.imshow(veil.numpy(), extent=extent, interpolation="bilinear")
            found.append(Mark("white", "faded to white: exactly 0"))
    if isinstance(p, BetaGaussian):
        widths = {_THIN: trace_rings(p, mass_radii(p, masses)), THICK: trace_rings(p, p.support_radius.unsqueeze(-1))}
        for width, drawn_rings in widths.items():
            for ring in drawn_rings:
                ax.fill(*ring.T.numpy(), fill=False, edgecolor=colour, linewidth=width, path_effects=halo(width))
        drawn = {width for width, rings in widths.items() if len(rings)}
    else:
        drawn = _trace(ax, p, masses, frame, colour)
    if THICK in drawn:
        found.append(Mark("edge", ENDS))
    if _THIN in drawn:
        found.append(Mark("rings", f"{', '.join(f'{100 * m:g}' for m in sorted(masses))} % of the mass inside"))
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)
    ax.set_aspect(1.0 if image is None else image.shape[0] * (right - left) / (image.shape[1] * (bottom - top)))
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(True)
    return finish(ax, title, found, key=key, grow=new)


def mass_radii(p: BetaGaussian, masses: Sequence[float]) -> Tensor:
    r"""Return Mahalanobis' distances ``[*, M]`` within which the masses lie.

    In the plane :math:`(p(t) / p(\mu))^\alpha` of the mass lies outside the ellipse through t, whatever alpha is: so
    the squared distance is :math:`q = 2c \, (1 - (1 - m)^{e / \alpha}) / e` with e = alpha - 1.
    """
    alpha = torch.as_tensor(p.alpha, dtype=torch.float64).cpu().unsqueeze(-1)
    share = torch.tensor(masses, dtype=torch.float64).neg().log1p() / alpha
    return (-2 * p.dilation.double().cpu().unsqueeze(-1) * share * phi((alpha - 1) * share)).sqrt()


def trace_rings(p: BetaGaussian, radii: Tensor) -> Tensor:
    """Return ellipses ``[K, points, 2]`` at those of the distances ``[*, M]`` that are finite."""
    angles = torch.arange(_POINTS, dtype=torch.float64) * (2 * math.pi / _POINTS)
    around = torch.stack([angles.cos(), angles.sin()], -1) @ p.scale_tril.double().cpu().mT
    rings = p.loc.double().cpu()[..., None, None, :] + radii.double().cpu()[..., None, None] * around.unsqueeze(-3)
    return rings[radii.isfinite().cpu().expand(rings.shape[:-2])]


def _trace(ax: Axes, p: Density, masses: Sequence[float], frame: Frame, colour: str) -> set[float]:
    """Draw level lines on a lattice, for densities whose lines have no formula; returns the widths drawn."""
    widths = set()
    points = _lattice(p, frame)
    surfaces = p.prob(points).double().cpu().reshape(_LATTICE, _LATTICE, -1)
    x, y = (c.numpy() for c in points.double().cpu().reshape(_LATTICE, _LATTICE, 2).unbind(-1))
    cell = (frame[1] - frame[0]) * (frame[3] - frame[2]) / _LATTICE**2
    # Asked for, not read off the surface: far tails of a Gaussian round to zero.
    supports = p.support_contains(points).cpu().reshape(_LATTICE, _LATTICE, -1)
    for surface, support in zip(surfaces.unbind(-1), supports.unbind(-1), strict=True):
        falling = surface.flatten().sort(descending=True).values
        enclosed = falling.cumsum(0) * cell
        # A mass that the frame does not hold has no line.
        levels = {falling[(enclosed < m).sum()].item() for m in masses if m < enclosed[-1]} - {0.0}
        lines = [(sorted(levels), _THIN)]
        if support.any() and not support.all():
            lines.append(([1e-9 * falling[0].item()], THICK))
        for heights, width in lines:
            if heights:
                drawn = ax.contour(x, y, surface.numpy(), levels=heights, colors=colour, linewidths=width)
                drawn.set(path_effects=halo(width))
                widths.add(width)
    return widths


def _lattice(p: Density, frame: Frame) -> Tensor:
    """Return centres of cells over the frame, row by row: ``[S, S, 1, ..., 1, 2]``, a 1 for each batch axis of p."""
    left, right, top, bottom = frame
    at = (torch.arange(_LATTICE, dtype=torch.float64) + 0.5) / _LATTICE
    x, y = left + (right - left) * at, top + (bottom - top) * at
    points = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).to(p.mean)
    return points.reshape(_LATTICE, _LATTICE, *(1 for _ in p.batch_shape), 2)


def halo(width: float) -> list[Any]:
    """Return a pale edge for a line, so that it shows on a dark image too."""
    from matplotlib import patheffects

    return [patheffects.withStroke(linewidth=width + 1.2, foreground="white", alpha=0.75)]


def _pixels(image: Tensor) -> Any:
    pixels = image.detach().cpu()
    if pixels.dim() == 3 and pixels.is_floating_point():
        pixels = pixels.double().clamp(0, 1)
    return (pixels.double() if pixels.dim() == 2 else pixels).numpy()


def _check(p: Density, image: Tensor | None, masses: Sequence[float]) -> None:
    if p.event_shape != (2,):
        raise ValueError(f"ellipses: p must be over two dimensions, got event shape {tuple(p.event_shape)}")
    if image is not None and image.dim() != 2 and (image.dim() != 3 or image.shape[2] != 3):
        raise ValueError(f"ellipses: image must be [H, W] or [H, W, 3], got shape {tuple(image.shape)}")
    if not all(0 < m < 1 for m in masses):
        raise ValueError(f"ellipses: masses must lie between 0 and 1, got {tuple(masses)}")
