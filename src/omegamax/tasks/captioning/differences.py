"""Differences between the measures of networks on the same photographs, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torchmetrics.text import BLEUScore

from omegamax.data.vocabulary import tokenise
from omegamax.metrics import jensen_shannon, rep_score, zero_area
from omegamax.tasks.bootstrap import Interval, draw_counts, take_middle
from omegamax.tasks.captioning.predictions import CaptionPrediction, CaptionPredictions

DRAWS = 2000


@dataclass(frozen=True)
class SummedMeasure:
    """A measure of a set that is a function of sums over its photographs.

    Args:
        count: the terms ``[K]`` of a photograph; None where it has nothing to measure.
        score: from sums ``[*, K]`` to the measure ``[*]``; NaN where there is nothing.
    """

    count: Callable[[CaptionPrediction], Tensor | None]
    score: Callable[[Tensor], Tensor]


def count_bleu(said: CaptionPrediction) -> Tensor | None:
    """Return n-grams that were found, n-grams, length and length of the nearest reference, ``[10]``; n from 1 to 4."""
    if not said.references:
        return None
    metric = BLEUScore(4)
    metric.update([" ".join(said.tokens)], [[" ".join(tokenise(text)) for text in said.references]])
    sizes = torch.stack([metric.preds_len, metric.target_len])
    return torch.cat([metric.numerator, metric.denominator, sizes]).double()


def score_bleu(sums: Tensor) -> Tensor:
    r"""Return BLEU-4 from such sums: :math:`\min(1, e^{1 - r / c}) (\prod_n m_n / t_n)^{1/4}`; 0 without a match."""
    found, there, said, known = sums[..., :4], sums[..., 4:8], sums[..., 8], sums[..., 9]
    logs = (found / there.clamp(min=1)).log().mean(-1)  # -inf where some n has no match
    return torch.exp(logs + (1 - known / said.clamp(min=1)).clamp(max=0))


def _count_rep(said: CaptionPrediction) -> Tensor | None:
    if not said.references:
        return None
    known = [tokenise(text) for text in said.references]
    words = sum(map(len, known))
    return torch.tensor([float(rep_score([said.tokens], [known])) * words, words], dtype=torch.float64)


def _count_zero(said: CaptionPrediction) -> Tensor | None:
    return None if said.maps is None or not len(said.maps) else _total(zero_area(said.maps, dim=(-2, -1)))


def _count_divergence(said: CaptionPrediction) -> Tensor | None:
    if said.maps is None or len(said.maps) < 2:
        return None
    return _total(jensen_shannon(said.maps[:-1], said.maps[1:], dim=(-2, -1)))


def _count_words(said: CaptionPrediction) -> Tensor:
    return torch.tensor([float(len(said.tokens)), 1.0], dtype=torch.float64)


def _total(values: Tensor) -> Tensor:
    known = values[~values.isnan()].double()
    return torch.stack([known.sum(), known.new_tensor(len(known))])


def _mean(sums: Tensor) -> Tensor:
    return sums[..., 0] / sums[..., 1]


MEASURES = {
    "BLEU-4": SummedMeasure(count_bleu, score_bleu),
    "rep": SummedMeasure(_count_rep, _mean),
    "words": SummedMeasure(_count_words, _mean),
    "js": SummedMeasure(_count_divergence, _mean),
    "zero": SummedMeasure(_count_zero, _mean),
}


def find_differences(
    runs: Mapping[str, CaptionPredictions], draws: int = DRAWS, seed: int = 0
) -> dict[str, dict[str, Interval]]:
    """Return for each network but the first, by measure, its difference from the first and the 95 % interval.

    The interval holds the middle 95 % of the differences over ``draws`` samples of the photographs, drawn with
    replacement, the same for both networks (paired bootstrap). It tells of other photographs, not of another training.
    What a network has nothing of, or the first has not, is left out.

    Args:
        runs: captions of the same photographs, by the names of the networks.
        draws: samples.
        seed: of the draws.

    Reference: Koehn, "Statistical significance tests for machine translation evaluation" (EMNLP 2004).
    """
    first, *others = runs
    images = list(runs[first].images)
    if not others or not images:
        return {name: {} for name in others}
    times = draw_counts(len(images), draws, seed)
    found: dict[str, dict[str, Interval]] = {name: {} for name in others}
    for measure, how in MEASURES.items():
        tables = {name: _gather(how, [each[image] for image in images]) for name, each in runs.items()}
        ahead = tables[first]
        for name in others:
            own = tables[name]
            if ahead is not None and own is not None:
                value = float(how.score(own.sum(0)) - how.score(ahead.sum(0)))
                interval = take_middle(value, how.score(times @ own) - how.score(times @ ahead))
                found[name] |= {} if value != value else {measure: interval}
    return found


def _gather(how: SummedMeasure, said: list[CaptionPrediction]) -> Tensor | None:
    """Return the terms of all photographs, ``[N, K]``, 0 of those that have none; None if none has any."""
    terms = [how.count(each) for each in said]
    known = next((each for each in terms if each is not None), None)
    return None if known is None else torch.stack([torch.zeros_like(known) if each is None else each for each in terms])
