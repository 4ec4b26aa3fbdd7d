"""Fonts for text in any script: one that is installed and has the glyphs, or an escape where none has."""

from __future__ import annotations

import unicodedata
import warnings
from functools import cache
from typing import Any

from omegamax.viz.style import pyplot

_PLACEHOLDER = "lastresort"  # a font of boxes with numbers that comes with matplotlib: it "has" every glyph
_warned: set[str] = set()


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
