"""Gaussian RBFs against scipy's normal density and quadrature; the forms of their scale."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.autograd import gradcheck, gradgradcheck

from omegamax.basis import Basis, GaussianRBF, grid_positions

F64 = torch.float64


def spd(count: int, n: int) -> torch.Tensor:
    a = torch.randn(count, n, n, dtype=F64)
    return a @ a.mT / n + 0.2 * torch.eye(n, dtype=F64)


def scales(count: int, n: int) -> dict[str, float | torch.Tensor]:
    v = torch.rand(count, dtype=F64) + 0.1
    return {
        "number": 0.3,
        "scalar": torch.tensor(0.3, dtype=F64),
        "each": v,
        "diagonal": torch.rand(count, n, dtype=F64) + 0.1,
        "full": spd(count, n),
        "one for all": spd(1, n),
    }


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", list(scales(1, 1)))
def test_values_are_normal_densities(n: int, kind: str):
    count = 4
    centers, scale = torch.rand(count, n, dtype=F64), scales(count, n)[kind]
    t = torch.randn(5, 3, n, dtype=F64)
    basis, raw = GaussianRBF(centers, scale), GaussianRBF(centers, scale, normalised=False)
    assert basis(t).shape == (5, 3, count) and len(basis) == count and basis.dimension == n
    for j in range(count):
        normal = stats.multivariate_normal(centers[j].numpy(), basis.covariance[j].numpy())
        expected = torch.as_tensor(normal.pdf(t.numpy())).reshape(5, 3)
        assert torch.allclose(basis(t)[..., j], expected, rtol=1e-12, atol=1e-14)
        assert torch.allclose(raw(t)[..., j], expected / normal.pdf(centers[j].numpy()), rtol=1e-12, atol=1e-14)
        assert math.isclose(raw.log_weight[j], -normal.logpdf(centers[j].numpy()), rel_tol=1e-12, abs_tol=1e-13)
    assert torch.equal(basis.log_weight, torch.zeros(count, dtype=F64))
    assert torch.allclose(raw(t), raw.log_weight.exp() * basis(t), rtol=1e-12)
    assert (raw(centers).diagonal() == 1).all()


def test_bumps_integrate_to_one():
    basis = GaussianRBF(torch.tensor([[0.2], [0.9]], dtype=F64), torch.tensor([0.01, 0.2], dtype=F64))
    for j in range(2):
        value, _ = integrate.quad(lambda x, j=j: basis(torch.tensor([x], dtype=F64))[j].item(), -3, 4, points=[0.2])
        assert abs(value - 1) <= 1e-9
    plane = GaussianRBF(torch.tensor([[0.3, 0.6]], dtype=F64), torch.tensor([[[0.2, 0.1], [0.1, 0.4]]], dtype=F64))
    axis = np.linspace(-8, 8, 321)  # the trapezoid is spectrally accurate for a Gaussian
    x, y = np.meshgrid(axis, axis)
    values = plane(torch.as_tensor(np.stack([x, y], -1)))[..., 0]
    assert abs(values.sum() * (axis[1] - axis[0]) ** 2 - 1) <= 1e-12


def test_scale_is_kept_in_its_simplest_form():
    centers = torch.rand(3, 2, dtype=F64)
    eye = torch.eye(2, dtype=F64)
    for scale in (0.3, torch.full((3,), 0.3, dtype=F64), torch.full((3, 2), 0.3, dtype=F64), 0.3 * eye[None]):
        basis = GaussianRBF(centers, scale)
        assert torch.equal(basis.variance, torch.full((3,), 0.3, dtype=F64)) and basis.shared
        assert torch.equal(basis.covariance, 0.3 * eye.expand(3, 2, 2))
    several = GaussianRBF(centers, torch.tensor([0.1, 0.2, 0.3], dtype=F64))
    assert several.variance is not None and not several.shared
    diagonal = GaussianRBF(centers, torch.tensor([[0.1, 0.2]], dtype=F64))
    assert diagonal.variance is None and not diagonal.shared
    assert torch.equal(diagonal.covariance, torch.diag(torch.tensor([0.1, 0.2], dtype=F64)).expand(3, 2, 2))


def test_two_axes_are_diagonals_even_where_they_look_like_a_matrix():
    basis = GaussianRBF(torch.zeros(2, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert torch.equal(basis.covariance, torch.diag_embed(torch.tensor([[1.0, 2.0], [3.0, 4.0]])))


def test_grid_orders_its_nodes_as_grid_positions_does():
    basis = GaussianRBF.grid((2, 3), 2, 0.1)
    expected = torch.tensor([[0, 0], [0.5, 0], [1, 0], [0, 1], [0.5, 1], [1, 1]])
    assert torch.equal(basis.centers, expected) and basis.shared
    cells = grid_positions((2, 3)) * torch.tensor([3, 2]) - 0.5  # column and row of each
    assert torch.allclose(basis.centers * torch.tensor([2, 1]), cells)
    assert GaussianRBF.grid(4, 3, 0.1).centers.shape == (64, 3)
    assert torch.equal(GaussianRBF.grid(1, 2, 0.1).centers, torch.full((1, 2), 0.5))
    stacked = GaussianRBF.grid(3, 1, [0.01, 0.25], normalised=False, dtype=F64)
    assert torch.equal(stacked.centers[:3], stacked.centers[3:]) and not stacked.shared and not stacked.normalised
    assert torch.equal(stacked.variance, torch.tensor([0.01] * 3 + [0.25] * 3, dtype=F64))


@pytest.mark.parametrize("kind", ["number", "diagonal", "full"])
def test_gradients_in_the_points(kind: str):
    basis = GaussianRBF(torch.rand(3, 2, dtype=F64), scales(3, 2)[kind])
    t = torch.rand(4, 2, dtype=F64, requires_grad=True)
    assert gradcheck(basis, (t,)) and gradgradcheck(basis, (t,))


def test_basis_moves_with_its_model_and_leaves_no_trace():
    model = torch.nn.Sequential(GaussianRBF.grid(4, 1, 0.1), torch.nn.Linear(4, 2))
    assert list(model.state_dict()) == ["1.weight", "1.bias"] and len(list(model.parameters())) == 2
    basis = model[0]
    assert isinstance(basis, Basis)
    model.double()
    assert basis.centers.dtype == F64 and basis.variance.dtype == F64
    model.half()  # not the basis: a centre would be rounded to 2^-11
    assert basis.centers.dtype == F64 and model[1].weight.dtype == torch.float16
    assert copy.deepcopy(basis)(torch.rand(2, 1)).shape == (2, 4)
    assert GaussianRBF(torch.rand(2, 1).half(), 0.1).centers.dtype == torch.float32


def test_values_come_in_the_wider_dtype():
    basis = GaussianRBF.grid(4, 1, 0.1)
    assert basis(torch.rand(2, 1)).dtype == torch.float32
    assert basis(torch.rand(2, 1, dtype=F64)).dtype == F64
    assert basis(torch.rand(2, 1).bfloat16()).dtype == torch.float32


def test_far_points_give_zero_and_nothing_else():
    basis = GaussianRBF.grid(4, 2, 1e-4)
    t = torch.tensor([[1e4, -1e4], [3e18, 0.0]], requires_grad=True)
    basis(t).sum().backward()
    assert (basis(t) == 0).all() and (t.grad == 0).all()


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda: GaussianRBF([[0.0]], 1.0), TypeError, "centers must be a tensor"),
        (lambda: GaussianRBF(torch.zeros(3), 1.0), ValueError, r"centers must be \[J, n\]"),
        (lambda: GaussianRBF(torch.zeros(3, 1, dtype=torch.long), 1.0), TypeError, "floating-point"),
        (lambda: GaussianRBF(torch.zeros(3, 1), 0.0), ValueError, "scale must be > 0"),
        (lambda: GaussianRBF(torch.zeros(3, 1), "wide"), TypeError, "scale must be a float or a tensor"),
        (lambda: GaussianRBF(torch.zeros(3, 1), torch.ones(2)), ValueError, r"got shape \(2,\)"),
        (lambda: GaussianRBF(torch.zeros(3, 2), torch.ones(1, 1, 2, 2)), ValueError, "scale must be a number"),
        (lambda: GaussianRBF(torch.zeros(2, 1), torch.tensor([1.0, -1.0])), ValueError, "scale must be > 0"),
        (lambda: GaussianRBF(torch.zeros(1, 2), torch.tensor([[[1.0, 2], [2, 1]]])), ValueError, "positive definite"),
        (lambda: GaussianRBF(torch.zeros(1, 2), torch.tensor([[[1.0, 2], [0, 1]]])), ValueError, "symmetric"),
        (lambda: GaussianRBF.grid((3, 3), 3, 0.1), ValueError, "one entry for each of 3 axes"),
        (lambda: GaussianRBF.grid(0, 1, 0.1), ValueError, "at least 1"),
        (lambda: GaussianRBF.grid(3, 1, []), ValueError, "positive numbers"),
        (lambda: GaussianRBF.grid(3, 1, [0.1, -1]), ValueError, "positive numbers"),
        (lambda: GaussianRBF.grid(3, 2, 0.1)(torch.zeros(5, 3)), ValueError, r"t must be \[\*, 2\]"),
        (lambda: GaussianRBF.grid(3, 1, 0.1)(torch.zeros(5, 1).long()), TypeError, "t must be a floating-point"),
    ],
)
def test_errors_name_what_is_wrong(make, error, match):
    with pytest.raises(error, match=match) as caught:
        make()
    assert "GaussianRBF" in str(caught.value)
