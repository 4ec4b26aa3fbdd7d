"""The form in which sentences are read: letters lower-cased or not, characters written in one way."""

from __future__ import annotations

import unicodedata
from dataclasses import asdict, dataclass
from typing import Any

from omegamax._arguments import check_choice

NORMAL_FORMS = ("none", "NFC", "NFKC")
# What typography writes in several ways, and keyboards in one.
_PUNCTUATION = str.maketrans(
    {
        "\u201c": '"',
        "\u201d": '"',
        "\u201e": '"',
        "\u00ab": '"',
        "\u00bb": '"',
        "\u2018": "'",
        "\u2019": "'",
        "\u201a": "'",
        "\u2013": "-",
        "\u2014": "-",
        "\u2026": "...",
    }
)


@dataclass(frozen=True)
class TextForm:
    """What is done to a sentence before it is cut into subwords.

    Args:
        lowercase: whether letters are lower-cased.
        normalise: ``"none"``, ``"NFC"`` or ``"NFKC"``, the normal form of Unicode.
        punctuation: whether quotation marks, dashes and dots are written as keyboards have them.

    White space of any kind becomes one blank, and none stands at the ends.

    >>> TextForm(lowercase=True, punctuation=True)(" „Ein  Hund“ ")
    '"ein hund"'
    """

    lowercase: bool = False
    normalise: str = "NFC"
    punctuation: bool = False

    def __post_init__(self) -> None:
        check_choice("TextForm", "normalise", self.normalise, NORMAL_FORMS)

    def __call__(self, text: str) -> str:
        if self.normalise != "none":
            text = unicodedata.normalize(self.normalise, text)  # type: ignore[arg-type]
        if self.punctuation:
            text = text.translate(_PUNCTUATION)
        return " ".join((text.lower() if self.lowercase else text).split())

    @property
    def label(self) -> str:
        """Return the form in words, to stand beside a score.

        >>> TextForm(lowercase=True).label
        'lower-cased, NFC'
        """
        parts = ["lower-cased" if self.lowercase else "cased"]
        parts += [] if self.normalise == "none" else [self.normalise]
        return ", ".join(parts + (["plain punctuation"] if self.punctuation else []))

    def to_dict(self) -> dict[str, Any]:
        """Return plain words and truth values."""
        return asdict(self)
