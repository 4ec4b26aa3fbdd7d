"""A map of three scores, seen from above."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from omegamax.viz._marks import Mark
from omegamax.viz.key import finish
from omegamax.viz.style import INK, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The plane of scores that sum to one, in coordinates where the simplex is an upright triangle around the origin.
CORNERS = torch.tensor([[0.0, 1.0], [-math.sqrt(0.75), -0.5], [math.sqrt(0.75), -0.5]], dtype=torch.float64)
_HUES = torch.tensor([[0.82, 0.29, 0.36], [0.13, 0.46, 0.68], [0.93, 0.71, 0.25]], dtype=torch.float64)


def plane(size: int = 240, radius: float = 2.0) -> Tensor:
    """Return scores ``[size, size, 3]`` on a square of the plane through the simplex; its corners lie at distance 1.

    >>> plane(5).sum(-1).allclose(torch.ones(5, 5, dtype=torch.float64))
    True
    """
    side = torch.linspace(-radius, radius, size, dtype=torch.float64)
    xy = torch.cartesian_prod(side, side).reshape(size, size, 2).flip(-1)
    return 1 / 3 + 2 / 3 * xy @ CORNERS.T


def simplex(
    p: Tensor,
    *,
    radius: float = 2.0,
    levels: int = 0,
    regions: bool = True,
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Colour the plane by the probabilities ``p: [S, S, 3]`` that a map gives to ``plane(S, radius)``.

    Each choice has a hue, and a point mixes them by its probabilities, paler the less certain they are: flat colour is
    a flat answer. The triangle is the simplex itself, drawn in the plane of the scores.

    Args:
        levels: number of level lines of the first probability.
        regions: draw the borders of the parts where some entry sits at its lower or upper bound.
        key: say beneath what colours and lines mean.
    """
    if p.dim() != 3 or p.shape[0] != p.shape[1] or p.shape[2] != 3:
        raise ValueError(f"simplex: p must have shape [S, S, 3], got {tuple(p.shape)}")
    new, ax = ax is None, axes_or_new(ax, 1.0)
    pure = " ".join("#" + "".join(f"{round(255 * c):02x}" for c in hue) for hue in _HUES.tolist())
    found = [Mark("hues", "each choice has a hue: paler is less certain", pure), Mark("line", "the simplex")]
    p = p.detach().double().cpu()
    frame = (-radius, radius, -radius, radius)
    ax.imshow(_mix(p).numpy(), origin="lower", extent=frame, interpolation="bilinear")
    if levels:
        steps = torch.linspace(0, float(p[..., 0].max()), levels + 2)[1:-1].tolist()
        ax.contour(p[..., 0].numpy(), levels=steps, extent=frame, origin="lower", colors="white", linewidths=0.6)
        found.append(Mark("border", "equal probability of the first choice", "white"))
    borders = list(_borders(p)) if regions else []
    if borders:
        found.append(Mark("border", "beyond, some entry is exactly 0 or at its bound", "white"))
    for inside, height in borders:
        ax.contour(inside.numpy(), levels=[height], extent=frame, origin="lower", colors="white", linewidths=1.0)
    loop = torch.cat([CORNERS, CORNERS[:1]])
    ax.plot(loop[:, 0].tolist(), loop[:, 1].tolist(), color=INK, linewidth=1.3)
    ax.set_aspect("equal")
    ax.set_xlim(-radius, radius)
    ax.set_ylim(-radius, radius)
    ax.set_axis_off()
    return finish(ax, title, found, key=key, grow=new)


def _mix(p: Tensor) -> Tensor:
    """Return colours ``[S, S, 3]`` of probabilities, on the way to white as their entropy grows."""
    share = p / p.sum(-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
    doubt = torch.special.entr(share).sum(-1, keepdim=True) / math.log(3)
    hue = share @ _HUES
    return (hue + 0.75 * doubt.square() * (1 - hue)).clamp(0, 1)


def _borders(p: Tensor) -> Iterator[tuple[Tensor, float]]:
    """Return surfaces and heights whose level lines bound the parts where an entry is 0, or as large as it can be."""
    rounding = 1e-9
    top = p.max()
    for entry in p.unbind(-1):
        if (entry == 0).any() and (entry > rounding).any():
            yield entry, rounding
        # A ceiling shows as a plateau; a map without one reaches its maximum at a point only.
        plateau = (entry > top - rounding).double().mean()
        if 0.01 < plateau < 1:
            yield entry, float(top) - rounding
