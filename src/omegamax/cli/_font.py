"""Fonts for questions in any script."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def letters_of(text: str) -> Iterator[None]:
    """Draw with fonts that have the letters of ``text``; say so once if no installed font has some of them."""
    import matplotlib
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    missing = {letter for letter in text if not letter.isspace()} - _letters(findfont(FontProperties()))
    families = list(matplotlib.rcParams["font.family"])
    if missing:  # else most fonts of a machine need not be opened
        for font in fontManager.ttflist:
            found = missing & _letters(font.fname)
            if found:
                families.append(font.name)
                missing -= found
            if not missing:
                break
    if missing:
        letters = "".join(sorted(missing))
        print(f"no installed font has {letters}: drawn as boxes; install one, such as Noto Sans", file=sys.stderr)
    with warnings.catch_warnings(), matplotlib.rc_context({"font.family": families}):
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        yield


def _letters(path: str) -> set[str]:
    """The letters that the font in a file has."""
    from matplotlib.font_manager import get_font

    try:
        return set(map(chr, get_font(path).get_charmap()))
    except (OSError, RuntimeError):  # a file that is gone, or damaged, has none
        return set()
