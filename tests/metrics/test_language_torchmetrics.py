"""Metrics of predictions and of generated text: values by hand, over batches as over all at once."""

import math

import pytest
import torch

from omegamax import entmax15, metrics
from omegamax.metrics import (
    Distinct,
    EpsilonPerplexity,
    JensenShannonScore,
    Repetition,
    SparsemaxScore,
    SupportSize,
    best_epsilon,
    distinct,
    epsilon_perplexity,
    rep,
    wrep,
)

F64 = torch.float64
# Four steps over three tokens; the last does not count.
P = torch.tensor([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.2, 0.3, 0.5]], dtype=F64)
X = torch.tensor([0, 1, 2, -100])


def test_values_by_hand():
    # p(x) + (1 - sum p^2) / 2: 1/2 + 5/16; 0; 1/2 + 1/4.
    assert abs(float(SparsemaxScore()(P, X)) - (13 / 16 + 0 + 3 / 4) / 3) <= 1e-12
    # m = (3/4, 1/8, 1/8): KL(p, m) / 2 + log(4/3) / 2, with KL = log(2/3) / 2 + log(2) / 2; log 2; again the first.
    half = (0.5 * math.log(2 / 3) + 0.5 * math.log(2) + math.log(4 / 3)) / 2
    assert abs(float(JensenShannonScore()(P, X)) - (2 * half + math.log(2)) / 3) <= 1e-12
    assert float(SupportSize()(P, X)) == (3 + 1 + 2) / 3
    # (p(x) + 1/4) / (7/4): 3/7, 1/7, 3/7.
    assert abs(float(EpsilonPerplexity(0.25)(P, X)) - (7**3 / 9) ** (1 / 3)) <= 1e-12
    # All but the first have just been there; the second and the last are wrong besides.
    said, text = torch.tensor([[1, 5, 5, 3, 3]]), torch.tensor([[5, 3, 5, 3, 9]])
    assert float(Repetition(window=(2,))(said, text)) == 4 / 5
    assert float(Repetition(window=(2,), wrong=True)(said, text)) == 2 / 5
    assert float(Distinct(2)(torch.tensor([[1, 2, 1, 2], [2, 1, 7, 0]]), torch.tensor([4, 3]))) == 3 / 5


@pytest.mark.parametrize("name", ["SparsemaxScore", "JensenShannonScore", "SupportSize", "EpsilonPerplexity"])
def test_batches_are_as_all_at_once_and_as_the_function(name):
    generator = torch.Generator().manual_seed(0)
    p = entmax15(2 * torch.randn(5, 6, 9, dtype=F64, generator=generator))
    target = torch.randint(9, (5, 6), generator=generator)
    target[1, 3:] = -100
    options = {"epsilon": 0.01} if name == "EpsilonPerplexity" else {}
    metric = getattr(metrics, name)(**options)
    for part in (slice(0, 2), slice(2, 5)):
        metric.update(p[part], target[part])
    function = {
        "SparsemaxScore": metrics.sparsemax_score,
        "JensenShannonScore": metrics.jensen_shannon_score,
        "SupportSize": metrics.support_size,
        "EpsilonPerplexity": epsilon_perplexity,
    }[name]
    assert abs(float(metric.compute()) - float(function(p, target, **options))) <= 1e-12


def test_best_epsilon_is_found_on_all_batches():
    p = entmax15(torch.randn(40, 6, dtype=F64, generator=torch.Generator().manual_seed(1)))
    target = torch.arange(40) % 6
    metric = EpsilonPerplexity()
    metric.update(p[:7], target[:7])
    metric.update(p[7:], target[7:])
    assert metric.find_epsilon() == best_epsilon(p, target)
    assert float(metric.compute()) <= min(float(epsilon_perplexity(p, target, epsilon=e)) for e in (1e-3, 0.03, 0.3, 3))


def test_repetition_and_distinct_are_those_of_the_functions():
    generator = torch.Generator().manual_seed(2)
    said, text = (torch.randint(5, (4, 20), generator=generator) for _ in range(2))
    lengths = torch.tensor([20, 3, 0, 11])
    for wrong, function in ((False, rep), (True, wrep)):
        metric = Repetition(window=(2, 5), wrong=wrong)
        metric.update(said[:1], text[:1], lengths[:1])
        metric.update(said[1:], text[1:], lengths[1:])
        assert float(metric.compute()) == float(function(said, text, (2, 5), lengths=lengths).mean())
    metric = Distinct(3)
    metric.update(said[:2], lengths[:2])
    metric.update(said[2:], lengths[2:])
    assert float(metric.compute()) == float(distinct(said, 3, lengths=lengths))


def test_nothing_has_no_value():
    empty = torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)
    for metric in (SparsemaxScore(), SupportSize(), EpsilonPerplexity(0.1)):
        metric.update(*empty)
        assert math.isnan(float(metric.compute()))
    assert math.isnan(float(Distinct()(torch.zeros(2, 0, dtype=torch.long))))


def test_wrong_settings_are_refused():
    assert abs(float(EpsilonPerplexity(math.inf)(P, X)) - 3) <= 1e-12  # that of guessing
    with pytest.raises(ValueError, match="EpsilonPerplexity: epsilon"):
        EpsilonPerplexity(-0.1)
    with pytest.raises(ValueError, match="Distinct: n must be an integer >= 1"):
        Distinct(0)
    with pytest.raises(ValueError, match="Repetition: window must be an integer >= 1"):
        Repetition((0,)).update(torch.zeros(3, dtype=torch.long))
