"""What a network made of each question: its answer's score, how widely it looked, and at how many places."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax.data import KINDS
from omegamax.densities import Density, Mixture
from omegamax.metrics import ConfidenceCurve, confidence_curve
from omegamax.models.mcan import Answer
from omegamax.models.mcan.numbers import PLACE, density_numbers

# Why an example is shown, beside those that are the first of their kind.
DENSITIES, WEIGHTS, WIDE, SEVERAL = "only densities right", "only weights right", "wide ellipse", "several components"
THEMES = (DENSITIES, WEIGHTS, WIDE, SEVERAL)
_RIGHT = 0.5  # score from which on an answer counts as right


@dataclass(frozen=True)
class Bin:
    """Questions with ellipses of about one area: its geometric mean, the mean accuracy, and how many there are."""

    area: float
    accuracy: float
    count: int


class Outcomes:
    """One network on the questions of a split, in their order.

    Attributes:
        scores: of the answers, ``[N]`` in [0, 1].
        kinds: of the questions, ``[N]``, numbers in :data:`~omegamax.data.KINDS`.
        areas: of the ellipses, ``[N]``, see :func:`ellipse_area`; None for weights over cells.
        components: of the mixtures, ``[N]``; None for other attention.

    >>> outcomes = Outcomes()
    >>> areas = torch.tensor([0.125, 0.5, 0.25, 0.125])
    >>> outcomes.extend(torch.tensor([1.0, 0.0, 1.0, 1.0]), torch.tensor([0, 1, 1, 2]), areas)
    >>> [(round(each.area, 3), each.accuracy, each.count) for each in outcomes.reliability(bins=2)]
    [(0.125, 1.0, 2), (0.354, 0.5, 2)]
    """

    def __init__(self) -> None:
        self.scores, self.kinds = torch.empty(0), torch.empty(0, dtype=torch.int64)
        self.areas: Tensor | None = None
        self.components: Tensor | None = None

    def update(self, answer: Answer, batch: Mapping[str, Any], maps: bool = True) -> None:
        """Add the answers to a batch of questions; without ``maps``, not where they were read from."""
        density = answer.attention.density if maps else None
        choice = answer.logits.argmax(-1, keepdim=True)
        self.extend(
            batch["answers"].gather(-1, choice).squeeze(-1),
            batch["kind"],
            None if density is None else ellipse_area(density),
            density.component_count if isinstance(density, Mixture) else None,
        )

    def extend(
        self, scores: Tensor, kinds: Tensor, areas: Tensor | None = None, components: Tensor | None = None
    ) -> None:
        """Add numbers of questions."""
        self.scores = torch.cat([self.scores, scores.float().cpu()])
        self.kinds = torch.cat([self.kinds, kinds.cpu()])
        if areas is not None:
            self.areas = areas.float().cpu() if self.areas is None else torch.cat([self.areas, areas.float().cpu()])
        if components is not None:
            before = [] if self.components is None else [self.components]
            self.components = torch.cat([*before, components.cpu()])

    @property
    def right(self) -> Tensor:
        """Return which answers count as right, bool ``[N]``."""
        return self.scores >= _RIGHT

    def confidence(self, bins: int = 8) -> ConfidenceCurve | None:
        """Return accuracy by narrowness, minus the logarithm of the area; None for weights over cells.

        Questions without an area (no cells) are left out.
        """
        known = torch.tensor(False) if self.areas is None else self.areas.isfinite() & (self.areas > 0)
        if self.areas is None or not bool(known.any()):
            return None
        return confidence_curve(-self.areas[known].log(), self.scores[known], bins)

    def reliability(self, bins: int = 8) -> list[Bin]:
        """Return accuracy by area, from narrow to wide, in bins of equal numbers; none for weights over cells.

        A density that is sure of where to look is narrow: if its area is a measure of confidence, accuracy falls with
        it. The area of a bin is the geometric mean.
        """
        curve = self.confidence(bins)
        if curve is None:
            return []
        numbers = zip((-curve.confidence).exp().tolist(), curve.accuracy.tolist(), curve.count.tolist(), strict=True)
        return [Bin(*each) for each in numbers][::-1]

    def difference(self, first: Outcomes) -> tuple[float, float, float]:
        """Return the mean difference of scores from those of another network, and the ends of its 95 % interval.

        The questions are the same, so that differences are paired: their mean, and 1.96 standard errors to both sides.
        """
        gaps = (self.scores - first.scores).double()
        mean, error = float(gaps.mean()), float(gaps.std() / len(gaps) ** 0.5) if len(gaps) > 1 else math.inf
        return mean, mean - 1.96 * error, mean + 1.96 * error


def ellipse_area(density: Density) -> Tensor:
    r"""Return the area of the ellipse of one standard deviation, ``[*]``: :math:`\pi \sqrt{\det \Sigma}`.

    :math:`\Sigma` is the covariance of the density, of a mixture that of the whole. The picture has area 1.
    """
    return density_numbers(density)[..., PLACE - 1].exp()


def pick(outcomes: Mapping[str, Outcomes], each: int, taken: Collection[int] = ()) -> dict[int, str]:
    """Pick up to ``each`` questions for each theme, none that is ``taken``; returns themes by places in the split.

    ``"only densities right"`` and ``"only weights right"``: all networks with densities answer rightly and none with
    weights does, or the other way round; the first ones of each kind of question, in turn. ``"wide ellipse"``: the
    largest of all areas, with a right answer. ``"several components"``: the most components, one of each number in
    turn, from 2 on. A question has one theme, the first that it fits.
    """
    found: dict[int, str] = {}
    for theme, places in _candidates(list(outcomes.values())):
        fresh = [place for place in places if place not in found and place not in taken]
        found |= dict.fromkeys(fresh[:each], theme)
    return found


def _candidates(networks: Sequence[Outcomes]) -> list[tuple[str, list[int]]]:
    dense = [each for each in networks if each.areas is not None]
    discrete = [each for each in networks if each.areas is None]
    themes: list[tuple[str, list[int]]] = []
    if dense and discrete:
        for theme, ahead, behind in ((DENSITIES, dense, discrete), (WEIGHTS, discrete, dense)):
            right = torch.stack([each.right for each in ahead]).all(0)
            wrong = ~torch.stack([each.right for each in behind]).any(0)
            themes.append((theme, _in_turn(right & wrong, dense[0].kinds, range(len(KINDS)))))
    if dense:
        wide = torch.stack([torch.where(each.right, _areas(each), -1.0) for each in dense]).amax(0)
        order = wide.argsort(descending=True, stable=True)
        themes.append((WIDE, order[wide[order] > 0].tolist()))
    mixtures = [each.components for each in dense if each.components is not None]
    if mixtures:
        count = torch.stack(mixtures).amax(0)
        most = int(count.max()) if len(count) else 0
        themes.append((SEVERAL, _in_turn(count > 1, count, range(2, most + 1))))
    return themes


def _areas(outcomes: Outcomes) -> Tensor:
    assert outcomes.areas is not None
    return outcomes.areas.nan_to_num(-1.0)


def _in_turn(chosen: Tensor, groups: Tensor, names: Sequence[int]) -> list[int]:
    """Return the places chosen, the first of each group, then the second of each, and so on."""
    queues = [torch.nonzero(chosen & (groups == name)).flatten().tolist() for name in names]
    longest = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]
