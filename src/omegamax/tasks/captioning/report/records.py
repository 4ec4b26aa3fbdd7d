"""What a page about captions shows: rows of a table, photographs, and where each network looked. Plain data."""

from __future__ import annotations

import math
from base64 import b64decode
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from omegamax.tasks.report.records import check_records, load_record, plain_number, save_record, set_field
from omegamax.tasks.report.scored_row import ScoredRow

CAPTION_FORMAT = "omegamax caption comparison 1"


@dataclass(frozen=True)
class CaptionRow(ScoredRow):
    """One network of the table; its scores are those of :func:`~omegamax.tasks.captioning.report.table.columns`.

    Args:
        differences: of scores from those of the first row on the same photographs, by name, each with the ends of its
            95 % interval; one that is not finite is left out.

    >>> CaptionRow("softmax", "softmax", {"BLEU-4": 0.2, "METEOR": float("nan")}).scores
    {'BLEU-4': 0.2, 'METEOR': None}
    """

    differences: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        ends = {str(name): tuple(map(float, three)) for name, three in self.differences.items()}
        known = {name: three for name, three in ends.items() if len(three) == 3 and all(map(math.isfinite, three))}
        set_field(self, "differences", known)


@dataclass(frozen=True)
class CaptionLook:
    """What one network wrote about a photograph, and where it looked for each word.

    Args:
        words: of the caption.
        size: rows and columns of the maps.
        maps: the levels of each word's map, see :func:`~omegamax.tasks.report.maps.encode_map`; empty where the maps
            were not kept.
        log_probability: of the caption.
        rep: repetitions in percent of reference words, see :func:`~omegamax.metrics.rep_score`.
        zero: share of cells with exactly no attention.
        divergence: mean Jensen-Shannon divergence, in bits, between the maps of successive words.
    """

    words: list[str]
    size: tuple[int, int] = (0, 0)
    maps: list[str] = field(default_factory=list, repr=False)
    log_probability: float | None = None
    rep: float | None = None
    zero: float | None = None
    divergence: float | None = None

    def __post_init__(self) -> None:
        set_field(self, "size", (int(self.size[0]), int(self.size[1])))
        if self.maps and len(self.maps) != len(self.words):
            raise ValueError(f"CaptionLook: wanted a map for each of {len(self.words)} words, got {len(self.maps)}")
        cells = self.size[0] * self.size[1]
        for each in self.maps:
            if len(b64decode(each)) != cells:
                raise ValueError(f"CaptionLook: a map must have {cells} cells, got {len(b64decode(each))}")
        for name in ("log_probability", "rep", "zero", "divergence"):
            set_field(self, name, plain_number(getattr(self, name)))


@dataclass(frozen=True)
class CaptionExample:
    """A photograph, with the look of every network by the name of its row.

    Args:
        id: names the example, also in a link to it.
        picture: address of the photograph in the page itself, see :func:`~omegamax.tasks.report.maps.jpeg_address`.
        references: what people wrote.
        looks: by the name of the row; a network may be missing.
        objects: names of the things in the photograph, where they are known.
        ticks: of the colour scale that the maps share, each its place from 0 to 1 and its text.
        theme: what it was picked to show; None: it was not picked.
    """

    id: str
    picture: str = field(repr=False)
    references: list[str]
    looks: dict[str, CaptionLook]
    objects: list[str] = field(default_factory=list)
    ticks: list[tuple[float, str]] = field(default_factory=list)
    theme: str | None = None

    def __post_init__(self) -> None:
        set_field(self, "ticks", [(float(place), str(text)) for place, text in self.ticks])
        if not self.picture.startswith("data:image/"):
            raise ValueError(
                f"CaptionExample {self.id!r}: picture must be an address data:image/..., in the page itself"
            )


@dataclass(frozen=True)
class CaptionComparison:
    """Everything a page shows.

    Args:
        title, about: heading and a sentence or two under it.
        rows: the networks, in the order shown.
        examples: to look at.
        settings: what the numbers depend on, name and value; the tokeniser among them.
        missing: scores that could not be had, each with the reason.
    """

    title: str
    about: str
    rows: list[CaptionRow]
    examples: list[CaptionExample] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_records("CaptionComparison", self.rows, self.examples)

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON."""
        save_record(self, CAPTION_FORMAT, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> CaptionComparison:
        """Read what :meth:`save` wrote."""
        return load_record(
            cls, CAPTION_FORMAT, path, rows=_rows, examples=lambda given: [_example(each) for each in given]
        )


def _rows(given: list[dict[str, Any]]) -> list[CaptionRow]:
    return [CaptionRow(**row) for row in given]


def _example(data: dict[str, Any]) -> CaptionExample:
    return CaptionExample(**{**data, "looks": {name: CaptionLook(**look) for name, look in data["looks"].items()}})
