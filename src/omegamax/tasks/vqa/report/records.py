"""What a report shows: rows of a table, examples, and where each model looked. Plain data, no tensors."""

from __future__ import annotations

import math
from base64 import b64decode
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from omegamax.tasks.report.records import check_records, load_record, plain_number, save_record, set_field, settle_row

COMPARISON_FORMAT = "omegamax comparison 1"
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Row:
    """One model of the table. A number that is not finite counts as not known: it is kept as None.

    Args:
        name: label shown; the looks of an example refer to it.
        kind: of the attention, ``"continuous_softmax"``; it chooses the colour.
        accuracy: in [0, 1], of ``"overall"`` and of each kind of question; None where there were no such questions.
        parameters: how many the model learns.
        step_ms: milliseconds of one training step.
        divergence: Jensen-Shannon, in bits, from the attention to the relevance or human maps.
        inside: share of the attention inside the relevant region.
        zero: share of the cells with exactly no attention.
        components: how often each number of components K* was selected, for multimodal attention.
        reliability: for a density, accuracy by the area of its ellipse, from narrow to wide: points with ``"area"`` (of
            the picture), ``"accuracy"`` and ``"count"``, the number of questions.
        auc: for a density, the chance that of a right and a wrong answer the right one has the narrower ellipse.
        difference: of the accuracy from that of the first row on the same questions, and the ends of its 95 % interval.
        curve: points in order, each with ``"step"`` and any of ``"seconds"``, ``"train_loss"``, ``"val_loss"``,
            ``"val_accuracy"``.

    >>> Row("softmax", "softmax", {"overall": 0.6, "number": float("nan")}, 1000).accuracy
    {'overall': 0.6, 'number': None}
    """

    name: str
    kind: str
    accuracy: dict[str, float | None]
    parameters: int
    step_ms: float | None = None
    divergence: float | None = None
    inside: float | None = None
    zero: float | None = None
    components: dict[int, int] | None = None
    curve: list[dict[str, float | None]] = field(default_factory=list)
    reliability: list[dict[str, float]] = field(default_factory=list)
    auc: float | None = None
    difference: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        settle_row(self, ("step_ms", "divergence", "inside", "zero", "auc"))
        if self.components is not None:
            counts = {int(k): int(n) for k, n in self.components.items()}
            set_field(self, "components", dict(sorted(counts.items())))
        for point in self.reliability:
            if {"area", "accuracy", "count"} - point.keys() or not all(map(math.isfinite, point.values())):
                wanted = "'area', 'accuracy' and 'count', all finite"
                raise ValueError(f"Row {self.name!r}: every point of reliability needs {wanted}, got {point}")


@dataclass(frozen=True)
class Fit:
    """The look of a mixture with a given number of components.

    Args:
        components: how many.
        picture: PNG of the attention over the picture.
        answer: the likeliest, and ``right``, whether it counts as right; None where that is not known.
        marks: those in the picture, as in :class:`Look`.
    """

    components: int
    picture: bytes = field(repr=False)
    answer: str
    right: bool | None = None
    marks: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        set_field(self, "marks", [(str(shape), str(text)) for shape, text in self.marks])
        _check_png("Fit: picture", self.picture)


@dataclass(frozen=True)
class Look:
    """What one model answered to one example, and where it looked.

    Args:
        answers: the likeliest first, each with its probability.
        picture: PNG of the attention over the picture.
        divergence, inside: as in :class:`Row`, for this example alone.
        components: K* of multimodal attention.
        marks: those that occur in the picture, each by its shape and what it means, see :class:`omegamax.viz.Mark`;
            None: not known, and the key of the page has them all.
        right: whether the answer counts as right; None: it does if it is the example's.
        fits: looks with 1, 2, ... components beside it, of which it is the one with ``components``; of a mixture that
            selects their number.
    """

    answers: list[tuple[str, float]]
    picture: bytes = field(repr=False)
    divergence: float | None = None
    inside: float | None = None
    components: int | None = None
    right: bool | None = None
    marks: list[tuple[str, str]] | None = None
    fits: list[Fit] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.marks is not None:
            set_field(self, "marks", [(str(shape), str(text)) for shape, text in self.marks])
        set_field(self, "answers", [(str(answer), plain_number(p)) for answer, p in self.answers])
        set_field(self, "divergence", plain_number(self.divergence))
        set_field(self, "inside", plain_number(self.inside))
        _check_png("Look: picture", self.picture)


@dataclass(frozen=True)
class Example:
    """A question about a picture, with the look of every model by the name of its row.

    Args:
        id: names the example, also in a link to it.
        question, answer: as asked, and the right answer; None where it is not public.
        kind: of the question, ``"yes/no"``, ``"number"``, ``"other"``.
        region: what it looks at, ``"one"``, ``"several"``, ``"odd"``, or None.
        picture: PNG of what the models saw.
        relevance: PNG of where the answer is, or None.
        looks: by the name of the row; a model may be missing.
        ticks: of the colour scale that the looks share, each its place from 0 to 1 and its text; None: not known.
        note: what there is to say of the picture, such as that there is none; or None.
        theme: what it was picked to show, one of :data:`omegamax.tasks.vqa.outcomes.THEMES`; None: it was not picked.
    """

    id: str
    question: str
    answer: str | None
    kind: str
    region: str | None
    picture: bytes = field(repr=False)
    relevance: bytes | None = field(repr=False)
    looks: dict[str, Look]
    ticks: list[tuple[float, str]] | None = None
    note: str | None = None
    theme: str | None = None

    def __post_init__(self) -> None:
        if self.ticks is not None:
            set_field(self, "ticks", [(float(place), str(text)) for place, text in self.ticks])
        _check_png(f"Example {self.id!r}: picture", self.picture)
        if self.relevance is not None:
            _check_png(f"Example {self.id!r}: relevance", self.relevance)

    def right(self, name: str) -> bool | None:
        """Tell whether the model of row ``name`` answered rightly; None where that is not known."""
        look = self.looks.get(name)
        if look is None or look.right is not None:
            return None if look is None else look.right
        return look.answers[0][0] == self.answer if look.answers and self.answer is not None else None


@dataclass(frozen=True)
class Comparison:
    """Everything a report shows.

    Args:
        title, about: heading and a sentence or two under it.
        rows: the models, in the order shown.
        baseline: a model that saw only the question, or None.
        examples: to look at.
        settings: what the numbers depend on, name and value.
    """

    title: str
    about: str
    rows: list[Row]
    baseline: Row | None = None
    examples: list[Example] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_records("Comparison", self.rows, self.examples)

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON, the pictures as base64."""
        save_record(self, COMPARISON_FORMAT, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Comparison:
        """Read what :meth:`save` wrote."""
        return load_record(
            cls,
            COMPARISON_FORMAT,
            path,
            rows=lambda given: [Row(**row) for row in given],
            baseline=lambda given: None if given is None else Row(**given),
            examples=lambda given: [_example(each) for each in given],
        )


def _example(data: dict[str, Any]) -> Example:
    looks = {name: _look(look) for name, look in data["looks"].items()}
    relevance = None if data["relevance"] is None else b64decode(data["relevance"])
    return Example(**{**data, "picture": b64decode(data["picture"]), "relevance": relevance, "looks": looks})


def _look(data: dict[str, Any]) -> Look:
    fits = [Fit(**{**fit, "picture": b64decode(fit["picture"])}) for fit in data.get("fits", [])]
    return Look(**{**data, "picture": b64decode(data["picture"]), "fits": fits})


def _check_png(name: str, value: bytes) -> None:
    if not isinstance(value, bytes) or not value.startswith(_PNG):
        given = type(value).__name__ if not isinstance(value, bytes) else f"bytes that begin {value[:8]!r}"
        raise ValueError(f"{name} must be a PNG file as bytes, got {given}")
