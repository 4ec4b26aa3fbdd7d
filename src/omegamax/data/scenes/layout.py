"""Where things go: at random, apart from each other, in the part of the picture that the question wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

GAP = 0.02  # between things, and to the edge; fractions of the side
FAR = 0.42  # things far apart are this far from middle to middle
_CANDIDATES, _ATTEMPTS = 32, 60
_SHRINK = 0.97


class Box(NamedTuple):
    """The part of the picture where the middle of a thing may lie."""

    top: float = 0.0
    bottom: float = 1.0
    left: float = 0.0
    right: float = 1.0


ANYWHERE = Box()


def beyond(side: str, cut: float) -> Box:
    """Return the strip of width ``cut`` at a side, named by its direction.

    >>> beyond("above", 0.3)
    Box(top=0.0, bottom=0.3, left=0.0, right=1.0)
    """
    if side == "above":
        return Box(bottom=cut)
    if side == "below":
        return Box(top=1 - cut)
    return Box(right=cut) if side == "left of" else Box(left=1 - cut)


def level(side: str, cut: float) -> Box:
    """Return the edge of the strip that :func:`beyond` returns.

    >>> level("right of", 0.25)
    Box(top=0.0, bottom=1.0, left=0.75, right=0.75)
    """
    strip = beyond(side, cut)
    if side in ("above", "left of"):
        return strip._replace(top=cut) if side == "above" else strip._replace(left=cut)
    return strip._replace(bottom=strip.top) if side == "below" else strip._replace(right=strip.left)


OPPOSITE = {"above": "below", "below": "above", "left of": "right of", "right of": "left of"}


def place(
    rng: np.random.Generator, radii: Sequence[float], boxes: Sequence[Box], far: bool = False
) -> tuple[list[tuple[float, float]], float]:
    """Return middles (y, x) of discs that do not touch, and the factor by which their radii had to shrink to fit.

    Args:
        radii: of the discs around the things.
        boxes: where their middles may lie.
        far: the second is to be far from the first.
    """
    factor = 1.0
    for _ in range(_ATTEMPTS):
        middles = _darts(rng, factor * np.asarray(radii), boxes, far)
        if middles is not None:
            return [(float(y), float(x)) for y, x in middles], factor
        factor *= _SHRINK
    raise ValueError(f"no room for {len(radii)} things in one picture: ask for fewer objects")


def _darts(rng: np.random.Generator, radii: np.ndarray, boxes: Sequence[Box], far: bool) -> np.ndarray | None:
    middles = np.empty((len(radii), 2))
    for i, (radius, box) in enumerate(zip(radii, boxes, strict=True)):
        edge = radius + GAP
        low = np.maximum((box.top, box.left), edge)
        high = np.minimum((box.bottom, box.right), 1 - edge)
        if (low > high).any():
            return None
        darts = low + (high - low) * rng.random((_CANDIDATES, 2))
        if i:
            gaps = np.sqrt(((darts[:, None] - middles[:i]) ** 2).sum(-1))
            free = (gaps >= radius + radii[:i] + GAP).all(-1)
            if far and i == 1:
                free &= gaps[:, 0] >= FAR
            first = int(free.argmax())
            if not free[first]:
                return None
        else:
            first = 0
        middles[i] = darts[first]
    return middles
