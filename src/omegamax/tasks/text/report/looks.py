"""What networks said of a text, as records of the page."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from omegamax.tasks.text.explain import TextExplanation
from omegamax.tasks.text.explain_pair import PairExplanation
from omegamax.tasks.text.report.records import PairLook, TextExample, WordLook
from omegamax.viz.words import sample_density

_POINTS, _TOTAL = 8, 2000  # of a density: most in a word, and about as many in a text


def look_at_words(said: TextExplanation, label: str | None = None) -> WordLook:
    """Return the record of a look at a text whose class is ``label``, if that is known."""
    density, points = None, 0
    if said.density is not None:
        points = max(1, min(_POINTS, _TOTAL // len(said.words)))
        p = sample_density(said.density, len(said.words), points)
        density = _numbers(p / max(float(p.max()), 1e-300))
    return WordLook(
        said.classes,
        _numbers(said.weights),
        said.empty.tolist(),
        None if said.discrete is None else _numbers(said.discrete),
        density,
        points,
        None if label is None else said.classes[0][0] == label,
    )


def look_at_pair(said: PairExplanation, label: str | None = None) -> PairLook:
    """Return the record of a look at two sentences."""
    right = None if label is None else said.classes[0][0] == label
    onward, back = ([_numbers(row) for row in each] for each in (said.onward, said.back.mT))
    return PairLook(said.classes, onward, back, said.mutual, right)


def make_example(
    id: str,
    said: Mapping[str, TextExplanation | PairExplanation],
    label: str | None = None,
    marks: tuple[float, ...] | None = None,
    theme: str | None = None,
) -> TextExample:
    """Return the record of one text or pair, of which each network has said something.

    Args:
        marks: for each word the share of people who marked it; at least half of them make a mark.
    """
    first = next(iter(said.values()))
    second = list(first.second) if isinstance(first, PairExplanation) else None
    looks = {
        name: look_at_pair(each, label) if isinstance(each, PairExplanation) else look_at_words(each, label)
        for name, each in said.items()
    }
    marked = None if marks is None else [mark >= 0.5 for mark in marks[: len(first.words)]]
    return TextExample(id, list(first.words), label, looks, marked, second, theme)


def _numbers(values: Tensor) -> list[float]:
    """Return numbers with four digits that count: what is not zero stays so."""
    return [float(f"{value:.4g}") for value in values.tolist()]
