"""What a page about language models shows: rows of a table, prompts, and how each goes on with them. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from omegamax.tasks.report.records import check_records, load_record, plain_number, save_record, set_field
from omegamax.tasks.report.scored_row import ScoredRow

LANGUAGE_FORMAT = "omegamax language comparison 1"


@dataclass(frozen=True)
class LanguageRow(ScoredRow):
    """One network of the table; its scores are those of :func:`~omegamax.tasks.language.report.table.columns`."""


@dataclass(frozen=True)
class WrittenText:
    """What one network wrote after a prompt.

    Args:
        pieces: of the text, a token each but for letters of several.
        sizes: how many tokens could have come at each piece.
        log_probability: of the text.
        finished: whether it ended by itself.
    """

    pieces: list[str]
    sizes: list[int]
    log_probability: float | None = None
    finished: bool = True

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.pieces):
            raise ValueError(f"WrittenText: sizes must be {len(self.pieces)}, one a piece, got {len(self.sizes)}")
        set_field(self, "log_probability", plain_number(self.log_probability))


@dataclass(frozen=True)
class LanguageExample:
    """A prompt, with what every network wrote after it by the name of its row.

    Args:
        id: names the example, also in a link to it.
        prompt: what the text begins with.
        truth: how it went on; empty where nobody knows.
        looks: texts by the name of the row.
        vocabulary: how many tokens there are.
    """

    id: str
    prompt: str
    truth: str
    looks: dict[str, list[WrittenText]]
    vocabulary: int = 1


@dataclass(frozen=True)
class LanguageComparison:
    """Everything a page shows.

    Args:
        title, about: heading and a sentence or two under it.
        rows: the networks, in the order shown.
        examples: to look at.
        settings: what the numbers depend on, name and value.
    """

    title: str
    about: str
    rows: list[LanguageRow]
    examples: list[LanguageExample] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_records("LanguageComparison", self.rows, self.examples)

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON."""
        save_record(self, LANGUAGE_FORMAT, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> LanguageComparison:
        """Read what :meth:`save` wrote."""
        return load_record(
            cls,
            LANGUAGE_FORMAT,
            path,
            rows=lambda given: [LanguageRow(**row) for row in given],
            examples=lambda given: [_example(each) for each in given],
        )


def _example(data: dict[str, Any]) -> LanguageExample:
    looks = {name: [WrittenText(**text) for text in texts] for name, texts in data["looks"].items()}
    return LanguageExample(**{**data, "looks": looks})
