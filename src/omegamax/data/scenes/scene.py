"""A scene: coloured things on a ground, and how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omegamax.data.scenes.shapes import ODD, distance

Array = NDArray[np.float32]

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (216, 42, 46),
    "orange": (245, 136, 24),
    "yellow": (250, 216, 48),
    "green": (46, 160, 67),
    "cyan": (38, 198, 218),
    "blue": (40, 84, 214),
    "purple": (134, 58, 184),
    "pink": (246, 128, 186),
}
_PALETTE = {name: np.array(rgb, np.float32) / 255 for name, rgb in COLOURS.items()}
_SHADE = 0.35  # how dark a shadow is
_FALL = np.array([0.10, 0.06], np.float32)  # where it falls: down and to the right, in radii


@dataclass(frozen=True)
class Thing:
    """One object. Places are fractions of the picture's side: ``y`` down, ``x`` to the right.

    It lies within ``radius`` of (y, x), and no other thing reaches there.
    """

    shape: str
    colour: str
    y: float
    x: float
    radius: float
    angle: float = 0.0

    @property
    def odd(self) -> bool:
        """Tell whether an ellipse or a few square cells fit the shape badly."""
        return self.shape in ODD

    @property
    def name(self) -> str:
        """Return the name that questions use."""
        return f"{self.colour} {self.shape}"


@dataclass(frozen=True, eq=False)
class Scene:
    """Things on a ground ``[size, size, 3]`` in [0, 1]."""

    things: tuple[Thing, ...]
    ground: Array

    def draw(self) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Draw the picture ``[size, size, 3]``, and of each thing the pixels it covers ``[things, size, size]``."""
        canvas = self.ground.copy()
        size = len(canvas)
        masks = np.zeros((len(self.things), size, size), np.bool_)
        patches = [_patch(thing, size) for thing in self.things]
        for thing, (window, u, v) in zip(self.things, patches, strict=True):  # before all things: none lies in a shadow
            gap = distance(thing.shape, *_turn(thing, u - _FALL[1], v - _FALL[0]))
            canvas[window] *= 1 - _SHADE * np.clip(0.5 - 4 * gap, 0, 1)[..., None]
        for thing, mask, (window, u, v) in zip(self.things, masks, patches, strict=True):
            gap = distance(thing.shape, *_turn(thing, u, v))
            cover = np.clip(0.5 - gap * (thing.radius * size), 0, 1)  # as much as the edge leaves of each pixel
            # Light from the upper left, and a rim a little darker than the rest.
            light = 1.0 - 0.10 * (u + v) - 0.22 * np.clip(1 + gap / 0.10, 0, 1)
            paint = light[..., None] * _PALETTE[thing.colour]
            canvas[window] += cover[..., None] * (paint - canvas[window])
            mask[window] = cover >= 0.5
        return (255 * np.clip(canvas, 0, 1) + 0.5).astype(np.uint8), masks


def _patch(thing: Thing, size: int) -> tuple[tuple[slice, slice], Array, Array]:
    """Return the pixels around a thing, with their places seen from it, in radii."""
    reach = 1.3 * thing.radius  # the shadow's too
    window, places = [], []
    for middle in (thing.y, thing.x):
        first, last = max(int((middle - reach) * size), 0), min(int((middle + reach) * size) + 2, size)
        window.append(slice(first, last))
        places.append((((np.arange(first, last) + 0.5) / size - middle) / thing.radius).astype(np.float32))
    v, u = np.broadcast_arrays(places[0][:, None], places[1])
    return (window[0], window[1]), u, v


def _turn(thing: Thing, u: Array, v: Array) -> tuple[Array, Array]:
    cos, sin = np.float32(np.cos(thing.angle)), np.float32(np.sin(thing.angle))
    return cos * u + sin * v, cos * v - sin * u
