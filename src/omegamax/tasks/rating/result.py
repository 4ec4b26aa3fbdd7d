"""What ratings say: means with intervals, differences, and how far raters agree."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.metrics import krippendorff_alpha
from omegamax.tasks.bootstrap import Interval, draw_counts, take_middle
from omegamax.tasks.rating.answers import Ratings, Unit

DRAWS = 10_000


@dataclass(frozen=True)
class RatingRow:
    """The ratings of one network.

    Args:
        name: of the network.
        text, attention: the mean grade of its captions (or answers), and of its attention, each with its interval; NaN
            where nobody has rated any.
        text_difference, attention_difference: from the means of the first network on the same pictures; None for the
            first.
        texts, words: how many grades each mean is of.
    """

    name: str
    text: Interval
    attention: Interval
    text_difference: Interval | None
    attention_difference: Interval | None
    texts: int
    words: int


def summarise_ratings(ratings: Ratings, draws: int = DRAWS, seed: int = 0) -> list[RatingRow]:
    """Return the row of each network, as in Table 2 of the paper, with intervals.

    A mean is over all grades of all raters. Its interval holds the middle 95 % of the means of ``draws`` samples of the
    pictures, drawn with replacement with all that belongs to them (percentile bootstrap): grades of one picture are
    alike, and another set of pictures is what would change them. Raters are taken as they are. Differences are of means
    over the same samples of pictures.

    Reference: Martins et al., "Sparse and structured visual attention" (2020), Sec. 4, App. B and Table 2.
    """
    check_integer("summarise_ratings", "draws", draws, least=1)
    times = draw_counts(len(ratings.key.pictures), draws, seed)
    texts = _Means(ratings, lambda unit: unit.word is None, times)
    words = _Means(ratings, lambda unit: unit.word is not None, times)
    first = ratings.key.networks[0]
    return [
        RatingRow(
            name,
            texts.interval(name),
            words.interval(name),
            None if name == first else texts.interval(name, first),
            None if name == first else words.interval(name, first),
            texts.count(name),
            words.count(name),
        )
        for name in ratings.key.networks
    ]


def measure_agreement(ratings: Ratings) -> tuple[float, float]:
    """Return Krippendorff's alpha, ordinal, of the grades of captions (or answers), and of those of the attention."""
    return _agree(ratings, lambda unit: unit.word is None), _agree(ratings, lambda unit: unit.word is not None)


def _agree(ratings: Ratings, wanted: Callable[[Unit], bool]) -> float:
    units = [unit for unit in ratings.units if wanted(unit)]
    rows = [[grades.get(unit, math.nan) for unit in units] for grades in ratings.grades]
    return float(krippendorff_alpha(torch.tensor(rows, dtype=torch.float64).reshape(len(rows), len(units))))


class _Means:
    """The sums and numbers of grades for each network and picture, and what samples of pictures make of them."""

    def __init__(self, ratings: Ratings, wanted: Callable[[Unit], bool], times: Tensor) -> None:
        places = {picture: index for index, picture in enumerate(ratings.key.pictures)}
        self.sums = {name: torch.zeros(len(places), dtype=torch.float64) for name in ratings.key.networks}
        self.counts = {name: torch.zeros(len(places), dtype=torch.float64) for name in ratings.key.networks}
        self.times = times
        for grades in ratings.grades:
            for unit, grade in grades.items():
                if wanted(unit):
                    self.sums[unit.network][places[unit.picture]] += grade
                    self.counts[unit.network][places[unit.picture]] += 1

    def count(self, name: str) -> int:
        return int(self.counts[name].sum())

    def interval(self, name: str, first: str | None = None) -> Interval:
        """Return the mean of a network, or its difference from that of another, with its interval."""
        mean, drawn = self._mean(name)
        if first is not None:
            other, others = self._mean(first)
            mean, drawn = mean - other, drawn - others
        return take_middle(mean, drawn)  # a sample may have no picture that somebody has rated

    def _mean(self, name: str) -> tuple[float, Tensor]:
        sums, counts = self.sums[name], self.counts[name]
        return float(sums.sum() / counts.sum()), (self.times @ sums) / (self.times @ counts)
