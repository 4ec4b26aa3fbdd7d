"""What a page about captions shows: rows of a table, photographs, and where each network looked. Plain data."""

from __future__ import annotations

import math
from base64 import b64decode
from dataclasses import dataclass, field

from omegamax.tasks.report.comparison import PageComparison
from omegamax.tasks.report.records import plain_number, set_field
from omegamax.tasks.report.scored_row import ScoredRow


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
class CaptionComparison(PageComparison[CaptionRow, CaptionExample]):
    """Everything a page about captions shows; the tokeniser is among its settings.

    Args:
        missing: scores that could not be had, each with the reason.
    """

    form = "omegamax caption comparison 1"
    row_type, example_type, look_type = CaptionRow, CaptionExample, CaptionLook
    missing: dict[str, str] = field(default_factory=dict)
