"""Accuracy by confidence: by hand, against all pairs, and at the edges."""

import math

import pytest
import torch
from scipy.stats import spearmanr

from omegamax.metrics import confidence_curve


def pairs(s, c):
    """The area by its definition, over all pairs."""
    above = below = 0.0
    for i in range(len(s)):
        for j in range(len(s)):
            if i != j:
                weight = c[i] * (1 - c[j])
                below += weight
                above += weight * (1.0 if s[i] > s[j] else 0.5 if s[i] == s[j] else 0.0)
    return above / below


@pytest.mark.parametrize("soft", [False, True])
def test_area_is_that_over_all_pairs(soft):
    generator = torch.Generator().manual_seed(0)
    s = torch.randint(0, 9, (60,), generator=generator).double()  # with ties
    c = torch.rand(60, generator=generator, dtype=torch.float64)
    c = c if soft else (c < (s + 1) / 12).double()
    curve = confidence_curve(s, c, bins=7)
    assert curve.auc == pytest.approx(pairs(s.tolist(), c.tolist()), rel=1e-9)
    assert curve.correlation == pytest.approx(spearmanr(s, c).statistic, rel=1e-9)
    assert curve.count.tolist() == [9, 9, 9, 9, 8, 8, 8] and bool((curve.confidence.diff() >= 0).all())
    torch.testing.assert_close((curve.accuracy * curve.count).sum(), c.sum())


def test_bins_by_hand():
    s, c = torch.tensor([3.0, 1.0, 2.0, 4.0, 5.0]), torch.tensor([True, False, False, True, False])
    curve = confidence_curve(s, c, bins=2)
    assert curve.confidence.tolist() == [2.0, 4.5] and curve.count.tolist() == [3, 2]
    assert curve.accuracy.tolist() == pytest.approx([1 / 3, 1 / 2])
    assert confidence_curve(s, c, bins=100).count.tolist() == [1] * 5


def test_right_order_and_no_order():
    c = torch.tensor([False, False, True, True])
    assert confidence_curve(torch.arange(4.0), c).auc == 1
    assert confidence_curve(-torch.arange(4.0), c).auc == 0
    constant = confidence_curve(torch.ones(4), c)
    assert constant.auc == 0.5 and math.isnan(constant.correlation)
    right = confidence_curve(torch.arange(4.0), torch.ones(4))
    assert math.isnan(right.auc) and right.accuracy.tolist() == [1.0] * 4
    one = confidence_curve(torch.ones(1), torch.ones(1))
    assert math.isnan(one.auc) and math.isnan(one.correlation)


def test_order_of_the_answers_does_not_matter():
    generator = torch.Generator().manual_seed(0)
    s, c = torch.rand(50, generator=generator), torch.rand(50, generator=generator)
    turn = torch.randperm(50, generator=generator)
    one, other = confidence_curve(s, c), confidence_curve(s[turn], c[turn])
    torch.testing.assert_close(one.accuracy, other.accuracy, rtol=1e-12, atol=0)
    assert one.auc == pytest.approx(other.auc, rel=1e-12)
    half = confidence_curve(s.bfloat16(), c > 0.5)
    assert half.auc == confidence_curve(s.bfloat16().double(), c > 0.5).auc


@pytest.mark.parametrize(
    "confidence, correct, said",
    [
        (torch.ones(3), torch.ones(2), r"must both be \[N\] with N >= 1, got \(3,\) and \(2,\)"),
        (torch.ones(0), torch.ones(0), r"with N >= 1, got \(0,\)"),
        (torch.tensor([math.nan]), torch.ones(1), "confidence must be finite, got NaN or infinity"),
        (torch.ones(1), torch.tensor([2.0]), r"correct must be bool or lie in \[0, 1\]"),
    ],
)
def test_bad_arguments_are_named(confidence, correct, said):
    with pytest.raises(ValueError, match=said):
        confidence_curve(confidence, correct)
