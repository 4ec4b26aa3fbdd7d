"""The look of every picture: one colour for each map, a light page, thin frames."""

from __future__ import annotations

import math
import zlib
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from omegamax.maps import records

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Panels = tuple[Figure, list[Axes]]

INK = "#1f2933"
MUTED = "#7b8794"
LINE = "#d9dee4"

# For names of no map, and maps without a colour of their own.
_SPARE = ("#3d7068", "#5f7c2b", "#1b4965", "#b5651d", "#9a2a4c", "#4a5aa8")

_RC: dict[str, Any] = {
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "figure.facecolor": "white",
    "font.size": 9,
    "legend.frameon": False,
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelsize": 8,
    "ytick.color": MUTED,
    "ytick.labelsize": 8,
}

_WIDTH, _BAR, _TITLE = 5.6, 0.85, 0.35  # inches: of a new figure, and what a bar of colours and a title take


def colour(name: str) -> str:
    """Return the colour of a map, the same in every picture; other names draw one of the spare colours.

    >>> colour("sparsemax")
    '#d1495b'
    """
    record = records().get(name)
    return (record.colour if record else None) or _SPARE[zlib.crc32(name.encode()) % len(_SPARE)]


def style() -> AbstractContextManager[None]:
    """Return a context to draw in, ``with style():``, for the look of the library's own pictures."""
    return pyplot().rc_context(_RC)


def panels(count: int, columns: int, *, size: tuple[float, float] = (2.6, 2.0), share: bool = False) -> Panels:
    """Make a figure of ``count`` small axes in rows of ``columns``, each ``size`` inches; axes as a flat list."""
    rows = math.ceil(count / columns)
    figure, axes = pyplot().subplots(
        rows,
        columns,
        figsize=(size[0] * columns, size[1] * rows),
        layout="constrained",
        sharex=share,
        sharey=share,
        squeeze=False,
    )
    figure.get_layout_engine().set(w_pad=0.07, h_pad=0.07)
    for empty in axes.flat[count:]:
        empty.remove()
    return figure, list(axes.flat[:count])


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``, or raise an error that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("omegamax.viz draws with matplotlib: pip install 'omegamax[viz]'") from error
    return plt


def axes_or_new(ax: Axes | None, ratio: float | None = None) -> Axes:
    """Return the axes given, or those of a new figure, for a picture of a ``ratio`` of height to width."""
    if ax is not None:
        return ax
    size = None if ratio is None else (_WIDTH, (_WIDTH - _BAR) * min(max(ratio, 0.25), 2.0) + _TITLE)
    return pyplot().subplots(layout="constrained", figsize=size)[1]
