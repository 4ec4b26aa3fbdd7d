"""What is measured of captions and of the maps they were written with."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MeanMetric
from torchmetrics.text import BLEUScore

from omegamax.data.vocabulary import tokenise
from omegamax.metrics import (
    CaptionScores,
    JensenShannon,
    MassInside,
    MentionedObjects,
    RepScore,
    TokenRate,
    ZeroArea,
    missing_scores,
)


class CaptionMeasures(torch.nn.Module):
    """Measures of a split, collected over batches and processes; ``compute()`` gives a dict.

    Of captions: ``bleu1`` and ``bleu4`` in [0, 1], over words in lower case; ``rep``, see
    :func:`~omegamax.metrics.rep_score`; ``words``, the mean length; ``objects``, the share of things marked in the
    pictures that are mentioned; ``exact``, the share of captions proven to be the likeliest there are; ``rate``, words
    written in a second. Of maps, those of the captions written: ``zero``, the share of cells without attention; ``js``,
    the mean Jensen-Shannon divergence in bits between those of one word and the next; ``inside``, of captions that
    people wrote, the attention within what each word is about. ``loss`` is that of a word. With ``full`` also all
    scores of pycocoevalcap that can be had, see :func:`~omegamax.metrics.caption_scores`. What had no example is left
    out.

    Args:
        full: whether to take these.
    """

    def __init__(self, full: bool = False) -> None:
        super().__init__()
        self.bleu1, self.bleu4 = BLEUScore(1), BLEUScore(4)
        self.rep, self.rate, self.objects = RepScore(), TokenRate(), MentionedObjects()
        settings: dict[str, Any] = {"dim": (-2, -1), "undefined": "skip"}
        self.zero, self.js, self.inside = ZeroArea(**settings), JensenShannon(**settings), MassInside(**settings)
        self.words, self.exact, self.loss = MeanMetric(), MeanMetric(), MeanMetric()
        self.full = CaptionScores() if full and len(missing_scores()) < 8 else None

    def add_captions(
        self, candidates: Sequence[Sequence[str]], references: Sequence[Sequence[str]], objects: Sequence[Sequence[str]]
    ) -> None:
        """Add the captions of a batch as lists of words, with the texts that people wrote."""
        texts = [" ".join(words) for words in candidates]
        known = [[tokenise(text) for text in several] for several in references]
        for metric in (self.bleu1, self.bleu4):
            metric.update(texts, [[" ".join(words) for words in several] for several in known])
        if self.full is not None:
            self.full.update(texts, references)
        self.rep.update(candidates, known)
        self.words.update(torch.tensor([float(len(words)) for words in candidates]).to(self.words.device))
        marked = [which for which, names in enumerate(objects) if names]
        if marked:
            self.objects.update([texts[which] for which in marked], [objects[which] for which in marked])

    def add_maps(self, maps: Sequence[Tensor]) -> None:
        """Add the maps of captions that were written, ``[T, h, w]`` each."""
        for each in maps:
            if len(each):
                self.zero.update(each)
            if len(each) > 1:
                self.js.update(each[:-1], each[1:])

    def add_regions(self, maps: Tensor, regions: Tensor) -> None:
        """Add the maps ``[B, T, h, w]`` of captions that people wrote, with the cells that each word is about."""
        known = regions.flatten(2).any(-1)
        if bool(known.any()):
            self.inside.update(maps[known], regions[known] > 0)

    def compute(self) -> dict[str, float]:
        """Return the measures over all captions so far."""
        names = ("bleu1", "bleu4", "rep", "rate", "objects", "zero", "js", "inside", "words", "exact", "loss")
        with warnings.catch_warnings():
            # A set without regions never updates some of them; every process must ask all the same.
            warnings.filterwarnings("ignore", ".*`compute`.* was called before the ``update``.*", UserWarning)
            found = {name: float(getattr(self, name).compute()) for name in names}
            if self.full is not None:
                found |= {name: float(value) for name, value in self.full.compute().items()}
        return {name: value for name, value in found.items() if not math.isnan(value)}

    def reset(self) -> None:
        """Forget all captions."""
        for metric in self.children():
            metric.reset()  # type: ignore[operator]


def gather_reasons(missing: Mapping[str, str]) -> dict[str, str]:
    """Return reasons why scores are missing once, by the names of all that are missing for them.

    >>> gather_reasons({"METEOR": "no Java", "BLEU-1": "no package", "SPICE": "no Java"})
    {'METEOR, SPICE': 'no Java', 'BLEU-1': 'no package'}
    """
    reasons: dict[str, list[str]] = {}
    for name, reason in missing.items():
        reasons.setdefault(reason, []).append(name)
    return {", ".join(names): reason for reason, names in reasons.items()}
