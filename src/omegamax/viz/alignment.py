"""Alignments between the words of two sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from omegamax.viz.heatmap import heatmap
from omegamax.viz.style import INK, families, legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST = 0.005  # less would be written as 0.00, and pass for an exact zero


def alignment(
    weights: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    numbers: bool = True,
    cmap: str = "YlGnBu",
    title: str = "",
    ax: Axes | None = None,
    key: bool = True,
) -> Axes:
    """Draw ``weights: [n, m]`` between n and m words, as a :func:`heatmap` with the words along its sides.

    What is exactly 0 is left white. Colours go from 0 to 1 whatever the largest weight is, so that pictures side by
    side can be compared.

    Args:
        rows: n words, written on the left.
        columns: m words, written on top.
        numbers: write the weights.
        key: draw a bar of the colours with numbers, and say beneath what the marks mean that occur.
    """
    if weights.shape != (len(rows), len(columns)):
        wanted, given = f"[{len(rows)}, {len(columns)}]", tuple(weights.shape)
        raise ValueError(f"alignment: weights must be {wanted} for as many rows and columns, got shape {given}")
    ax = heatmap(weights, cmap=cmap, title=title, ax=ax, key=key)
    ax.images[0].set_clim(0, 1)
    family = families("".join((*rows, *columns)))
    left, top = ([legible(word) for word in words] for words in (rows, columns))
    ax.set_yticks(range(len(rows)), left, fontfamily=family)
    ax.set_xticks(range(len(columns)), top, rotation=45, ha="left", rotation_mode="anchor", fontfamily=family)
    ax.tick_params(length=0, labelcolor=INK, labelsize=9)
    ax.tick_params(axis="x", top=False, labeltop=True, bottom=False, labelbottom=False, pad=2)
    if numbers:
        for i, row in enumerate(weights.detach().tolist()):
            for j, weight in enumerate(row):
                if weight >= _LEAST:
                    shade = "white" if weight > 0.5 else INK
                    ax.text(j, i, f"{weight:.2f}", ha="center", va="center", color=shade, fontsize=7.5)
    return ax
