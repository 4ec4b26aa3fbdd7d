"""The works behind the maps, read from ``references.bib``."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib import resources

_ENTRY = re.compile(r"^@(\w+)\{([^,\s]+),\n(.*?)\n\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"(\w+)\s*=\s*\{(.*?)\}(?:,\n\s*|\Z)", re.DOTALL)
_LETTERS = {r"{\"a}": "ä", r"{\"o}": "ö", r"{\'a}": "á", r"{\'e}": "é", r"{\'o}": "ó", r"{\c{c}}": "ç"}


@dataclass(frozen=True)
class Publication:
    """One entry: its key, its BibTeX, and its fields as plain text."""

    key: str
    bibtex: str
    fields: dict[str, str]

    @property
    def short(self) -> str:
        """Authors and year, as one says them."""
        names = [name.split(",")[0] for name in self.fields["author"].split(" and ")]
        who = names[0] if len(names) == 1 else " & ".join(names) if len(names) == 2 else f"{names[0]} et al."
        return f"{who} ({self.fields['year']})"

    @property
    def url(self) -> str | None:
        """Return where to read it, if the entry says so."""
        if "doi" in self.fields:
            return f"https://doi.org/{self.fields['doi']}"
        return self.fields.get("url")


@functools.cache
def bibliography() -> dict[str, Publication]:
    """Read every work by key.

    >>> bibliography()["martins2016softmax"].short
    'Martins & Astudillo (2016)'
    """
    return _works(resources.files("omegamax").joinpath("references.bib").read_text(encoding="utf-8"))


def work_of(cite: str) -> Publication | None:
    r"""Return the work that a map cites: a key of ``references.bib``, or a BibTeX entry; None for a map without one.

    >>> work_of("@misc{doe2026,\n  author = {Doe, Jane},\n  year = {2026},\n}").short
    'Doe (2026)'
    """
    if not cite:
        return None
    if not cite.startswith("@"):
        return bibliography()[cite]
    works = list(_works(cite).values())
    if len(works) != 1 or not {"author", "year"} <= set(works[0].fields):
        raise ValueError(f"cite must be a key of references.bib or one BibTeX entry with author and year, got {cite!r}")
    return works[0]


def _works(text: str) -> dict[str, Publication]:
    works = {}
    for entry in _ENTRY.finditer(text):
        fields = {name: _plain(value) for name, value in _FIELD.findall(entry[3].strip().rstrip(","))}
        works[entry[2]] = Publication(entry[2], entry[0], fields)
    return works


def _plain(value: str) -> str:
    for latex, letter in _LETTERS.items():
        value = value.replace(latex, letter)
    return " ".join(value.replace("{", "").replace("}", "").split())
