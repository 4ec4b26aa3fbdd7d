"""Sparse mixing weights: a number of components that follows from the points."""

from __future__ import annotations

import pytest
import torch

from mixtures.clouds import assert_same, cloud, double
from omegamax import Tsallis
from omegamax.basis import grid_positions
from omegamax.densities import Gaussian
from omegamax.mixtures import weighted_em


@pytest.mark.parametrize("mixing", ["sparsemax", "entmax15", Tsallis(1.8)])
def test_spurious_components_are_pruned(mixing):
    x = grid_positions((14, 14)).to(double)
    centres = torch.tensor([[0.2, 0.25], [0.8, 0.35], [0.45, 0.8]], dtype=double)
    bumps = Gaussian(centres, 0.006).prob(x[:, None])
    w = torch.stack([bumps[:, 0], bumps[:, :2] @ torch.tensor([0.7, 0.3], dtype=double), bumps.mean(-1)])
    p = weighted_em(x, w, 6, 80, "kmeans++", mixing=mixing, discount=0.3, generator=torch.Generator().manual_seed(0))
    assert p.component_count.tolist() == [1, 2, 3]
    # Those that are left have the masses that the points give them, not less for being small.
    torch.testing.assert_close(p.weights[1].sort().values[-2:], w.new_tensor([0.3, 0.7]), atol=5e-3, rtol=0)


def test_without_discount_mixing_changes_nothing():
    x, w = cloud(3)
    for mixing in ("softmax", "sparsemax", "entmax15"):
        assert_same(weighted_em(x, w, 3, 5, mixing=mixing, discount=0.0), weighted_em(x, w, 3, 6), atol=1e-9)


def test_tolerance_does_not_stop_the_pruning():
    x = grid_positions((14, 14)).to(double)
    w = Gaussian(torch.tensor([[0.3, 0.3], [0.7, 0.7]], dtype=double), 0.006).prob(x[:, None]).sum(-1)
    for seed in range(5):
        seeds = torch.Generator().manual_seed(seed)
        p = weighted_em(x, w, 5, 200, "kmeans++", mixing="sparsemax", discount=0.3, tolerance=1e-8, generator=seeds)
        assert p.component_count == 2
