"""Where networks look while they write: a map for each word, one network under the other."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.viz.key import draw_key, style_bar
from omegamax.viz.looks import shared_vmax
from omegamax.viz.overlay import overlay
from omegamax.viz.picture import LABEL, check_zeros, end, lay, norm, pixels, shades, ticks
from omegamax.viz.style import MUTED, families, legible, panels, pyplot, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Caption = tuple[Sequence[str], Tensor]

_WIDTH, _TITLE, _LINE = 1.35, 0.26, 0.17  # inches: of a panel, of a line above it, and of each more
_COLUMNS = 10  # panels in a row
_NAME = 13  # letters in the width of a panel


def strip(
    image: Tensor,
    captions: Mapping[str, Caption],
    *,
    columns: int = _COLUMNS,
    vmax: float | None = None,
    zeros: str | None = "white",
) -> Figure:
    """Draw captions word by word, each word over the picture with the attention it was written with.

    Each network has a row, or several where its caption is long, that begins with the picture and its name. Maps are
    drawn by :func:`overlay`, all in one colour scale: density per unit area, 1 is what attention spread evenly has.

    Args:
        image: ``[3, H, W]``, bytes or colours in [0, 1].
        captions: by the name of the network its words, and their maps ``[T, h, w]``.
        columns: most panels in a row, the first of which is the picture's; at least 2.
        vmax: the density from which on colours are the darkest; :func:`shared_vmax` of all maps by default, and at
            least 4.
        zeros: cells of weight exactly 0 are ``"white"``, hatched (``"hatch"``), or (None) left transparent.

    Reference: figures 1 and 3 of Martins et al., "Sparse and structured visual attention" (ICIP 2021).
    """
    picture = pixels("strip", image)
    check_integer("strip", "columns", columns, least=2)
    check_zeros("strip", zeros)
    _check(captions)
    maps = {f"{name} {place}": each for name, (_, some) in captions.items() for place, each in enumerate(some)}
    last = end("strip", vmax, shared_vmax(maps, least=4.0) if maps else 4.0)
    longest = max(len(words) for words, _ in captions.values())
    across = max(2, min(columns, longest + 1))
    legible(" ".join([*captions, *(word for words, _ in captions.values() for word in words)]))
    names = {name: textwrap.fill(legible(name), _NAME) for name in captions}
    rows = {name: max(1, -(-len(words) // (across - 1))) for name, (words, _) in captions.items()}
    tallest = max(name.count("\n") for name in names.values())
    ratio = min(max(picture.shape[0] / picture.shape[1], 0.25), 4.0)
    with style():
        height = _WIDTH * ratio + _TITLE + _LINE * tallest
        figure, axes = panels(across * sum(rows.values()), across, size=(_WIDTH, height))
        used: list[Axes] = []
        first = 0
        for name, (words, some) in captions.items():
            block = axes[first : first + across * rows[name]]
            first += len(block)
            lay(block[0], picture)
            block[0].set_title(names[name], parse_math=False, fontfamily=families(name), fontweight="bold", fontsize=9)
            places = [ax for place, ax in enumerate(block) if place % across]
            for ax, word, weights in zip(places, words, some, strict=False):
                overlay(image, weights, ax, vmax=last, zeros=zeros, key=False)
                ax.set_title(legible(word), parse_math=False, fontfamily=families(word), fontsize=9.5)
                used.append(ax)
            for ax in block[1:]:
                if ax not in used:
                    ax.set_axis_off()
            if not words:
                place = places[0]
                place.text(0.5, 0.5, "no words", ha="center", va="center", color=MUTED, transform=place.transAxes)
        scale = pyplot().cm.ScalarMappable(norm(last), shades())
        style_bar(figure.colorbar(scale, ax=axes, aspect=28, fraction=0.05, pad=0.008), LABEL, ticks(last))
        draw_key(figure, grow=True)
    return figure


def _check(captions: Mapping[str, Caption]) -> None:
    if not isinstance(captions, Mapping) or not captions:
        given = "none" if isinstance(captions, Mapping) else type(captions).__name__
        raise ValueError(f"strip: captions must map at least one name to words and maps, got {given}")
    for name, (words, maps) in captions.items():
        if not isinstance(maps, Tensor) or maps.dim() != 3 or len(maps) != len(words):
            shape = tuple(maps.shape) if isinstance(maps, Tensor) else type(maps).__name__
            raise ValueError(f"strip: captions[{name!r}] must have maps [{len(words)}, h, w], got {shape}")
