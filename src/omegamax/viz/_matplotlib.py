"""Matplotlib, asked for only when something is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def pyplot() -> Any:
    """``matplotlib.pyplot``, or an error that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("omegamax.viz draws with matplotlib: pip install 'omegamax[viz]'") from error
    return plt


def axes_or_new(ax: Axes | None) -> Axes:
    """The axes given, or those of a new figure."""
    return pyplot().subplots(layout="constrained")[1] if ax is None else ax
