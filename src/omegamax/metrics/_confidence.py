"""Whether a number tells when answers are right: accuracy by confidence, and how often the order is the right one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax._checks import check_floating
from omegamax.metrics._rank_correlation import rank_correlation

NAME = "confidence_curve"


@dataclass(frozen=True, eq=False)
class ConfidenceCurve:
    """How right answers are, from the least to the most confident.

    Args:
        confidence: mean of each bin, ``[bins]``, float64, rising.
        accuracy: mean correctness of each bin.
        count: answers in each bin, int64.
        auc: chance that of a right and a wrong answer the right one is the more confident; ties count half. 0.5: the
            number tells nothing; NaN if all answers are equally right.
        correlation: Spearman's, of confidence and correctness; NaN if one of them never changes.
    """

    confidence: Tensor
    accuracy: Tensor
    count: Tensor
    auc: float
    correlation: float


@torch.no_grad()
def confidence_curve(confidence: Tensor, correct: Tensor, bins: int = 10) -> ConfidenceCurve:
    r"""Return accuracy by confidence, in bins of equal size, with the area under the ROC curve.

    .. math:: \mathrm{AUC} = \frac{\sum_{i \ne j} c_i (1 - c_j) \bigl([s_i > s_j] + \frac12 [s_i = s_j]\bigr)}
                                  {\sum_{i \ne j} c_i (1 - c_j)}

    for confidences s and correctness c in [0, 1], such as the score of a VQA answer. Any number that orders the answers
    will do: the probability of the answer, or how narrow the density was that it was read from.

    Args:
        confidence: ``[N]``, finite.
        correct: bool, or numbers in [0, 1], ``[N]``.
        bins: how many; equal confidences may fall into neighbouring bins, in the order in which they are given.

        >>> right = torch.tensor([False, True, True, False])
        >>> curve = confidence_curve(torch.tensor([0.1, 0.9, 0.4, 0.8]), right, bins=2)
        >>> curve.accuracy, curve.auc
        (tensor([0.5000, 0.5000], dtype=torch.float64), 0.75)

    Reference: Fawcett, "An introduction to ROC analysis" (2006); bins as in reliability diagrams, Guo et al. (2017).
    """
    check_floating(NAME, "confidence", confidence)
    bins = check_integer(NAME, "bins", bins, least=1)
    if confidence.dim() != 1 or correct.shape != confidence.shape or not len(confidence):
        given = f"{tuple(confidence.shape)} and {tuple(correct.shape)}"
        raise ValueError(f"{NAME}: confidence and correct must both be [N] with N >= 1, got {given}")
    s, c = confidence.double().cpu(), correct.double().cpu()
    if not bool(s.isfinite().all()):
        raise ValueError(f"{NAME}: confidence must be finite, got NaN or infinity")
    if not bool(((c >= 0) & (c <= 1)).all()):
        raise ValueError(f"{NAME}: correct must be bool or lie in [0, 1], got values outside it")
    order = s.argsort(stable=True)
    pieces = [piece for piece in order.tensor_split(min(bins, len(s))) if len(piece)]
    return ConfidenceCurve(
        confidence=torch.stack([s[piece].mean() for piece in pieces]),
        accuracy=torch.stack([c[piece].mean() for piece in pieces]),
        count=torch.tensor([len(piece) for piece in pieces]),
        auc=_area(s, c),
        correlation=float(rank_correlation(s, c)) if len(s) > 1 else float("nan"),
    )


def _area(s: Tensor, c: Tensor) -> float:
    """Return the area under the curve, from sums over groups of equal confidence."""
    _, group = s.unique(return_inverse=True)
    right = torch.zeros(int(group.max()) + 1, dtype=s.dtype).index_add(0, group, c)
    wrong = torch.zeros_like(right).index_add(0, group, 1 - c)
    own = (c * (1 - c)).sum()  # an answer that is half right, with itself
    above = (right * (wrong.cumsum(0) - wrong / 2)).sum() - own / 2
    pairs = right.sum() * wrong.sum() - own
    return float(above / pairs) if pairs > 0 else float("nan")
