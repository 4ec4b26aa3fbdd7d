"""The marks in pictures, each with what it means and a small sample of it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from omegamax._arguments import check_choice
from omegamax.viz.style import INK, LINE, MUTED

if TYPE_CHECKING:
    from matplotlib.artist import Artist

_DARK, _LIGHT = 0.9, 2.7  # widths of the two lines of a stroke of hatching, in points: one on top of the other
_PALE = "#e3e6ea"  # the ground of a sample: a dim picture
_SIZE, _DPI = (26.0, 15.0), 144  # of a sample that is a file: points, and twice the pixels of a screen


@dataclass(frozen=True)
class Mark:
    """A mark that occurs in a picture.

    Args:
        shape: how it looks, one of :data:`SHAPES`.
        text: what it means.
        colour: of the mark, where it has one of its own.
    """

    shape: str
    text: str
    colour: str = INK

    def __post_init__(self) -> None:
        check_choice("Mark", "shape", self.shape, tuple(SHAPES))


def artists(mark: Mark, width: float, height: float) -> list[Artist]:
    """Draw a sample of a mark into a box of ``width`` by ``height`` points, its lower left corner at 0."""
    return SHAPES[mark.shape](width, height, mark.colour)


def swatch(mark: Mark) -> bytes:
    """Draw a sample of a mark as a PNG file with a transparent ground.

    >>> swatch(Mark("hatch", "exactly 0"))[:4]
    b'\\x89PNG'
    """
    from matplotlib.figure import Figure
    from matplotlib.transforms import Affine2D

    width, height = _SIZE
    figure = Figure(figsize=(width / 72, height / 72), dpi=_DPI)
    figure.patch.set_alpha(0)
    for artist in artists(mark, width, height):
        artist.set_transform(Affine2D().scale(_DPI / 72))
        figure.add_artist(artist)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DPI, transparent=True)
    return file.getvalue()


def hatching(scale: float = 1.0) -> dict[str, Any]:
    """Return the look of a stroke: a dark line on a light one, so that one of them stands out from any ground.

    Args:
        scale: of the widths, below 1 where strokes are close together.
    """
    from matplotlib import patheffects

    halo = patheffects.withStroke(linewidth=scale * _LIGHT, foreground="white")
    return {"color": INK, "linewidth": scale * _DARK, "path_effects": [halo]}


def _box(width: float, height: float, **look: Any) -> Artist:
    from matplotlib.patches import Rectangle

    return Rectangle((0, 0), width, height, **{"linewidth": 0, **look})


def _ground(width: float, height: float) -> Artist:
    return _box(width, height, facecolor=_PALE)


def _line(x: Any, y: Any, **look: Any) -> Artist:
    from matplotlib.lines import Line2D

    return Line2D(x, y, **look)


def _ring(width: float, height: float, share: float, **look: Any) -> Artist:
    angle = np.linspace(0, 2 * np.pi, 80)
    x, y = width / 2 + share * width / 2 * np.cos(angle), height / 2 + share * height / 2 * np.sin(angle)
    return _line(x, y, color=INK, **look)


def _hatch(width: float, height: float, colour: str) -> list[Artist]:
    # From the upper right down to the left, as over pictures, where y points down.
    strokes = []
    for c in np.arange(3.5, width + height - 1, 6.5).tolist():
        x = [min(width, c), max(0.0, c - height)]
        strokes.append(_line(x, [height - c + end for end in x], **hatching(), solid_capstyle="butt"))
    return [_ground(width, height), *strokes]


def _white(width: float, height: float, colour: str) -> list[Artist]:
    return [_box(width, height, facecolor="white", edgecolor=MUTED, linewidth=0.6)]


def _cells(width: float, height: float, colour: str) -> list[Artist]:
    x0, x1, y0, y1 = 0.24 * width, 0.76 * width, 0.14 * height, 0.86 * height
    line = _line([x0, x1, x1, x0, x0], [y0, y0, y1, y1, y0], color=colour, linewidth=1.3)
    return [_ground(width, height), line]


def _edge(width: float, height: float, colour: str) -> list[Artist]:
    return [_ground(width, height), _ring(width, height, 0.8, linewidth=2.6)]


def _rings(width: float, height: float, colour: str) -> list[Artist]:
    return [_ground(width, height), *(_ring(width, height, share, linewidth=0.8) for share in (0.9, 0.5))]


def _dashes(width: float, height: float, colour: str) -> list[Artist]:
    return [_ground(width, height), _ring(width, height, 0.82, linewidth=1.1, linestyle=(0, (3, 1.6)))]


def _point(shape: str, ground: bool, **look: Any) -> Callable[[float, float, str], list[Artist]]:
    def draw(width: float, height: float, colour: str) -> list[Artist]:
        filled = {"markerfacecolor": "white" if look.get("hollow") else colour}
        edge = {"markeredgecolor": colour if look.get("hollow") or shape == "x" else "white"}
        size = {"markersize": look["size"], "markeredgewidth": look.get("edge", 1.0), "linestyle": "none"}
        point = _line([width / 2], [height / 2], marker=shape, **filled, **edge, **size)
        return [_ground(width, height), point] if ground else [point]

    return draw


def _stroke(width_of: float, dashes: Any = "-", ground: str | None = None) -> Callable[..., list[Artist]]:
    def draw(width: float, height: float, colour: str) -> list[Artist]:
        line = _line([0.06 * width, 0.94 * width], [height / 2] * 2, color=colour, linewidth=width_of, linestyle=dashes)
        return [line] if ground is None else [_box(width, height, facecolor=ground), line]

    return draw


def _letters(text: str, weight: str) -> Callable[[float, float, str], list[Artist]]:
    def draw(width: float, height: float, colour: str) -> list[Artist]:
        from matplotlib.text import Text

        look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 9, "fontweight": weight}
        return [Text(width / 2, height / 2, text, color=colour, **look)]

    return draw


def _patch(width: float, height: float, colour: str) -> list[Artist]:
    return [_box(width, height, facecolor=colour)]


def _several(width: float, height: float, colour: str) -> list[Artist]:
    box: Any = _box(width, height, facecolor=LINE, edgecolor=colour)
    box.set_hatch("////")
    return [box]


def _hues(width: float, height: float, colour: str) -> list[Artist]:
    """Draw bands of the colours given, separated by spaces."""
    shades = colour.split()
    drawn = []
    for k, shade in enumerate(shades):
        band: Any = _box(width / len(shades), height, facecolor=shade)
        band.set_x(k * width / len(shades))
        drawn.append(band)
    return drawn


SHAPES: dict[str, Callable[[float, float, str], list[Artist]]] = {
    "hatch": _hatch,
    "white": _white,
    "cells": _cells,
    "edge": _edge,
    "rings": _rings,
    "dashes": _dashes,
    "mean": _point("o", True, size=6),
    "hollow": _point("o", False, size=6, hollow=True, edge=1.3),
    "disc": _point("o", False, size=8),
    "dots": _point(".", False, size=6, edge=0.0),
    "cross": _point("x", False, size=6, edge=1.4),
    "arrow": _point("v", False, size=7, edge=0.0),
    "number": _letters("3", "bold"),
    "word": _letters("word", "normal"),
    "line": _stroke(1.4),
    "dashed": _stroke(0.9, (0, (3, 3))),
    "border": _stroke(1.2, ground="#9fb0bd"),
    "patch": _patch,
    "several": _several,
    "hues": _hues,
}
