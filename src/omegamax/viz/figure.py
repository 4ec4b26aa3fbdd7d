"""Matplotlib, asked for only when something is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_WIDTH, _BAR, _TITLE = 5.6, 0.85, 0.35  # inches: of a new figure, and what a bar of colours and a title take


def pyplot() -> Any:
    """``matplotlib.pyplot``, or an error that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("omegamax.viz draws with matplotlib: pip install 'omegamax[viz]'") from error
    return plt


def axes_or_new(ax: Axes | None, ratio: float | None = None) -> Axes:
    """The axes given, or those of a new figure, for a picture of which the ``ratio`` of height to width is known."""
    if ax is not None:
        return ax
    size = None if ratio is None else (_WIDTH, (_WIDTH - _BAR) * min(max(ratio, 0.25), 2.0) + _TITLE)
    return pyplot().subplots(layout="constrained", figsize=size)[1]
