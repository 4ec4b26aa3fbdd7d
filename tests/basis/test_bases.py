"""Truncated paraboloids, waves, boxes and monomials: values, grids, derivatives, errors."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from scipy import integrate
from torch.autograd import gradcheck, gradgradcheck

from omegamax.basis import (
    Basis,
    Fourier,
    GaussianRBF,
    Polynomial,
    Rectangles,
    TruncatedParaboloidRBF,
    grid_positions,
)

F64 = torch.float64


def every_basis(n: int = 2) -> dict[str, Basis]:
    return {
        "gaussian": GaussianRBF.grid(3, n, 0.05, dtype=F64),
        "paraboloid": TruncatedParaboloidRBF.grid(3, n, 0.02, dtype=F64),
        "fourier": Fourier.grid(2, n, dtype=F64),
        "rectangles": Rectangles.grid(4, n, dtype=F64),
        "polynomial": Polynomial.total_degree(3, n),
    }


every = pytest.mark.parametrize("name", list(every_basis()))


@every
def test_shapes_dtypes_and_moves(name: str):
    for n in (1, 2, 3):
        basis = every_basis(n)[name]
        assert basis(torch.rand(4, 2, n, dtype=F64)).shape == (4, 2, len(basis))
        assert basis(torch.rand(n, dtype=F64)).shape == (len(basis),)
        assert basis(torch.rand(0, n, dtype=F64)).shape == (0, len(basis))
        assert basis.dimension == n and not basis.state_dict() and not list(basis.parameters())
        single = copy.deepcopy(basis).float()
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            assert single(torch.rand(5, n).to(dtype)).dtype == torch.float32
        assert single(torch.rand(5, n, dtype=F64)).dtype == F64
        t = torch.rand(6, n)
        assert torch.allclose(single(t).double(), basis(t.double()), atol=2e-5)
        before = [b.dtype for b in single.buffers()]
        assert [b.dtype for b in single.half().buffers()] == before
        assert f"J={len(basis)}, n={n}" in repr(basis)


@every
def test_gradients_in_the_points(name: str):
    basis = every_basis()[name]
    t = (0.8 * torch.rand(4, 2, dtype=F64) + 0.1).requires_grad_()
    if name == "rectangles":
        assert not basis(t).requires_grad
        return
    assert gradcheck(basis, (t,)) and gradgradcheck(basis, (t,))


@every
def test_compiles_without_graph_breaks(name: str):
    basis = every_basis()[name]
    t = torch.rand(4, 2, dtype=F64)
    assert torch.equal(torch.compile(basis, fullgraph=True, backend="eager")(t), basis(t))


@every
def test_points_of_the_wrong_kind(name: str):
    basis = every_basis()[name]
    with pytest.raises(ValueError, match=rf"{type(basis).__name__}: t must be \[\*, 2\], got shape \(3,\)"):
        basis(torch.zeros(3))
    with pytest.raises(TypeError, match=rf"{type(basis).__name__}: t must be a floating-point tensor"):
        basis(torch.zeros(3, 2).long())


# Truncated paraboloids


@pytest.mark.parametrize("scale", [0.002, 0.3, 4.0])
def test_paraboloids_are_densities_on_the_line(scale: float):
    basis = TruncatedParaboloidRBF(torch.tensor([[0.3]], dtype=F64), scale)
    half_width = (1.5 * scale) ** (1 / 3)
    assert math.isclose(basis.height.item(), half_width**2 / (2 * scale), rel_tol=1e-12)
    value, _ = integrate.quad(
        lambda x: basis(torch.tensor([x], dtype=F64)).item(), 0.3 - half_width, 0.3 + half_width, epsabs=1e-12
    )
    assert abs(value - 1) <= 1e-10
    outside = torch.tensor([[0.3 + 1.0001 * half_width], [0.3 - 1.0001 * half_width], [1e6]], dtype=F64)
    assert (basis(outside) == 0).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_paraboloids_are_densities_in_any_dimension(n: int):
    # In whitened coordinates: surface of the sphere times the integral of (h - r^2/2) r^(n-1), times |Sigma|^(1/2).
    a = torch.randn(3, n, n, dtype=F64)
    sigma = a @ a.mT + 0.3 * torch.eye(n, dtype=F64)
    basis = TruncatedParaboloidRBF(torch.randn(3, n, dtype=F64), sigma)
    assert torch.allclose(basis.covariance, sigma)
    surface = 2 * math.pi ** (n / 2) / math.gamma(n / 2)
    for h, s in zip(basis.height.tolist(), sigma, strict=True):
        radial, _ = integrate.quad(lambda r, h=h: (h - r * r / 2) * r ** (n - 1), 0, math.sqrt(2 * h))
        assert abs(surface * radial * torch.linalg.det(s).sqrt().item() - 1) <= 1e-9
    t = basis.centers + 0.3 * torch.randn(3, n, dtype=F64)
    d = (t[:, None] - basis.centers).numpy()
    q = np.einsum("lji,jik,ljk->lj", d, np.linalg.inv(sigma.numpy()), d)
    assert torch.allclose(basis(t), (basis.height - torch.as_tensor(q) / 2).clamp(min=0), rtol=1e-10, atol=1e-12)


def test_paraboloids_with_peak_one():
    sigma = torch.tensor([0.1, 0.4], dtype=F64)
    centers = torch.tensor([[0.2, 0.1], [0.5, 0.9]], dtype=F64)
    plain = TruncatedParaboloidRBF(centers, sigma)
    raw = TruncatedParaboloidRBF(centers, sigma, normalised=False)
    t = torch.rand(20, 2, dtype=F64)
    assert (raw(centers).diagonal() == 1).all()
    assert torch.allclose(raw(t), raw.log_weight.exp() * plain(t)) and torch.equal(raw.height, plain.height)
    assert torch.equal(plain.log_weight, torch.zeros(2, dtype=F64)) and not raw.shared
    grid = TruncatedParaboloidRBF.grid((2, 3), 2, [0.1, 0.2], normalised=False)
    assert torch.equal(grid.centers, GaussianRBF.grid((2, 3), 2, [0.1, 0.2]).centers) and not grid.normalised


# Waves


def test_waves_are_cosines_then_sines():
    w = torch.randn(5, 3, dtype=F64)
    t = torch.randn(7, 3, dtype=F64)
    values = Fourier(w)(t)
    for f in range(5):
        phase = t.numpy() @ w[f].numpy()
        assert np.allclose(values[:, f], np.cos(phase), atol=1e-14)
        assert np.allclose(values[:, 5 + f], np.sin(phase), atol=1e-14)


def test_waves_of_a_grid_are_orthogonal_with_their_period():
    for n, count, period in ((1, 4, 1.0), (2, 2, 1.0), (2, (1, 2), 2.0), (3, 1, 1.0)):
        basis = Fourier.grid(count, n, period, dtype=F64)
        sizes = (count,) * n if isinstance(count, int) else count
        waves = (np.prod([2 * c + 1 for c in sizes]) + 1) // 2
        assert len(basis) == 2 * waves and (basis.frequencies[0] == 0).all()
        values = basis(period * grid_positions((11,) * n, dtype=F64))  # exact for waves this long
        gram = values.T @ values / len(values)
        expected = torch.full((2 * waves,), 0.5, dtype=F64)
        expected[0], expected[waves] = 1, 0  # the constant; its sine
        assert torch.allclose(gram, torch.diag(expected), atol=1e-12)
    assert torch.equal(Fourier.grid(3, 1, dtype=F64).frequencies[:, 0], 2 * math.pi * torch.arange(4, dtype=F64))
    assert Fourier.grid((1, 3), 2).frequencies.abs().amax(0).tolist() == pytest.approx([6 * math.pi, 2 * math.pi])


# Boxes


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_cells_of_a_grid_sum_to_one_everywhere(dtype: torch.dtype):
    for n, per_axis in ((1, 7), (2, (3, 5)), (3, 3)):
        basis = Rectangles.grid(per_axis, n, dtype=dtype)
        corners = torch.cat([basis.lower, basis.upper]).to(F64)
        t = torch.cat([torch.rand(500, n, dtype=F64), corners, torch.zeros(1, n), torch.ones(1, n)])
        for points in (t, t.float(), t.half()):
            assert (basis(points).sum(-1) == 1).all()
        assert (basis(torch.tensor([[-1e-9] * n, [1 + 1e-9] * n], dtype=F64)) == 0).all()
        size = (per_axis,) * n if isinstance(per_axis, int) else per_axis
        assert torch.equal(basis(grid_positions(size)), torch.eye(len(basis), dtype=dtype))


def test_boxes_at_any_position():
    basis = Rectangles(torch.tensor([[0.0, 0.0], [0.5, 0.5]]), torch.tensor([[0.5, 1.0], [2.0, 0.75]]))
    t = torch.tensor([[0.25, 1.0], [0.5, 0.0], [2.0, 0.5], [2.0, 0.75], [0.25, 1.1]])
    assert basis(t).tolist() == [[1, 0], [0, 0], [0, 1], [0, 0], [0, 0]]


# Monomials


def test_monomials_against_numpy():
    basis = Polynomial.total_degree(4, 3)
    assert len(basis) == math.comb(7, 3) and basis.exponents.dtype == torch.int64
    t = torch.randn(6, 3, dtype=F64)
    for j, e in enumerate(basis.exponents.tolist()):
        assert np.allclose(basis(t)[:, j], np.prod(t.numpy() ** e, -1), rtol=1e-13)
    assert basis.exponents.sum(-1).diff().min() >= 0 and len(set(map(tuple, basis.exponents.tolist()))) == len(basis)
    assert torch.equal(Polynomial.total_degree(0, 2)(t[:, :2]), torch.ones(6, 1, dtype=F64))


def test_monomials_have_derivatives_at_zero():
    basis = Polynomial.total_degree(3, 2)
    t = torch.zeros(1, 2, dtype=F64, requires_grad=True)
    assert gradcheck(basis, (t,)) and gradgradcheck(basis, (t,))


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda: Fourier([1.0]), TypeError, "Fourier: frequencies must be a tensor"),
        (lambda: Fourier(torch.ones(2, 2).long()), TypeError, "Fourier: frequencies must be a floating-point"),
        (lambda: Fourier.grid(2, 1, 0.0), ValueError, "Fourier.grid: period must be"),
        (lambda: Fourier.grid((2, 2), 1), ValueError, "Fourier.grid: count must have one entry"),
        (lambda: Rectangles(torch.zeros(2, 1), torch.ones(2, 2)), ValueError, "Rectangles: lower and upper must"),
        (lambda: Rectangles(torch.zeros(2, 1), torch.zeros(2, 1)), ValueError, "lower must be < upper"),
        (lambda: Rectangles(torch.zeros(2, 1).long(), torch.ones(2, 1)), TypeError, "Rectangles: lower must be a flo"),
        (lambda: Polynomial(torch.ones(2, 1)), TypeError, "Polynomial: exponents must be an integer"),
        (lambda: Polynomial(-torch.ones(2, 1).long()), ValueError, "Polynomial: exponents must be >= 0"),
        (lambda: Polynomial.total_degree(-1, 2), ValueError, "degree must be an integer >= 0"),
        (lambda: Polynomial.total_degree(1, 0), ValueError, "n must be an integer >= 1"),
        (lambda: TruncatedParaboloidRBF(torch.zeros(2, 1), -1.0), ValueError, "TruncatedParaboloidRBF: scale must"),
    ],
)
def test_errors_name_what_is_wrong(make, error, match):
    with pytest.raises(error, match=match):
        make()
