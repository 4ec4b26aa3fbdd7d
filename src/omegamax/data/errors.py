"""The error about a file that cannot be used, and the text of files made fit to be shown."""

from __future__ import annotations

# Not printable to Python, yet harmless: spaces of other widths, and joiners that some scripts and emoji need.
_SPACES = frozenset("\u00a0\u1680\u202f\u205f\u3000\u200c\u200d" + "".join(map(chr, range(0x2000, 0x200B))))


class DataError(ValueError):
    """A file of a dataset that cannot be used: the message names the file, the entry and what to do.

    The message is one line, whatever characters the names of files and the texts in them have.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(str(message)))


def printable(text: str) -> str:
    r"""Return ``text`` on one line, with control characters and what turns the direction of writing as escapes.

    A terminal obeys some of them; letters, marks and symbols of any script stay.

    >>> printable("two\nlines, \x1b[31mred\x1b[0m, naïve")
    'two\\nlines, \\x1b[31mred\\x1b[0m, naïve'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _SPACES else c.encode("unicode_escape").decode() for c in text)
