"""Samples with replacement, and the middle of what they give."""

import math

import pytest
import torch

from omegamax.tasks.bootstrap import draw_counts, take_middle


def test_samples_have_as_many_things_and_are_the_same_again():
    times = draw_counts(7, 500, seed=3)
    assert times.shape == (500, 7) and bool((times.sum(1) == 7).all()) and times.dtype == torch.float64
    assert torch.equal(times, draw_counts(7, 500, seed=3)) and not torch.equal(times, draw_counts(7, 500, seed=4))
    assert float(times.mean()) == 1 and float(times.var()) == pytest.approx(6 / 7, rel=0.1)  # of a binomial


def test_interval_of_a_mean_is_that_of_the_normal_distribution():
    values = torch.randn(400, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mean, low, high = take_middle(float(values.mean()), draw_counts(400, 4000) @ values / 400)
    half = 1.96 * float(values.std()) / 20
    assert mean - low == pytest.approx(half, rel=0.1) and high - mean == pytest.approx(half, rel=0.1)


def test_samples_of_nothing_are_left_out():
    assert take_middle(1.0, torch.tensor([math.nan, 2.0, 2.0]))[1:] == (2.0, 2.0)
    assert all(map(math.isnan, take_middle(1.0, torch.tensor([math.nan]))))
    assert all(map(math.isnan, take_middle(math.nan, torch.tensor([1.0]))))
    with pytest.raises(ValueError, match="count must be"):
        draw_counts(0, 3)
