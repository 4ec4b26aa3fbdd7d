"""The look of every picture: one colour for each map, a light page, thin frames, and fonts for text in any script."""

from __future__ import annotations

import math
import unicodedata
import warnings
import zlib
from contextlib import AbstractContextManager
from functools import cache
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
_PLACEHOLDER = "lastresort"  # a font of boxes with numbers that comes with matplotlib: it "has" every glyph
_warned: set[str] = set()


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


def legible(text: str) -> str:
    r"""Replace each character that no installed font has by its escape, and invisible ones by nothing.

    Warns once for characters not met before.

    >>> legible("what is it?")
    'what is it?'
    """
    missing = _fallback(text)[1]
    if not missing:
        return text
    fresh = [c for c in dict.fromkeys(text) if c in missing and not _invisible(c) and c not in _warned]
    if fresh:
        _warned.update(fresh)
        shown = " ".join(f"U+{ord(c):04X}" for c in fresh[:5]) + (", ..." if len(fresh) > 5 else "")
        warnings.warn(
            f"omegamax.viz: no installed font has {shown}; written as escapes. A font that has them, such as one of "
            "the Noto fonts, is used as soon as it is installed.",
            stacklevel=3,
        )
    return "".join(_escape(c) if c in missing else c for c in text)


def families(text: str) -> list[str]:
    """List the font families for ``text``: those set, then the installed ones that have what those lack."""
    return [*pyplot().rcParams["font.family"], *_fallback(text)[0]]


def _fallback(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Find families with the glyphs that the one set has not; and the characters that none has."""
    return _search("".join(sorted(set(text))), tuple(pyplot().rcParams["font.family"]))


@cache
def _search(characters: str, family: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[str]]:
    from matplotlib.font_manager import FontProperties, findfont

    own = [str(findfont(FontProperties(family=list(family), weight=weight))) for weight in ("normal", "bold")]
    missing = {c for c in characters if not c.isspace() and not _have(own, c)}
    found: list[str] = []
    installed = _list_installed() if missing else {}
    while missing:
        held = {name: {c for c in missing if _have(files, c)} for name, files in installed.items()}
        # Titles are bold: a family that has such a face goes before one that has not.
        best = max(held, key=lambda name: (len(held[name]), len(installed[name])), default=None)
        if best is None or not held[best]:
            break
        found.append(best)
        missing -= held[best]
    return tuple(found), frozenset(missing)


@cache
def _list_installed() -> dict[str, list[str]]:
    """Return the upright files of each family, regular and bold ones."""
    from matplotlib.font_manager import fontManager

    files: dict[str, list[str]] = {}
    for font in sorted(fontManager.ttflist, key=lambda font: (font.name, font.fname)):
        if font.style == "normal" and not font.name.lower().replace(" ", "").startswith(_PLACEHOLDER):
            files.setdefault(font.name, []).append(font.fname)
    return files


def _have(files: list[str], character: str) -> bool:
    return all(font is not None and font.get_char_index(ord(character)) for font in map(_open, files))


@cache
def _open(file: str) -> Any:
    """Return a font to ask for its glyphs; None for a file that cannot be read."""
    from matplotlib.font_manager import get_font

    try:
        return get_font(file)
    except (RuntimeError, OSError):
        return None


def _invisible(character: str) -> bool:
    """Tell whether a character only steers its neighbours: joiners, directions, variation selectors."""
    return unicodedata.category(character) in ("Cf", "Cc") or 0xFE00 <= ord(character) <= 0xFE0F


def _escape(character: str) -> str:
    if _invisible(character):
        return ""
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"
