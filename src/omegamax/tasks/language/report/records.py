"""What a page about language models shows: rows of a table, prompts, and how each goes on with them. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omegamax.tasks.report.comparison import PageComparison
from omegamax.tasks.report.records import plain_number, set_field
from omegamax.tasks.report.scored_row import ScoredRow


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


class LanguageComparison(PageComparison[LanguageRow, LanguageExample]):
    """Everything a page about language models shows."""

    form = "omegamax language comparison 1"
    row_type, example_type = LanguageRow, LanguageExample

    @classmethod
    def read_look(cls, data: list[dict[str, Any]]) -> list[WrittenText]:
        """Make the texts of one network of what JSON has of them."""
        return [WrittenText(**text) for text in data]
