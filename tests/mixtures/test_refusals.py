"""Arguments that are refused, and in which words."""

from __future__ import annotations

import math

import pytest
import torch

from mixtures.clouds import GRID
from omegamax import Tsallis
from omegamax.densities import Gaussian, Mixture
from omegamax.mixtures import weighted_em


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"components": 0}, "components must be an integer >= 1, got 0"),
        ({"components": 2.5}, "components must be an integer"),
        ({"iterations": -1}, "iterations must be an integer >= 0"),
        ({"restarts": 0}, "restarts must be an integer >= 1"),
        ({"init": "halves"}, "init must be one of 'split'"),
        ({"distance": "far"}, "distance must be one of"),
        ({"floor": -1.0}, "floor must be >= 0"),
        ({"floor": torch.ones(2)}, r"floor must be a number or expand to \(3,\), got shape \(2,\)"),
        ({"spread": "wide"}, "spread must be a variance"),
        ({"spread": torch.ones(3)}, r"spread must be a number or expand to \(3, 2\), got shape \(3,\)"),
        ({"tolerance": -1.0}, "tolerance must be a number >= 0"),
        ({"alpha": 0.5}, "alpha must be > 0.5"),
        ({"alpha": math.inf}, "alpha must be finite"),
        ({"alpha": torch.ones(7)}, "alpha must have the batch of the weights"),
        ({"mixing": "k_subsets"}, "takes"),
        ({"mixing": Tsallis(0.5)}, "mixing must be softmax, sparsemax or entmax"),
        ({"mixing": "sparsemax", "discount": 1.0}, r"discount must be a number in \[0, 1\)"),
        ({"responsibilities": "hardmax"}, "no map is called 'hardmax'"),
        ({"weights": torch.rand(3, 5)}, r"weights must be \[\*, 64\]"),
        ({"weights": torch.ones(3, 64, dtype=torch.long)}, "weights must be a floating-point tensor"),
        ({"weights": -torch.ones(3, 64)}, "weights must be >= 0, got a minimum of -1"),
        ({"positions": torch.rand(5, 64, 2), "weights": torch.rand(3, 64)}, "must broadcast"),
        ({"positions": torch.rand(64)}, r"positions must be \[\*, L, n\]"),
        ({"mask": torch.ones(64)}, "mask must be a bool tensor"),
        ({"mask": torch.ones(3, dtype=torch.bool)}, r"mask must be \[\*, 64\]"),
        ({"init": Mixture(torch.ones(1), Gaussian(torch.zeros(1, 2), 1.0))}, "init must be a mixture of 2 components"),
        ({"init": Mixture(torch.ones(2) / 2, Gaussian(torch.zeros(2, 2), 1.0)), "restarts": 2}, "restarts must be 1"),
        ({"init": Mixture(torch.ones(7, 2) / 2, Gaussian(torch.zeros(2, 2), 1.0))}, "init must have the batch"),
    ],
)
def test_refusals_say_what_is_wanted(kwargs, message: str):
    given_ = {"positions": GRID, "weights": torch.rand(3, 64), "components": 2, **kwargs}
    with pytest.raises((ValueError, TypeError), match=message):
        weighted_em(**given_)
