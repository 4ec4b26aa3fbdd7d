"""What a page about translations shows: rows of a table, sentences, and where each network looked. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

from omegamax.tasks.report.comparison import PageComparison
from omegamax.tasks.report.records import plain_number, set_field, settle_row

_NUMBERS = ("step_ms", "gain", "p_value", "support", "exact", "complete", "empty", "repeated", "rep", "drop")


@dataclass(frozen=True)
class TranslationRow:
    """One network of the table. A number that is not finite counts as not known: it is kept as None.

    Args:
        name, kind, parameters, step_ms, curve, difference: as in :class:`~omegamax.tasks.report.records.ModelRow`;
            accuracies have no differences here, BLEU has ``gain``.
        accuracy: BLEU over 100, as ``"overall"``.
        gain: BLEU less that of the first row, in points; ``p_value``: of a paired bootstrap.
        support, exact, complete, empty, repeated, rep, drop: as
            :class:`~omegamax.tasks.translation.scores.TranslationScores` has them.
    """

    name: str
    kind: str
    accuracy: dict[str, float | None]
    parameters: int
    step_ms: float | None = None
    gain: float | None = None
    p_value: float | None = None
    support: float | None = None
    exact: float | None = None
    complete: float | None = None
    empty: float | None = None
    repeated: float | None = None
    rep: float | None = None
    drop: float | None = None
    curve: list[dict[str, float | None]] = field(default_factory=list)
    difference: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        settle_row(self, _NUMBERS)


@dataclass(frozen=True)
class TranslationLook:
    """What a network said of a sentence, and where it looked for each subword.

    Args:
        text: the translation.
        target: its subwords, the end last, n.
        weights: n rows of m numbers; 0 is exactly 0.
        support: how many tokens could have followed at each place, n.
        probability: of the translation.
        exact, complete: whether it is proven the most probable, or the only ones listed are all there are.
    """

    text: str
    target: list[str]
    weights: list[list[float]]
    support: list[int]
    probability: float | None
    exact: bool
    complete: bool

    def __post_init__(self) -> None:
        set_field(self, "probability", plain_number(self.probability))
        if not len(self.target) == len(self.weights) == len(self.support):
            given = f"{len(self.weights)} rows and {len(self.support)} counts for {len(self.target)} subwords"
            raise ValueError(f"TranslationLook: each subword needs a row of weights and a count, got {given}")


@dataclass(frozen=True)
class TranslationExample:
    """A sentence, with the look of every network by the name of its row.

    Args:
        id: names the example, also in a link to it.
        text: the sentence; ``words``: its subwords, the end last.
        reference: its translation by a person.
        looks: by the name of the row.
    """

    id: str
    text: str
    words: list[str]
    reference: str
    looks: dict[str, TranslationLook]

    def __post_init__(self) -> None:
        for name, look in self.looks.items():
            if any(len(row) != len(self.words) for row in look.weights):
                wanted = f"{len(self.words)} weights a row"
                raise ValueError(f"TranslationExample {self.id!r}: the look of {name!r} must have {wanted}")


class TranslationComparison(PageComparison[TranslationRow, TranslationExample]):
    """Everything a page about translations shows."""

    form = "omegamax translation comparison 1"
    row_type, example_type, look_type = TranslationRow, TranslationExample, TranslationLook
