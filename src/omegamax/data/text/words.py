"""Texts to words, as they are written: case stays, punctuation is a word of its own."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

EMPTY = "<empty>"  # stands for a text without words; no text has this word, whose brackets would be words themselves
_BREAK = re.compile(r"<br\s*/?>|_", re.IGNORECASE)


def split_words(text: str) -> list[str]:
    """Return the words of a text, with numbers and punctuation, in their order.

    Letters with their accents, and digits, make a word; so do the endings *n't*, *'s*, *'ll* and their like, decimal
    numbers, and a punctuation mark or an emoji; full stops, dashes, question and exclamation marks in a row are one. An
    underscore separates, and so does what a page writes for a new line, ``<br />``. Scripts without spaces between
    words are one word from one punctuation mark to the next.

    >>> split_words("It's great, isn't it?!<br />10.5 out of 10...")
    ['It', "'s", 'great', ',', 'is', "n't", 'it', '?!', '10.5', 'out', 'of', '10', '...']
    """
    text = _BREAK.sub(" ", unicodedata.normalize("NFC", text).replace("\u2019", "'"))
    words = _pattern(text.isascii()).findall(text)
    if "'" not in text:
        return words
    return [part for word in words for part in _split_not(word)]


def _split_not(word: str) -> tuple[str, ...]:
    """Return *is* and *n't* of *isn't*; any other word as it is."""
    return (word[:-3], word[-3:]) if len(word) > 3 and word[-3:].lower() == "n't" else (word,)


@cache
def _pattern(ascii: bool) -> re.Pattern[str]:
    """Compile the pattern of a word."""
    # Python's \\w has letters and digits, but not the accents and vowels that a script writes apart from its letters.
    marks = "" if ascii else _list_marks()
    letter = rf"[\w{marks}]"
    word = rf"{letter}+" if ascii else rf"{letter}+(?:[\u200c\u200d]{letter}+)*"  # joiners, inside of Persian words
    symbol = r"[^\w\s]" if ascii else _make_symbol(marks)
    return re.compile(
        r"\d+(?:[.,]\d+)+"  # 10.5 and 1,000
        rf"|{word}(?:'[tT](?!{letter}))?"  # isn't
        rf"|'(?:[sSmMdD]|[lL]{{2}}|[rRvV][eE])(?!{letter})"
        rf"|\.+|-+|[?!]+|{symbol}"
    )


def _make_symbol(marks: str) -> str:
    """Return the pattern of a symbol with its marks: a flag, an emoji with its tone, or several joined to one."""
    one = rf"[^\w\s][{marks}\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]*"
    return rf"[\U0001f1e6-\U0001f1ff]{{2}}|{one}(?:\u200d{one})*"


def _list_marks() -> str:
    """Return the marks of the first 65,536 characters as ranges of a pattern."""
    marks = [c for c in range(0x300, 0x10000) if unicodedata.category(chr(c)) in ("Mn", "Mc", "Me")]
    ranges: list[list[int]] = []
    for c in marks:
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    return "".join(f"\\u{low:04x}-\\u{high:04x}" for low, high in ranges)
