"""One question about one picture: the record that every dataset yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from omegamax._arguments import check_choice, check_type

KINDS = ("yes/no", "number", "other")  # in a batch: 0, 1, 2
REGIONS = ("one", "several", "odd")


@dataclass(frozen=True, eq=False)
class Sample:
    """A picture (or its features, on a grid or of regions), a question about it and the answers that people would give.

    Args:
        question: as asked; :class:`~omegamax.data.Vocabulary` cuts it into words.
        answers: score in [0, 1] of each accepted answer; empty where the answers are not public.
        kind: ``"yes/no"``, ``"number"`` or ``"other"``.
        id: names the sample in error messages and results.
        image: ``[3, H, W]``, uint8, or floating in [0, 1]. Either this or ``features``.
        features: ``[h, w, D]``, floating: one vector for each cell of a grid laid over the picture.
            With ``boxes``, one for each of L regions: ``[1, L, D]``.
        relevance: ``[H, W]``, non-negative: how much each place matters for this question, at any resolution and scale
            (rows from top to bottom over the whole picture). All zero: nowhere in particular. None: not known.
        region: what the question looks at: ``"one"`` object, ``"several"`` far apart, one of ``"odd"`` shape; or None.
        pictures: names, without ending, that the file of its picture may have, the likeliest first; see
            :meth:`omegamax.data.pictures.Pictures.find`. Empty: it has none.
        boxes: ``[L, 4]``, floating, of the regions that features are of: x1 < x2 and y1 < y2, x1, y1, x2, y2 in [0, 1],
            parts of the picture's width and height, x to the right and y down. They may overlap.

    >>> sample = Sample("Is it red?", {"yes": 1.0}, "yes/no", "train-7", image=torch.zeros(3, 8, 8))
    >>> sample.answer
    'yes'
    """

    question: str
    answers: Mapping[str, float]
    kind: str
    id: str
    image: Tensor | None = field(default=None, repr=False)
    features: Tensor | None = field(default=None, repr=False)
    relevance: Tensor | None = field(default=None, repr=False)
    region: str | None = None
    pictures: tuple[str, ...] = ()
    boxes: Tensor | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_type(self._name, "question", self.question, str)
        if not self.question.strip():
            raise ValueError(f"{self._name}: question is empty")
        check_choice(self._name, "kind", self.kind, KINDS)
        if self.region is not None and self.region not in REGIONS:
            names = ", ".join(map(repr, REGIONS))
            raise ValueError(f"{self._name}: region must be one of {names} or None, got {self.region!r}")
        if not isinstance(self.answers, Mapping):
            given = type(self.answers).__name__
            raise TypeError(f"{self._name}: answers must map each answer to its score, got {given}")
        for answer, score in self.answers.items():
            if not 0 <= score <= 1:
                raise ValueError(f"{self._name}: the score of answer {answer!r} must lie in [0, 1], got {score}")
        if (self.image is None) == (self.features is None):
            given = "neither" if self.image is None else "both"
            raise ValueError(f"{self._name}: give either image or features, got {given}")
        if self.image is not None:
            self._check("image", self.image, 3, "[3, H, W]")
            if self.image.shape[0] != 3:
                raise ValueError(f"{self._name}: image must be [3, H, W], got shape {tuple(self.image.shape)}")
            if not (self.image.dtype == torch.uint8 or self.image.is_floating_point()):
                raise TypeError(f"{self._name}: image must be uint8 or floating, got dtype {self.image.dtype}")
        if self.features is not None:
            self._check("features", self.features, 3, "[h, w, D]")
            if not self.features.is_floating_point():
                raise TypeError(f"{self._name}: features must be floating, got dtype {self.features.dtype}")
        if self.boxes is not None:
            self._check_boxes(self.boxes)
        if self.relevance is not None:
            self._check("relevance", self.relevance, 2, "[H, W]")
            if not bool(((self.relevance >= 0) & (self.relevance < torch.inf)).all()):
                raise ValueError(f"{self._name}: relevance must be >= 0 and finite everywhere")

    @property
    def answer(self) -> str | None:
        """Return the answer with the highest score (the first of several), None if there are none."""
        return max(self.answers, key=lambda a: self.answers[a]) if self.answers else None

    @property
    def _name(self) -> str:
        return f"sample {self.id!r}"

    def _check_boxes(self, boxes: Tensor) -> None:
        self._check("boxes", boxes, 2, "[L, 4]")
        if not boxes.is_floating_point():
            raise TypeError(f"{self._name}: boxes must be floating, got dtype {boxes.dtype}")
        cells = None if self.features is None else tuple(self.features.shape[:2])
        if boxes.shape[1] != 4 or cells != (1, len(boxes)):
            given = "none" if self.features is None else tuple(self.features.shape)
            wanted = "[L, 4] for features [1, L, D]"
            raise ValueError(f"{self._name}: boxes must be {wanted}, got shapes {tuple(boxes.shape)} and {given}")
        inside = ((boxes >= 0) & (boxes <= 1)).all(-1)
        right = inside & (boxes[:, :2] < boxes[:, 2:]).all(-1)
        if not bool(right.all()):
            row = int((~right).nonzero()[0])
            wanted = "0 <= x1 < x2 <= 1 and 0 <= y1 < y2 <= 1"
            raise ValueError(f"{self._name}: boxes[{row}] must have {wanted}, got {boxes[row].tolist()}")

    def _check(self, argument: str, value: Tensor, rank: int, wanted: str) -> None:
        check_type(self._name, argument, value, Tensor, "a torch.Tensor")
        if value.dim() != rank or 0 in value.shape:
            raise ValueError(f"{self._name}: {argument} must be {wanted}, got shape {tuple(value.shape)}")
