"""Shapes as signed distances: negative inside, zero on the edge, in units of the radius."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Distance = Callable[[Array, Array], Array]  # of (u, v): u to the right, v down; the shape lies in the unit disc


def _circle(u: Array, v: Array) -> Array:
    return np.hypot(u, v) - 0.95


def _square(u: Array, v: Array) -> Array:
    return _box(u, v, 0.7, 0.7)


def _triangle(u: Array, v: Array) -> Array:
    return np.maximum(v, 0.8660254 * np.abs(u) - 0.5 * v) - 0.5  # three edges at the inner radius, apex up


def _star(u: Array, v: Array) -> Array:
    fifth = 2 * math.pi / 5
    # Ten mirror images of one edge: fold the plane onto the sector between a tip and the next inner corner.
    angle = np.abs((np.arctan2(u, -v) + fifth / 2) % fifth - fifth / 2)
    radius = np.hypot(u, v)
    inner = 0.45
    along, across = inner * math.cos(fifth / 2) - 1, inner * math.sin(fifth / 2)  # from the tip to that corner
    length = math.hypot(along, across)
    return ((radius * np.cos(angle) - 1) * across - radius * np.sin(angle) * along) / length


def _cross(u: Array, v: Array) -> Array:
    return np.minimum(_box(u, v, 0.92, 0.32), _box(u, v, 0.32, 0.92))


def _ring(u: Array, v: Array) -> Array:
    return np.abs(np.hypot(u, v) - 0.7) - 0.26


def _crescent(u: Array, v: Array) -> Array:
    return np.maximum(np.hypot(u, v) - 0.95, 0.78 - np.hypot(u - 0.45, v))


def _bar(u: Array, v: Array) -> Array:
    return _box(u, v, 0.96, 0.17)


def _snake(u: Array, v: Array) -> Array:
    bows = np.minimum(_bow(u - 0.38, v, 0.38), _bow(u + 0.38, -v, 0.38))
    ends = np.minimum(_line(u - 0.76, v, -0.12, 0), _line(u + 0.76, v, 0, 0.12))
    return np.minimum(bows, ends) - 0.18


def _hook(u: Array, v: Array) -> Array:
    return np.minimum(_bow(u, v - 0.2, 0.5), _line(u - 0.5, v, -0.6, 0.2)) - 0.18


# Strokes are distances from a line less half a width: their joints leave no seam, as those of filled parts would.
def _bow(u: Array, v: Array, radius: float) -> Array:
    """Return the distance from the lower half of a circle."""
    return np.where(v >= 0, np.abs(np.hypot(u, v) - radius), np.hypot(np.abs(u) - radius, v))


def _line(u: Array, v: Array, top: float, bottom: float) -> Array:
    """Return the distance from an upright line."""
    return np.hypot(u, v - np.clip(v, top, bottom))


def _box(u: Array, v: Array, width: float, height: float) -> Array:
    return np.maximum(np.abs(u) - width, np.abs(v) - height)


REGULAR: dict[str, Distance] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "star": _star,
    "cross": _cross,
    "ring": _ring,
}
ODD: dict[str, Distance] = {"crescent": _crescent, "bar": _bar, "snake": _snake, "hook": _hook}
SHAPES: tuple[str, ...] = (*REGULAR, *ODD)

# Rotations in degrees: multiples of the first number, give or take the second. A bar lies across rows and columns,
# so that no few cells of a grid hold it; a square never stands on a corner.
TURNS: dict[str, tuple[int, int]] = {
    "circle": (360, 0),
    "square": (90, 20),
    "triangle": (360, 25),
    "star": (72, 36),
    "cross": (90, 20),
    "ring": (360, 0),
    "crescent": (1, 0),
    "bar": (90, 15),
    "snake": (1, 0),
    "hook": (90, 20),
}
LEAN = {"bar": 45}  # added to the rotation


def plural(shape: str) -> str:
    """Return the plural of a shape's name.

    >>> plural("cross"), plural("star")
    ('crosses', 'stars')
    """
    return shape + ("es" if shape.endswith("s") else "s")


def distance(shape: str, u: Array, v: Array) -> Array:
    """Return the signed distance of the points (u, v) from the edge of a shape of radius one around the origin."""
    return (REGULAR.get(shape) or ODD[shape])(u, v)
