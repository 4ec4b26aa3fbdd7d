"""Networks side by side: paired intervals and times."""

import math

import torch

from omegamax.tasks.report import compare_paired


def test_interval_is_that_of_paired_differences():
    ours, theirs = torch.tensor([1.0, 1.0, 1.0, 0.0, 1.0]), torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
    mean, low, high = compare_paired(ours, theirs)  # differences 0, 1, 0, -1, 1
    deviation = math.sqrt((0.04 + 0.64 + 0.04 + 1.44 + 0.64) / 4)
    assert math.isclose(mean, 0.2, abs_tol=1e-12)
    assert math.isclose(high - low, 2 * 1.96 * deviation / math.sqrt(5), rel_tol=1e-12)
    assert math.isclose((high + low) / 2, mean, abs_tol=1e-12)


def test_one_example_tells_nothing_of_the_interval():
    assert compare_paired(torch.ones(1), torch.zeros(1)) == (1.0, -math.inf, math.inf)
