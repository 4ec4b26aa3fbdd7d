"""IWSLT: transcripts of talks and their translations, as the evaluation campaigns distribute them."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from omegamax.data.files import DataError, FilePath, check_folder, find, number_lines
from omegamax.data.translation.pair import ParallelCorpus, SentencePair

_ID = r"\s*=\s*[\"']?([^\"'>\s]+)"
_PART = re.compile(rf"<doc\b[^>]*\bdocid{_ID}|<seg\b[^>]*\bid{_ID}[^>]*>(.*?)</seg>", re.IGNORECASE)
_BEGIN = re.compile(r"<seg\b", re.IGNORECASE)
_ENDINGS = ("", ".gz", ".xz")
Sentence = tuple[str, str]  # where it stands, and what it says


class IWSLT(ParallelCorpus):
    """TED talks of an IWSLT campaign, such as 2017's German-English, 206,000 pairs to learn from.

    ``folder`` is that of a pair of languages, ``de-en``: ``train.tags.de-en.de`` (lines that begin with ``<`` are of
    titles, keywords and the like, and are passed over), and for validation and test files such as
    ``IWSLT17.TED.tst2010.de-en.de.xml``, with a ``<seg id="...">`` a line in documents ``<doc docid="...">``. Segments
    of the two languages are matched by document and number.

    Args:
        folder: with these files, also compressed by gzip or xz.
        split: ``"train"``, ``"val"`` or ``"test"``.
        source, target: endings of the languages.
        val, test: which files are for validation and test, by what stands in their names.

    Reference: Cettolo, Girardi and Federico, "WIT3: web inventory of transcribed and translated talks" (EAMT 2012).
    """

    def __init__(
        self,
        folder: FilePath,
        split: str = "train",
        *,
        source: str = "de",
        target: str = "en",
        val: Sequence[str] = ("dev2010",),
        test: Sequence[str] = ("tst2015",),
    ) -> None:
        super().__init__(split)
        self.folder = check_folder("IWSLT", folder)
        self.names = {"train": ("train",), "val": tuple(val), "test": tuple(test)}[split]
        self._files = [
            [self._find(name, language, source, target) for language in (source, target)] for name in self.names
        ]

    def _find(self, name: str, language: str, source: str, target: str) -> Path:
        pairs = (f"{source}-{target}", f"{target}-{source}")
        if name == "train":
            return find("IWSLT", self.folder, [f"train.tags.{p}.{language}{end}" for p in pairs for end in _ENDINGS])
        there = sorted(
            path
            for path in self.folder.iterdir()
            if f".{name}." in path.name
            and any(f".{p}." in path.name for p in pairs)
            and any(path.name.endswith(f".{language}.xml{end}") for end in _ENDINGS)
        )
        if not there:
            wanted = f"IWSLT17.TED.{name}.{pairs[0]}.{language}.xml"
            raise FileNotFoundError(f"IWSLT: {self.folder} has no file such as {wanted}; put it there, or name another")
        return there[0]

    def __iter__(self) -> Iterator[SentencePair]:
        read = _read_lines if self.split == "train" else _read_segments
        for source, target in self._files:
            ours, theirs = dict(read(source)), dict(read(target))
            if ours.keys() != theirs.keys():
                only = next(iter(ours.keys() ^ theirs.keys()))
                raise DataError(f"{source} and {target} must have the same segments; only one has {only}")
            for place, text in ours.items():
                yield SentencePair(text, theirs[place], f"{source.name}:{place}")


def _read_lines(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a file for training; the n-th of one language belongs to the n-th of the other."""
    count = 0
    for _, line in number_lines(path):
        line = line.strip()
        if not line.startswith("<"):
            count += 1
            yield str(count), line


def _read_segments(path: Path) -> Iterator[Sentence]:
    """Yield the segments of an XML file, each with its document and number.

    They begin and end in one line, which is read as it is: no entity of the file's own is looked up.
    """
    document, seen = "", set()
    for number, line in number_lines(path):
        segments = 0
        for begun, segment, text in _PART.findall(line):
            document = begun or document
            if begun:
                continue
            segments += 1
            place = f"{document}:{segment}"
            if place in seen:
                raise DataError(f"{path}: line {number} has segment {place} again; get the file again")
            seen.add(place)
            yield place, " ".join(html.unescape(text).split())
        if segments < len(_BEGIN.findall(line)):
            raise DataError(f"{path}: line {number} begins a segment and does not end it; get the file again")
    if not seen:
        raise DataError(f"{path} has no <seg id=...>; get the file again")
