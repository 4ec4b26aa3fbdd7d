"""Densities as rows of colours: as high as they are, and white where they are exactly 0."""

import numpy as np
import pytest
import torch

from omegamax import viz
from omegamax.densities import BetaGaussian, Gaussian


def make(kind, loc, variance):
    return kind.from_moments(torch.tensor([[loc]]), torch.tensor([[[variance]]]))


def test_colours_are_the_density_of_a_words_width():
    p = [make(BetaGaussian, 0.3, 0.002), make(Gaussian, 0.6, 0.01)]
    ax = viz.density_rows(p, ["a", "b"], ["w", "x", "y", "z"], key=False)
    shown = np.ma.filled(ax.images[0].get_array().astype(float), np.nan)
    width = shown.shape[1]
    assert np.isnan(shown[0]).any() and not np.isnan(shown[1]).any()
    assert np.allclose(np.nansum(shown, 1) * 4 / width, 1.0, atol=1e-3)  # each has mass one
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b"]
    assert [mark.text for mark in viz.marks_of(ax)] == ["mean", "exactly 0"]


def test_a_gaussian_too_low_for_a_number_is_not_white():
    ax = viz.density_rows([make(Gaussian, 0.05, 1e-5)], ["a"], ["w", "x", "y", "z"], key=False)
    shown = np.ma.filled(ax.images[0].get_array().astype(float), np.nan)
    assert not np.isnan(shown).any() and (shown == 0).any()
    assert [mark.text for mark in viz.marks_of(ax)] == ["mean"]


def test_as_many_densities_as_rows_are_wanted():
    with pytest.raises(ValueError, match="as many densities"):
        viz.density_rows([], ["a"], ["b"])
    two = Gaussian.from_moments(torch.zeros(2, 1), torch.ones(2, 1, 1))
    with pytest.raises(ValueError, match="single density"):
        viz.density_rows([two], ["a"], ["b"])
