"""Learnt alphas by layer and head: where points and lines are, and what is refused."""

import pytest
import torch

from omegamax.viz import alphas


def points(ax):
    return [(float(x), float(y)) for line in ax.lines if line.get_marker() == "o" for x, y in line.get_xydata()]


def test_heads_stand_side_by_side_over_their_layer():
    values = torch.tensor([[1.1, 1.9], [1.5, 1.2]])
    ax = alphas(values, start=1.5, title="one")
    assert points(ax) == [pytest.approx(each) for each in [(0.875, 1.1), (1.125, 1.9), (1.875, 1.5), (2.125, 1.2)]]
    lines = [line.get_ydata()[0] for line in ax.lines if line.get_marker() != "o"]
    assert lines == [1.0, 2.0, 1.5] and [text.get_text() for text in ax.texts] == ["softmax", "sparsemax", "start"]
    assert ax.get_title() == "one" and list(ax.get_xticks()) == [1, 2]


def test_runs_stand_side_by_side_with_their_heads_in_a_column():
    values = torch.tensor([[[1.1, 1.3]], [[1.6, 2.5]]])
    ax = alphas(values, names=False)
    assert points(ax) == [pytest.approx(each) for each in [(0.875, 1.1), (0.875, 1.3), (1.125, 1.6), (1.125, 2.5)]]
    assert not ax.texts and ax.get_ylim()[1] > 2.5


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"values must be \[layers, heads\] or \[runs, layers, heads\], got \(3,\)"):
        alphas(torch.ones(3))
    with pytest.raises(TypeError, match="alphas: values"):
        alphas(torch.ones(2, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="start must be"):
        alphas(torch.ones(2, 2), start=-1)
