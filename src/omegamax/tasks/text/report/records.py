"""What a page about texts shows: rows of a table, texts, and which words each network looked at. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegamax.tasks.report.comparison import PageComparison
from omegamax.tasks.report.records import plain_number, set_field, settle_row


@dataclass(frozen=True)
class TextRow:
    """One network of the table. A number that is not finite counts as not known: it is kept as None.

    Args:
        name, kind, accuracy, parameters, step_ms, curve, difference: as in
            :class:`~omegamax.tasks.report.records.ModelRow`; the parts of the accuracy are the classes.
        zero: share of the words with exactly no attention; of pairs, of the pairs of words that are not aligned.
        inside: share of the attention on marked words.
        token_f1: F1 score of the words with any attention, or of a rationale, against those marked.

    >>> TextRow("softmax", "softmax", {"overall": 0.6}, 1000, zero=float("nan")).zero is None
    True
    """

    name: str
    kind: str
    accuracy: dict[str, float | None]
    parameters: int
    step_ms: float | None = None
    zero: float | None = None
    inside: float | None = None
    token_f1: float | None = None
    curve: list[dict[str, float | None]] = field(default_factory=list)
    difference: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        settle_row(self, ("step_ms", "zero", "inside", "token_f1"))


@dataclass(frozen=True)
class WordLook:
    """Which class a network gave to a text, and which words it looked at.

    Args:
        answers: the likeliest classes first, each with its probability.
        weights: the attention of each word.
        empty: which words have exactly none.
        bars: weights of the words, where the network has some; None for a density alone.
        density: at ``points`` steps of each word and at the end of the last, the peak being 1; None without one.
        points: steps of the density in a word.
        right: whether the class is; None where that is not known.
    """

    answers: list[tuple[str, float]]
    weights: list[float]
    empty: list[bool]
    bars: list[float] | None = None
    density: list[float] | None = None
    points: int = 0
    right: bool | None = None

    def __post_init__(self) -> None:
        _settle_answers(self)
        _check_lengths(self, "empty", self.empty, len(self.weights))
        if self.bars is not None:
            _check_lengths(self, "bars", self.bars, len(self.weights))
        if self.density is not None:
            _check_lengths(self, "density", self.density, len(self.weights) * self.points + 1)

    @property
    def size(self) -> tuple[int, ...]:
        """Return how many words it is a look at."""
        return (len(self.weights),)


@dataclass(frozen=True)
class PairLook:
    """Which class a network gave to two sentences, and which words it compared.

    Args:
        answers, right: as in :class:`WordLook`.
        onward: n rows of m numbers, what each word of the first sentence was compared with; 0 is exactly 0.
        back: the same for each word of the second, transposed: also n rows of m.
        mutual: whether both are the same, as in a matching.
    """

    answers: list[tuple[str, float]]
    onward: list[list[float]]
    back: list[list[float]]
    mutual: bool = False
    right: bool | None = None

    def __post_init__(self) -> None:
        _settle_answers(self)
        for row in (*self.onward, *self.back):
            _check_lengths(self, "a row", row, len(self.onward[0]))
        _check_lengths(self, "back", self.back, len(self.onward))

    @property
    def size(self) -> tuple[int, ...]:
        """Return how many words of each sentence it is a look at."""
        return len(self.onward), len(self.onward[0])


@dataclass(frozen=True)
class TextExample:
    """A text or a pair, with the look of every network by the name of its row.

    Args:
        id: names the example, also in a link to it.
        words: as they are written.
        label: its class; None where it is not known.
        looks: by the name of the row.
        marks: which words are marked as those that matter; None where nobody was asked.
        second: words of the second sentence of a pair, or None.
        theme: what it was picked to show; None: it was not picked.
    """

    id: str
    words: list[str]
    label: str | None
    looks: dict[str, WordLook | PairLook]
    marks: list[bool] | None = None
    second: list[str] | None = None
    theme: str | None = None

    def __post_init__(self) -> None:
        if self.marks is not None:
            _check_lengths(self, "marks", self.marks, len(self.words))
        wanted = (len(self.words),) if self.second is None else (len(self.words), len(self.second))
        for name, look in self.looks.items():
            if look.size != wanted:
                raise ValueError(f"TextExample {self.id!r}: the look of {name!r} must be at {wanted}, got {look.size}")


class TextComparison(PageComparison[TextRow, TextExample]):
    """Everything a page about texts shows."""

    form = "omegamax text comparison 1"
    row_type, example_type = TextRow, TextExample

    @classmethod
    def read_look(cls, data: dict[str, Any]) -> WordLook | PairLook:
        """Make the look at a text, or at a pair, of what JSON has of it."""
        return PairLook(**data) if "onward" in data else WordLook(**data)


def _settle_answers(look: WordLook | PairLook) -> None:
    set_field(look, "answers", [(str(answer), plain_number(p)) for answer, p in look.answers])


def _check_lengths(record: object, name: str, given: list[Any], wanted: int) -> None:
    if len(given) != wanted:
        raise ValueError(f"{type(record).__name__}: {name} must have {wanted} entries, got {len(given)}")
