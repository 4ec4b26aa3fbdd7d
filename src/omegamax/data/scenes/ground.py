"""Textured grounds: two muted tones mixed by a pattern, with a little grain."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

# Pairs of tones, RGB in [0, 1]. Little saturation, so that none passes for one of the colours of the shapes.
TONES = np.array(
    [
        [(0.93, 0.91, 0.86), (0.84, 0.81, 0.75)],  # paper
        [(0.80, 0.82, 0.84), (0.68, 0.71, 0.74)],  # mist
        [(0.62, 0.60, 0.57), (0.50, 0.48, 0.46)],  # stone
        [(0.36, 0.38, 0.42), (0.26, 0.28, 0.32)],  # slate
        [(0.24, 0.23, 0.25), (0.15, 0.15, 0.17)],  # night
        [(0.78, 0.74, 0.68), (0.66, 0.62, 0.57)],  # sand
    ],
    dtype=np.float32,
)
_GRAIN = 0.012


def _noise(rng: np.random.Generator, size: int) -> Array:
    field = np.zeros((size, size), np.float32)
    for cells, weight in ((5, 0.65), (13, 0.35)):
        knots = rng.random((cells, cells), np.float32)
        between = _interpolation(cells, size)
        field += weight * (between @ knots @ between.T)
    return np.clip(1.8 * (field - 0.5) + 0.5, 0, 1)


def _gradient(rng: np.random.Generator, size: int) -> Array:
    return np.clip(0.5 + 0.75 * _along(rng, size), 0, 1)


def _stripes(rng: np.random.Generator, size: int) -> Array:
    waves = np.sin(2 * np.pi * (rng.uniform(4, 8) * _along(rng, size) + rng.random()))
    return np.clip(0.5 + 1.5 * waves, 0, 1)


def _checker(rng: np.random.Generator, size: int) -> Array:
    tiles, shift = rng.uniform(2.5, 5), 2 * np.pi * rng.random(2)
    waves = np.sin(2 * np.pi * tiles * _places(size)[:, None] + shift.astype(np.float32))
    steps = np.clip(size / (4 * tiles) * waves, -1, 1)  # edges about a pixel or two wide
    return 0.5 + 0.5 * steps[:, 0, None] * steps[:, 1]


def _dots(rng: np.random.Generator, size: int) -> Array:
    pitch, shift = rng.uniform(6, 10), 2 * np.pi * rng.random(2)
    waves = np.cos(2 * np.pi * pitch * _places(size)[:, None] + shift.astype(np.float32))
    return np.clip(0.5 + 2 * (waves[:, 0, None] + waves[:, 1] - 0.9), 0, 1)


PATTERNS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "noise": _noise,
    "gradient": _gradient,
    "stripes": _stripes,
    "checker": _checker,
    "dots": _dots,
}
_NAMES = tuple(PATTERNS)


def ground(rng: np.random.Generator, size: int) -> Array:
    """Return a texture ``[size, size, 3]`` in [0, 1], drawn with ``rng``."""
    pattern = PATTERNS[_NAMES[rng.integers(len(_NAMES))]](rng, size)
    low, high = TONES[rng.integers(len(TONES))]
    grain = _GRAIN * rng.standard_normal((size, size), np.float32)
    return low + pattern[..., None] * (high - low) + grain[..., None]


def _along(rng: np.random.Generator, size: int) -> Array:
    """Tell how far each pixel lies in a random direction, from the middle, in widths of the picture."""
    angle = rng.uniform(0, 2 * np.pi)
    t = _places(size) - 0.5
    return np.float32(np.cos(angle)) * t + np.float32(np.sin(angle)) * t[:, None]


@lru_cache(maxsize=8)
def _places(size: int) -> Array:
    """Return the middles of the pixels of one axis, in [0, 1]."""
    places = ((np.arange(size) + 0.5) / size).astype(np.float32)
    places.setflags(write=False)
    return places


@lru_cache(maxsize=16)
def _interpolation(cells: int, size: int) -> Array:
    """Return ``[size, cells]``: linear interpolation from knots to pixels."""
    knots = np.arange(cells)[None]
    weights = np.clip(1 - np.abs(_places(size)[:, None] * (cells - 1) - knots), 0, 1).astype(np.float32)
    weights.setflags(write=False)
    return weights
