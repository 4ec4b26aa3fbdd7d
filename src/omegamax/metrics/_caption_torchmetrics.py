"""Measures of captions as metrics of torchmetrics: over captions, batches and processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from omegamax._arguments import check_choice, check_integer, check_number
from omegamax.metrics._captions import SCORES, TOKENISERS, caption_scores, missing_scores
from omegamax.metrics._coverage import Pairs, Tokens, count_dropped, count_repetitions
from omegamax.metrics._objects import COCO_SYNONYMS, count_mentions


class _Ratio(Metric):
    """A sum over a sum: of what counts, and of what there was to count."""

    is_differentiable = False
    full_state_update = False
    factor = 1.0

    def __init__(self, **options: Any):
        super().__init__(**options)
        # Named after the measure: a collection merges metrics whose states have the same names and values.
        self._part, self._whole = (f"{type(self).__name__}_{name}" for name in ("part", "whole"))
        for name in (self._part, self._whole):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def compute(self) -> Tensor:
        """Return the ratio; NaN if there was nothing to count."""
        return self.factor * getattr(self, self._part) / getattr(self, self._whole)

    def _add(self, part: float, whole: float) -> None:
        setattr(self, self._part, getattr(self, self._part) + part)
        setattr(self, self._whole, getattr(self, self._whole) + whole)


class RepScore(_Ratio):
    """How much texts repeat themselves, in percent of reference words, see :func:`~omegamax.metrics.rep_score`.

    ``update(candidates, references)``.

        >>> RepScore()([["a", "dog", "a", "dog"]], [["a", "dog", "runs"]])
        tensor(33.3333, dtype=torch.float64)
    """

    higher_is_better = False
    factor = 100.0

    def __init__(self, n: int = 2, lambda_1: float = 1.0, lambda_2: float = 2.0, **options: Any):
        check_integer("RepScore", "n", n, least=1)
        super().__init__(**options)
        self.n, self.lambda_1, self.lambda_2 = n, lambda_1, lambda_2

    def update(self, candidates: Sequence[Tokens], references: Sequence[Tokens] | Sequence[Sequence[Tokens]]) -> None:
        """Add texts with their references."""
        self._add(*count_repetitions(candidates, references, self.n, self.lambda_1, self.lambda_2))


class DropScore(_Ratio):
    """The share of source words that are left out, in percent, see :func:`~omegamax.metrics.drop_score`.

    ``update(alignments, references)``.

        >>> DropScore()([[(0, 0)]], [[(0, 0), (1, 1)]])
        tensor(50., dtype=torch.float64)
    """

    higher_is_better = False
    factor = 100.0

    def update(self, alignments: Sequence[Pairs], references: Sequence[Pairs]) -> None:
        """Add sources, by what their words are aligned with."""
        self._add(*count_dropped(alignments, references))


class MentionedObjects(_Ratio):
    """The share of things in images that captions mention, see :func:`~omegamax.metrics.mentioned_objects`.

    ``update(captions, objects)``.

        >>> MentionedObjects()(["a puppy"], [["dog", "couch"]])
        tensor(0.5000, dtype=torch.float64)
    """

    higher_is_better = True

    def __init__(self, synonyms: Mapping[str, Sequence[str]] = COCO_SYNONYMS, **options: Any):
        super().__init__(**options)
        self.synonyms = synonyms

    def update(self, captions: Sequence[str], objects: Sequence[Iterable[str]]) -> None:
        """Add captions, and what is in their images."""
        self._add(*count_mentions(captions, objects, self.synonyms))


class TokenRate(_Ratio):
    """Tokens written in a second: ``update(tokens, seconds)``, how many in what time.

    Over several processes it is the rate of one, as their seconds add up too.

        >>> TokenRate()(300, 2.0)
        tensor(150., dtype=torch.float64)
    """

    higher_is_better = True

    def update(self, tokens: int, seconds: float) -> None:
        """Add tokens, and the seconds that it took to write them."""
        check_integer("TokenRate", "tokens", tokens, least=0)
        self._add(tokens, check_number("TokenRate", "seconds", seconds, least=0))


class CaptionScores(Metric):
    """BLEU, METEOR, ROUGE-L, CIDEr and SPICE of all captions, see :func:`~omegamax.metrics.caption_scores`.

    ``update(candidates, references)`` takes captions and, for each, those that people wrote, as texts; a dict comes
    out. Captions are kept until then, as these are scores of a set: nothing is the mean of a batch's.

    Args:
        scores, tokeniser: as for the function.
        options: of every metric of torchmetrics, such as ``dist_sync_on_step``.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    texts: list[Tensor]
    ends: list[Tensor]
    counts: list[Tensor]

    def __init__(self, scores: Iterable[str] | None = None, tokeniser: str = "auto", **options: Any):
        name = type(self).__name__
        check_choice(name, "tokeniser", tokeniser, TOKENISERS)
        missing = missing_scores()
        for each in scores or ():
            check_choice(name, "scores", each, SCORES)
            if each in missing:
                raise ImportError(f"{name}: no {each} here: {missing[each]}")
        super().__init__(**options)
        self.scores, self.tokeniser = None if scores is None else tuple(scores), tokeniser
        # Processes exchange tensors only: bytes, the length of each text, and how many belong to an image.
        for state in ("texts", "ends", "counts"):
            self.add_state(state, [], dist_reduce_fx="cat")

    def update(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        """Add captions with those that people wrote."""
        if len(candidates) != len(references):
            name = type(self).__name__
            raise ValueError(f"{name}: wanted references for {len(candidates)} images, got {len(references)}")
        for candidate, several in zip(candidates, references, strict=True):
            texts = [text.encode("utf-8") for text in (candidate, *several)]
            self.texts.append(torch.tensor(list(b"".join(texts)), dtype=torch.uint8, device=self.device))
            self.ends.append(torch.tensor([len(text) for text in texts], device=self.device))
            self.counts.append(torch.tensor([len(texts)], device=self.device))

    def compute(self) -> dict[str, Tensor]:
        """Return the scores by name."""
        if not isinstance(self.counts, Tensor) and not self.counts:
            raise ValueError(f"{type(self).__name__}: there is no caption yet")
        data = bytes(dim_zero_cat(self.texts).tolist())
        texts, start = [], 0
        for length in dim_zero_cat(self.ends).tolist():
            texts.append(data[start : start + length].decode("utf-8"))
            start += length
        candidates, references, place = [], [], 0
        for count in dim_zero_cat(self.counts).tolist():
            candidates.append(texts[place])
            references.append(texts[place + 1 : place + count])
            place += count
        found = caption_scores(candidates, references, scores=self.scores, tokeniser=self.tokeniser)
        return {name: torch.tensor(value, dtype=torch.float64) for name, value in found.items()}
