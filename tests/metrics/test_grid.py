"""Maps of densities against sums and integrals by SciPy."""

import math

import numpy as np
import pytest
import scipy.stats
import torch
from torch.autograd import gradcheck

from omegamax.basis import grid_positions
from omegamax.densities import (
    BetaGaussian,
    BetaLaplace,
    Gaussian,
    GridDensity,
    LocationScale,
    Mixture,
    TruncatedParaboloid,
    gauss_legendre_nodes,
)
from omegamax.metrics import jensen_shannon, on_grid, zero_area

F64 = torch.float64
SCALE = torch.tensor([[0.03, 0.01], [0.01, 0.02]], dtype=F64)


def test_gaussian_at_the_centres_is_that_of_scipy():
    p = on_grid(Gaussian(torch.tensor([0.3, 0.6], dtype=F64), SCALE), (3, 5))
    points = grid_positions((3, 5), dtype=F64).numpy()
    wanted = scipy.stats.multivariate_normal([0.3, 0.6], SCALE.numpy()).pdf(points).reshape(3, 5)
    assert p.shape == (3, 5)
    assert (p - torch.from_numpy(wanted / wanted.sum())).abs().max() <= 1e-14


def test_x_runs_along_the_last_axis():
    p = on_grid(TruncatedParaboloid(torch.tensor([0.9, 0.1]), 1e-4), (4, 6), samples=5)
    assert p.argmax() == 5  # top right: first row, last column


@pytest.mark.parametrize("density", [Gaussian, TruncatedParaboloid])
def test_samples_approach_the_integral_over_each_cell(density):
    density = density.from_moments(torch.tensor([0.3], dtype=F64), 0.01)
    edges = torch.linspace(0, 1, 6, dtype=F64).unsqueeze(-1)
    wanted = density.cdf(edges).diff()
    wanted = wanted / wanted.sum()
    errors = [(on_grid(density, 5, samples=s) - wanted).abs().max() for s in (1, 4, 16)]
    assert errors[0] > 1e-2 and errors[1] < errors[0] / 8 and errors[2] < errors[1] / 8


def test_samples_in_the_plane_approach_the_integral():
    x, y = scipy.stats.norm(0.45, 0.1), scipy.stats.norm(0.4, 0.2)
    density = Gaussian(torch.tensor([0.45, 0.4], dtype=F64), torch.diag(torch.tensor([0.01, 0.04], dtype=F64)))
    masses = np.diff(y.cdf(np.linspace(0, 1, 3)))[:, None] * np.diff(x.cdf(np.linspace(0, 1, 4)))
    wanted = torch.from_numpy(masses / masses.sum())
    errors = [(on_grid(density, (2, 3), samples=s) - wanted).abs().max() for s in (10, 40)]
    assert errors[1] <= 1e-4 and 15 < errors[0] / errors[1] < 17  # the midpoint rule's second order


def test_a_density_narrower_than_a_cell_is_seen():
    loc = torch.tensor([0.53, 0.53], dtype=F64)
    narrow = TruncatedParaboloid.from_moments(loc, 1e-5)
    assert on_grid(narrow, (8, 8)).eq(0).all()  # no centre lies within
    seen = on_grid(narrow, (8, 8), samples=12)
    assert seen[4, 4] == 1 and seen.sum() == 1
    # A Gaussian underflows everywhere; its map does not.
    assert Gaussian(loc, 1e-8).prob(grid_positions((8, 8), dtype=F64)).eq(0).all()
    assert on_grid(Gaussian(loc, 1e-8), (8, 8))[4, 4] == 1


@pytest.mark.parametrize("samples", [1, 3])
def test_batches_are_one_by_one(samples):
    loc, alpha = torch.rand(2, 3, 2, dtype=F64), torch.rand(3, dtype=F64) + 1
    p = on_grid(BetaGaussian(loc, SCALE, alpha), (4, 7), samples=samples)
    assert p.shape == (2, 3, 4, 7)
    assert (p.sum((-2, -1)) - 1).abs().max() <= 1e-14
    for i in range(2):
        for j in range(3):
            alone = on_grid(BetaGaussian(loc[i, j], SCALE, alpha[j].item()), (4, 7), samples=samples)
            assert (p[i, j] - alone).abs().max() <= 1e-13


def test_every_family_and_torchs_own():
    loc = torch.tensor([0.4], dtype=F64)
    nodes, weights = gauss_legendre_nodes(20, 4, 0.0, 1.0, dtype=F64)
    densities = [
        BetaLaplace(loc, 0.05, 1.5),
        LocationScale(lambda s: s.square() / 2, loc, 0.05),
        GridDensity.from_function(lambda t: -(t[..., 0] - 0.4).abs() / 0.05, nodes, weights, alpha=2.0),
        torch.distributions.MultivariateNormal(loc, 0.01 * torch.eye(1, dtype=F64)),
    ]
    centres = grid_positions(9, dtype=F64)
    for density in densities:
        height = density.log_prob(centres).exp()
        assert (on_grid(density, 9) - height / height.sum()).abs().max() <= 1e-14


def test_mixture_is_the_sum_of_its_components():
    loc, weights = torch.rand(2, 3, 2, dtype=F64), torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]], dtype=F64)
    mixture = Mixture(weights, TruncatedParaboloid(loc, 0.004))
    height = torch.stack([TruncatedParaboloid(loc[:, k], 0.004).prob(_points(6, 5)) for k in range(3)], -1)
    wanted = (height * weights).sum(-1).T.reshape(2, 6, 5)
    wanted = wanted / wanted.sum((-2, -1), keepdim=True)
    assert (on_grid(mixture, (6, 5)) - wanted).abs().max() <= 1e-14
    assert torch.equal(zero_area(mixture, size=(6, 5)), (wanted == 0).double().mean((-2, -1)))


def _points(*size):
    return grid_positions(size, dtype=F64).unsqueeze(-2)


def test_three_dimensions_and_one_size_for_all():
    p = on_grid(Gaussian(torch.rand(4, 3), 0.1), 2, samples=2)
    assert p.shape == (4, 2, 2, 2)


def test_gradients_reach_the_parameters():
    loc = torch.tensor([[0.4, 0.5], [0.6, 0.3]], dtype=F64, requires_grad=True)
    root = torch.tensor([[0.2, 0.0], [0.05, 0.15]], dtype=F64, requires_grad=True)
    alpha = torch.tensor(1.4, dtype=F64, requires_grad=True)

    def function(loc, root, alpha):
        return on_grid(BetaGaussian(loc, root @ root.mT, alpha), (3, 4), samples=2)

    assert gradcheck(function, (loc, root, alpha))
    human = torch.rand(3, 4, dtype=F64)

    def agreement(loc, root, alpha):
        return jensen_shannon(BetaGaussian(loc, root @ root.mT, alpha), human, size=(3, 4))

    assert gradcheck(agreement, (loc, root, alpha))


def test_a_map_of_zeros_has_no_gradient():
    loc = torch.tensor([0.53, 0.53], requires_grad=True)
    density = TruncatedParaboloid.from_moments(loc, 1e-5)
    p = on_grid(density, (8, 8))
    (gradient,) = torch.autograd.grad(p.sum(), loc, retain_graph=True)
    assert gradient.eq(0).all()
    value = jensen_shannon(density, torch.ones(8, 8), size=8)
    (gradient,) = torch.autograd.grad(value, loc)
    assert value.isnan()
    assert gradient.eq(0).all()


def test_nan_stays_with_its_example():
    loc = torch.tensor([[0.5], [math.nan]])
    p = on_grid(BetaGaussian(loc, 0.1, 1.5, validate_args=False), 4)
    assert not p[0].isnan().any() and p[1].isnan().all()


def test_errors_name_what_is_wrong():
    plane = Gaussian(torch.zeros(2), 1.0)
    with pytest.raises(TypeError, match="on_grid: density must be a density over vectors, got Tensor"):
        on_grid(torch.ones(3), 4)
    with pytest.raises(ValueError, match=r"on_grid: densities must be over vectors, got event shape \(\)"):
        on_grid(torch.distributions.Normal(0.0, 1.0), 4)
    with pytest.raises(ValueError, match="on_grid: size must have one entry for each of 2 axes"):
        on_grid(plane, (4, 4, 4))
    with pytest.raises(ValueError, match="on_grid: samples must be at least 1, got 0"):
        on_grid(plane, 4, samples=0)
    with pytest.raises(TypeError, match=r"on_grid: samples must be an int, got 2\.0"):
        on_grid(plane, 4, samples=2.0)
