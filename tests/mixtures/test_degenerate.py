"""Data that plain expectation-maximisation does not survive."""

from __future__ import annotations

import math

import pytest
import torch

from mixtures.clouds import GRID, cloud, double, sane
from omegamax.basis import grid_positions
from omegamax.densities import Gaussian, Mixture
from omegamax.mixtures import Linear, select_components, weighted_em

every_alpha = pytest.mark.parametrize("alpha", [1.0, 2.0])
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, double])
every_init = pytest.mark.parametrize("init", ["split", "kmeans++", "random"])


@every_alpha
@every_dtype
@every_init
@pytest.mark.parametrize("distance", ["gaussian", "fenchel_young"])
@pytest.mark.parametrize("floor", [None, 0.0])
def test_degenerate_weights_do_no_harm(alpha: float, dtype: torch.dtype, init: str, distance: str, floor: float | None):
    one = torch.zeros(64)
    one[10] = 1.0
    two = torch.zeros(64)
    two[[3, 60]] = 0.5
    row = torch.zeros(64)
    row[8:16] = torch.rand(8)
    peaked = (40 * torch.randn(64)).softmax(-1)
    tiny = torch.full((64,), 1e-38)
    w = torch.stack([one, two, row, peaked, torch.zeros(64), tiny]).to(dtype).requires_grad_()
    p = weighted_em(GRID.to(dtype), w, 4, 20, init, floor, alpha=alpha, distance=distance)
    assert sane(p)
    if distance == "gaussian":
        loss = (p.weights * (p.components.mean.square().sum(-1) + p.components.variance.sum(-1))).sum()
        loss.backward()
        assert w.grad is not None and w.grad.isfinite().all()
        assert (w.grad[4] == 0).all()


@every_dtype
def test_one_point_is_a_dot_of_the_floor(dtype: torch.dtype):
    w = torch.zeros(64, dtype=dtype)
    w[10] = 3.0
    p = weighted_em(GRID.to(dtype), w, 4)
    assert p.component_count == 1
    (k,) = p.weights.nonzero()
    torch.testing.assert_close(p.components.mean[k[0]], GRID[10].to(dtype))
    expected = torch.eye(2, dtype=dtype) / (12 * 64)
    torch.testing.assert_close(p.components.covariance_matrix[k[0]], expected, atol=1e-6, rtol=1e-4)


@every_init
def test_fewer_points_than_components(init: str):
    x = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=double)
    p = weighted_em(x, torch.tensor([0.3, 0.7], dtype=double), 4, 10, init, floor=0.01)
    assert p.component_count <= 2 and sane(p)
    alive = p.weights[p.weights > 0].sort().values
    if init != "random" or len(alive) == 2:
        torch.testing.assert_close(alive, torch.tensor([0.3, 0.7], dtype=double))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_single_position(n: int):
    p = weighted_em(torch.full((1, n), 0.3, dtype=double), torch.ones(2, 1, dtype=double), 3)
    assert sane(p) and (p.component_count == 1).all()


@pytest.mark.parametrize("n", [2, 3])
def test_points_on_a_line(n: int):
    t = torch.linspace(0, 1, 30, dtype=double)
    direction = torch.tensor([3.0, 1.0, -2.0], dtype=double)[:n]
    p = weighted_em(t.unsqueeze(-1) * direction, torch.rand(2, 30, dtype=double), 2, 20)
    assert sane(p)
    values = torch.linalg.eigvalsh(p.components.covariance_matrix)
    torch.testing.assert_close(values[..., 0], values[:1, :1, 0].expand(2, 2))  # the floor


def test_row_of_zeros_is_uniform_without_gradient():
    w = torch.zeros(2, 64, dtype=double)
    w[1] = torch.rand(64)
    w.requires_grad_()
    p = weighted_em(GRID, w, 2)
    uniform = weighted_em(GRID, torch.ones(64, dtype=double), 2)
    torch.testing.assert_close(p.components.mean[0], uniform.components.mean)
    p.components.mean.sum().backward()
    assert (w.grad[0] == 0).all() and (w.grad[1] != 0).any()


def test_row_without_a_position():
    mask = torch.tensor([[True], [False]]).expand(2, 64)
    assert sane(weighted_em(GRID, torch.rand(2, 64, dtype=double), 3, mask=mask))


def test_nan_spoils_its_own_row():
    x, w = cloud(3)
    w[1, 3] = torch.nan
    p = weighted_em(x, w, 3)
    assert p.weights[1].isnan().all() and p.components.mean[1].isnan().all()
    assert p.mean[1].isnan().all() and p.covariance_matrix[1].isnan().all() and p.log_prob(GRID[0])[1].isnan()
    assert sane(weighted_em(x, w[[0, 2]], 3))
    torch.testing.assert_close(p.components.mean[0], weighted_em(x, w[0], 3).components.mean)
    places = x.repeat(2, 1, 1)
    places[1, 0, 0] = torch.inf
    p = weighted_em(places, w[0], 3)
    assert p.components.mean[1].isnan().all() and p.components.mean[0].isfinite().all()


def test_component_that_loses_its_mass_stays_away():
    """Two that explain the same points: sparse responsibilities leave one of them."""
    x, w = cloud()
    start = Mixture(
        torch.tensor([0.6, 0.3, 0.1], dtype=double), Gaussian(torch.zeros(3, 2, dtype=double), torch.tensor(9.0))
    )
    p = weighted_em(x, w, 3, 10, start, responsibilities="sparsemax")
    assert p.weights.tolist() == [1.0, 0.0, 0.0]
    assert weighted_em(x, w, 3, 3, p).weights.tolist() == [1.0, 0.0, 0.0]


def test_floor_and_penalty_are_computed_in_double_precision():
    """Counts of points and of components meet them as integers, which torch would take for single precision."""
    x, w = grid_positions(9, dtype=double), torch.eye(9, dtype=double)[0]
    p = select_components(x, w, 2, Linear(0.3), 1, init="split")
    torch.testing.assert_close(p.components.covariance_matrix[0, 0, 0].item(), 1 / (12 * 9**2), rtol=1e-14, atol=0)
    expected = math.log(2 * math.pi / (12 * 9**2)) + 0.3  # -2 log of the peak of a Gaussian, and the penalty
    torch.testing.assert_close(p.scores[0].item(), expected, rtol=1e-14, atol=0)
