"""What a network made of each text: whether it told the class, and which texts are worth a look for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

DISAGREE, WRONG = "networks disagree", "all wrong"
_PARTS = 6  # classes that have columns of their own


class TextOutcomes:
    """What one network made of the texts of a split, in the order of its batches.

    Attributes:
        ids: of the texts.
        right: which were told rightly, ``[N]``, 1 or 0.
        labels: indices of their classes, ``[N]``.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.right, self.labels = torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.int64)

    def update(self, choice: Tensor, batch: Mapping[str, Any]) -> None:
        """Add a batch, with the indices ``[B]`` of the classes that were told."""
        self.ids += batch["id"]
        label = batch["label"].cpu()
        self.right = torch.cat([self.right, (choice.cpu() == label).double()])
        self.labels = torch.cat([self.labels, label])

    def accuracy(self, classes: tuple[str, ...]) -> dict[str, float | None]:
        """Return the share told rightly of all texts and, where there are few classes, of those of each."""
        found: dict[str, float | None] = {"overall": float(self.right.mean())}
        if len(classes) <= _PARTS and "overall" not in classes:
            for index, name in enumerate(classes):
                own = self.right[self.labels == index]
                found[name] = float(own.mean()) if len(own) else None
        return found


def pick_texts(outcomes: Mapping[str, TextOutcomes], order: Sequence[str], each: int) -> dict[str, str]:
    """Pick the first ``each`` texts on which networks disagree, and as many that all get wrong; themes by id.

    Args:
        order: ids of all texts as they come in the set; batches have them by length.

    >>> one, other = TextOutcomes(), TextOutcomes()
    >>> batch = {"id": ["a", "b", "c"], "label": torch.tensor([0, 1, 1])}
    >>> one.update(torch.tensor([0, 1, 0]), batch)
    >>> other.update(torch.tensor([1, 1, 0]), batch)
    >>> pick_texts({"one": one, "other": other}, ["c", "b", "a"], 3)
    {'a': 'networks disagree', 'c': 'all wrong'}
    """
    known = list(outcomes.values())
    right = torch.stack([outcome.right for outcome in known]).bool()
    some, every = right.any(0), right.all(0)
    found: dict[str, str] = {}
    for theme, chosen in ((DISAGREE, some & ~every), (WRONG, ~some)):
        names = {known[0].ids[place] for place in torch.nonzero(chosen).flatten().tolist()}
        found |= dict.fromkeys([name for name in order if name in names][:each], theme)
    return found
