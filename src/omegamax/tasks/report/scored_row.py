"""A row of a table of networks whose outputs are neither right nor wrong, but have scores."""

from __future__ import annotations

from dataclasses import dataclass, field

from omegamax.tasks.report.records import plain_number, set_field, settle_row


@dataclass(frozen=True)
class ScoredRow:
    """One network of a table. A number that is not finite counts as not known: it is kept as None.

    Args:
        name, kind, curve: as in :class:`~omegamax.tasks.report.records.ModelRow`.
        scores: numbers by name; those that are not known may be missing.
        parameters: how many the network learns; 0 where that is not known.
        accuracy, step_ms, difference: likewise as there; most such networks have none.
    """

    name: str
    kind: str
    scores: dict[str, float | None]
    parameters: int = 0
    curve: list[dict[str, float | None]] = field(default_factory=list)
    accuracy: dict[str, float | None] = field(default_factory=dict)
    step_ms: float | None = None
    difference: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        settle_row(self, ("step_ms",))
        set_field(self, "scores", {str(name): plain_number(value) for name, value in self.scores.items()})
