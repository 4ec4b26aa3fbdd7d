"""One colour for each model: in the table, the curves and the panels."""

from __future__ import annotations

from collections.abc import Sequence

from omegamax.tasks.report.records import ModelRow
from omegamax.viz.style import MUTED, colour

# Kinds of attention that are no maps of the library's pictures; told apart from those and from each other.
_KINDS = {
    "tvmax": "#5f7c2b",
    "continuous_softmax": "#2176ae",
    "continuous_sparsemax": "#9a2a4c",
    "continuous_entmax": "#1b4965",
    "multimodal": "#c8691c",
    "hard_concrete": "#4a5aa8",
    "budget": "#3d7068",
}
_MORE = ("#7d5ba6", "#2a9d8f", "#c9609f", "#8a6a52", "#e09f3e", "#4a5aa8", "#3d7068", "#d1495b", "#2176ae", "#5f7c2b")
BASELINE = MUTED


def colours(rows: Sequence[ModelRow]) -> list[str]:
    """Return the colour of each row, by its kind, see :func:`choose_colours`."""
    return choose_colours([row.kind for row in rows])


def choose_colours(kinds: Sequence[str]) -> list[str]:
    """Return the colour of each kind; the second of a kind, or of a colour, takes the next that is free.

    >>> choose_colours(["softmax", "multimodal", "multimodal"])
    ['#6b7785', '#c8691c', '#7d5ba6']
    """
    wanted = [_KINDS.get(kind) or colour(kind) for kind in (kind.replace(" ", "_") for kind in kinds)]
    given: list[str] = []
    for index, first in enumerate(wanted):
        # Not one that a later row has by right.
        free = [c for c in _MORE if c not in given and c not in wanted[index:]]
        given.append(first if first not in given else free[0] if free else _MORE[index % len(_MORE)])
    return given
