"""The histogram of learnt alphas: how high its bars are, and what is refused."""

import pytest
import torch

from omegamax.viz import alpha_histogram


def test_layers_are_stacked():
    values = torch.tensor([[1.1, 1.15, 1.9], [1.12, 2.0, 1.0]])
    ax = alpha_histogram(values, bins=4, title="one")
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == [2, 0, 0, 1, 2, 0, 0, 1]
    assert [bar.get_y() for bar in ax.patches] == [0, 0, 0, 0, 2, 0, 0, 1]
    assert ax.patches[0].get_alpha() < ax.patches[4].get_alpha() == 1 and ax.get_title() == "one"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["layer 1", "layer 2"]


def test_runs_are_counted_together_and_bins_reach_all_values():
    ax = alpha_histogram(torch.tensor([[[0.5, 1.5]], [[1.5, 3.0]]]), bins=5)
    assert [bar.get_height() for bar in ax.patches] == [1, 0, 2, 0, 1] and ax.get_xlim() == (0.5, 3.0)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"values must be \[layers, heads\]"):
        alpha_histogram(torch.ones(3))
    with pytest.raises(TypeError, match="values"):
        alpha_histogram(torch.ones(2, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="bins"):
        alpha_histogram(torch.ones(2, 2), bins=0)
