"""The key of a picture: the marks that occur in it and what they mean, and its colours with numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from omegamax.viz._marks import Mark, artists
from omegamax.viz.style import INK, MUTED, families, legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAME = "omegamax key"
_POINTS = 9.0  # of the text
_HANDLE, _GAP, _LINE = 32.0, 18.0, 19.5  # points: a sample with its margin, between columns, from line to line
_LETTER = 0.53  # mean width of a letter, in heights


def marks_of(drawn: Axes | Figure) -> list[Mark]:
    """List the marks that the functions of this package drew on axes or a figure, in order, each once.

    Args:
        drawn: what they drew on; with ``key=False`` they note the marks too.
    """
    from matplotlib.axes import Axes

    axes = [drawn] if isinstance(drawn, Axes) else drawn.axes
    return list(dict.fromkeys(mark for ax in axes for record in _records(ax) for mark in record.marks))


def finish(ax: Axes, title: str, found: Sequence[Mark], *, key: bool = True, grow: bool = False) -> Axes:
    """Write the title, note the marks that occur on the axes and, for a ``key``, draw that of the whole figure.

    Args:
        grow: whether the figure may be made higher, so that the key takes nothing from the picture.
    """
    ax.set_title(legible(title), fontfamily=families(title))
    note(ax, found)
    if key:
        draw_key(ax.figure.figure, grow=grow)
    return ax


def note(ax: Axes, found: Sequence[Mark]) -> None:
    """Remember the marks of axes, as long as what is drawn there stays."""
    from matplotlib.artist import Artist

    record: Any = Artist()  # draws nothing; goes when the axes are cleared
    record.set_gid(_NAME)
    record.set_in_layout(False)
    record.marks = tuple(found)
    ax.add_artist(record)


def draw_key(figure: Figure, grow: bool = False) -> None:
    """Put the key of all axes of a figure beneath them, in the place of an earlier one.

    A figure without a layout gets the constrained one, which makes room. Where that cannot be, as on axes that were
    placed by hand, each has a key of its own within it.
    """
    before = [legend for legend in figure.legends if legend.get_gid() == _NAME]
    for old in before:
        old.remove()
    found = marks_of(figure)
    if not found:
        return
    if not make_room(figure):
        for ax in figure.axes:
            _within(ax)
        return
    columns, texts = _columns([mark.text for mark in found], 72 * figure.get_figwidth())
    look: Any = {"loc": "outside lower left", "ncols": columns, **_look(texts)}
    figure.legend(found, texts, **look).set_gid(_NAME)  # type: ignore[arg-type]
    if grow and not before:
        figure.set_figheight(figure.get_figheight() + _LINE * _height(texts, columns) / 72)


def colour_bar(ax: Axes, shown: Any, label: str, ticks: Sequence[tuple[float, str]] | None = None) -> None:
    """Put the colours of an image with numbers beside its axes; a bar that they already have goes."""
    figure = ax.figure.figure
    for image in ax.images:
        if image.colorbar is not None:
            image.colorbar.remove()
    make_room(figure)
    style_bar(ax.figure.colorbar(shown, ax=ax, fraction=0.06, pad=0.02, aspect=22), label, ticks)


def style_bar(bar: Any, label: str, ticks: Sequence[tuple[float, str]] | None = None) -> None:
    """Give a colour bar its numbers and a legible size."""
    if ticks is not None:
        bar.set_ticks([at for at, _ in ticks], labels=[text for _, text in ticks])
    bar.ax.tick_params(labelsize=_POINTS, labelcolor=INK, color=MUTED)
    bar.set_label(label.replace(" (", "\n("), color=INK, fontsize=_POINTS)  # a bar may be short
    bar.outline.set_edgecolor(MUTED)


def make_room(figure: Figure) -> bool:
    """Make the figure lay itself out with room around its axes; False where it has another way."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if figure.get_layout_engine() is None and all(ax.get_subplotspec() is not None for ax in figure.axes):
        figure.set_layout_engine("constrained")
    return isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine) and bool(figure.axes)


class _Handler:
    """Draws the sample of a mark into a legend."""

    def legend_artist(self, legend: Any, mark: Mark, fontsize: float, handlebox: Any) -> Any:
        drawn = artists(mark, handlebox.width, handlebox.height)
        for artist in drawn:
            artist.set_transform(handlebox.get_transform())
            handlebox.add_artist(artist)
        return drawn[0]


def _records(ax: Axes) -> Iterable[Any]:
    return (artist for artist in ax.artists if artist.get_gid() == _NAME)


def _look(texts: Sequence[str]) -> dict[str, Any]:
    return {
        "handler_map": {Mark: _Handler()},
        "prop": {"size": _POINTS, "family": families("".join(texts))},
        "labelcolor": INK,
        "handlelength": 2.6,
        "handleheight": 1.5,
        "handletextpad": 0.7,
        "columnspacing": 1.8,
        "labelspacing": 0.55,
        "borderaxespad": 0.6,
        "alignment": "left",
    }


def _within(ax: Axes) -> None:
    """Draw a key within axes that leave no room around them."""
    found = marks_of(ax)
    if found:
        width = ax.get_position().width * 72 * ax.figure.figure.get_figwidth()
        _, texts = _columns([mark.text for mark in found], 0.9 * width)
        look: Any = {"loc": "lower left", "frameon": True, "framealpha": 0.92, **_look(texts)}
        ax.legend(found, texts, **look).set_zorder(20)  # type: ignore[arg-type]


def _columns(texts: Sequence[str], width: float) -> tuple[int, list[str]]:
    """Tell how many columns fit into so many points, and the texts in lines that fit into one."""
    letter = _LETTER * _POINTS
    longest = _HANDLE + letter * max(map(len, texts))
    columns = min(len(texts), max(1, int((width + _GAP) / (longest + _GAP))))
    most = max(12, int((width - _HANDLE - 10) / letter))
    return columns, [textwrap.fill(legible(text), most) for text in texts]


def _height(texts: Sequence[str], columns: int) -> int:
    """Count the lines of a legend: it fills its columns one after the other."""
    rows = -(-len(texts) // columns)
    return max(sum(1 + text.count("\n") for text in texts[at : at + rows]) for at in range(0, len(texts), rows))
