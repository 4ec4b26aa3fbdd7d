"""Gaussian functions under densities that are thin, wide or nearly singular, against integrals with 45 digits."""

from __future__ import annotations

import functools
import math

import mpmath as mp
import pytest
import torch
from torch import Tensor

import omegamax
from densities.expectations import thin_oracle
from omegamax.basis import Fourier, GaussianRBF, Polynomial, Rectangles, TruncatedParaboloidRBF
from omegamax.densities import BetaGaussian
from omegamax.densities.expectations._frame import orthogonalise_rows

F64 = torch.float64
ALPHAS = [0.7, 0.99, 1.0, 1.00005, 1.5, 2.0, 3.0]
CONDITIONS = [1e8, 1e12]
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)
every_dimension = pytest.mark.parametrize("n", [2, 3, 5])


@functools.cache
def case(n: int, condition: float, rotated: bool) -> tuple[Tensor, Tensor, Tensor]:
    """A location, a factor of Sigma, and the centre of a function."""
    generator = torch.Generator().manual_seed(n)
    widths = torch.logspace(0, -math.log10(condition) / 2, n, dtype=F64) * {1e8: 30.0, 1e12: 0.3}[condition]
    widths = widths[torch.randperm(n, generator=generator)]
    loc, apart = torch.randn(2, n, dtype=F64, generator=generator) * 0.3
    root = torch.diag(widths)
    if rotated:
        turn = torch.linalg.qr(torch.randn(n, n, dtype=F64, generator=generator))[0]
        root = torch.linalg.qr((turn * widths).mT)[1].mT
        root = root * root.diagonal().sign()
    return loc, root.tril(), (loc + apart).unsqueeze(0)


def scales(n: int, kind: str) -> Tensor | float:
    """Of a basis function, ``[1, n]`` or ``[1, n, n]``."""
    generator = torch.Generator().manual_seed(17 + n)
    if kind == "isotropic":
        return 0.3
    if kind == "diagonal":
        return 0.1 + torch.rand(1, n, dtype=F64, generator=generator)
    if kind == "thin":
        return torch.logspace(-6, 0, n, dtype=F64).unsqueeze(0)
    factor = torch.randn(1, n, n, dtype=F64, generator=generator)
    return 0.2 * factor @ factor.mT + 0.1 * torch.eye(n, dtype=F64)


@pytest.fixture(params=["auto", "reference"])
def backend(request):
    with omegamax.backend(request.param):
        yield request.param


@functools.cache
def truth(alpha: float, n: int, condition: float, rotated: bool, kind: str) -> Tensor:
    loc, root, centers = case(n, condition, rotated)
    covariance = GaussianRBF(centers, scales(n, kind)).covariance
    return torch.tensor([thin_oracle.expectation(alpha, root, loc, centers[0], covariance[0])], dtype=F64)


@every_alpha
@every_dimension
@pytest.mark.parametrize("kind", ["isotropic", "full", "thin"])
def test_value_of_any_condition(alpha, n, kind, backend):
    for condition in CONDITIONS:
        for rotated in (False, True):
            loc, root, centers = case(n, condition, rotated)
            density, basis = BetaGaussian(loc, alpha=alpha, scale_tril=root), GaussianRBF(centers, scales(n, kind))
            expected = truth(alpha, n, condition, rotated, kind)
            largest = min(density.log_peak.exp().item(), basis(centers[0]).item())  # no expectation is larger
            torch.testing.assert_close(density.expect(basis), expected, rtol=2e-11, atol=1e-13 * largest)


def slope(alpha: float, basis: GaussianRBF, parameters: list[Tensor], which: int, axis: int) -> float:
    """In an entry of the logarithms of a diagonal Sigma, or of the location: a difference with 45 digits."""
    step = mp.mpf("1e-12")

    def at(amount: mp.mpf) -> mp.mpf:
        numbers = [[mp.mpf(float(x)) for x in parameter] for parameter in parameters]
        numbers[which][axis] += amount
        widths, loc = [mp.exp(x / 2) for x in numbers[0]], numbers[1]
        root = [[w if i == j else mp.mpf(0) for j in range(len(widths))] for i, w in enumerate(widths)]
        return thin_oracle.exact(alpha, root, loc, basis.centers[0], basis.covariance[0])

    with mp.workdps(thin_oracle.DIGITS):
        return float((at(step) - at(-step)) / (2 * step))


@every_alpha
@pytest.mark.parametrize("n", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["isotropic", "full"])
def test_gradient_of_any_condition(alpha, n, kind):
    for condition in CONDITIONS:
        loc, root, centers = case(n, condition, False)
        basis = GaussianRBF(centers, scales(n, kind))
        leaves = [(2 * root.diagonal().log()).requires_grad_(), loc.clone().requires_grad_()]
        value = BetaGaussian(leaves[1], alpha=alpha, scale_diag=leaves[0].exp()).expect(basis)
        fixed = [leaf.detach() for leaf in leaves]
        for which, gradient in enumerate(torch.autograd.grad(value.sum(), leaves)):
            expected = torch.tensor([slope(alpha, basis, fixed, which, i) for i in range(n)], dtype=F64)
            torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-11 * value.item())


@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("condition", [1e6, 1e10, 1e12])
@pytest.mark.parametrize("kind", ["isotropic", "diagonal", "full"])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_gaussian_is_the_density_of_a_sum(n, condition, kind, as_tensor):
    """``N(c; mu, Sigma + S)`` and its gradient in Sigma, both of which feel nothing of the condition of Sigma."""
    generator = torch.Generator().manual_seed(n)
    turn = torch.linalg.qr(torch.randn(n, n, dtype=F64, generator=generator))[0]
    sigma = (turn * torch.logspace(0, -math.log10(condition), n, dtype=F64)) @ turn.mT
    sigma = ((sigma + sigma.mT) / 2).requires_grad_()
    loc, *centers = torch.randn(2, n, dtype=F64, generator=generator) * 0.3
    basis = GaussianRBF(torch.stack(centers), scales(n, kind))
    alpha = torch.ones((), dtype=F64) if as_tensor else 1.0
    value = BetaGaussian(loc, sigma, alpha).expect(basis)
    (gradient,) = torch.autograd.grad(value.sum(), sigma)
    total, expected = mp.matrix(n), []
    with mp.workdps(40):
        for center, covariance in zip(basis.centers, basis.covariance, strict=True):
            matrix = mp.matrix([[mp.mpf(float(x)) for x in row] for row in sigma.detach()])
            matrix += mp.matrix([[mp.mpf(float(x)) for x in row] for row in covariance])
            inverse = mp.inverse(matrix)
            d = mp.matrix([mp.mpf(float(c)) - mp.mpf(float(m)) for c, m in zip(center, loc, strict=True)])
            height = mp.exp(-(d.T * inverse * d)[0] / 2) / mp.sqrt(mp.det(2 * mp.pi * matrix))
            expected.append(float(height))
            total += height / 2 * (inverse * d * d.T * inverse - inverse)
    torch.testing.assert_close(value, torch.tensor(expected, dtype=F64), rtol=2e-14, atol=0)
    slopes = torch.tensor([[float(total[i, j]) for j in range(n)] for i in range(n)], dtype=F64)
    torch.testing.assert_close(gradient, slopes, rtol=1e-12, atol=1e-13 * slopes.abs().max().item())


@every_alpha
@pytest.mark.parametrize(
    "basis",
    [
        GaussianRBF(torch.tensor([[0.1, 0.2]], dtype=F64), torch.tensor([[[0.2, 0.1], [0.1, 0.3]]], dtype=F64)),
        TruncatedParaboloidRBF(torch.tensor([[0.1, 0.2]], dtype=F64), 0.3),
        Fourier(torch.tensor([[1.0, 2.0], [30.0, -3.0]], dtype=F64)),
        Rectangles(torch.tensor([[-0.5, -0.2]], dtype=F64), torch.tensor([[0.4, 1.0]], dtype=F64)),
        Polynomial(torch.tensor([[0, 0], [1, 0], [0, 1]])),
    ],
    ids=lambda basis: type(basis).__name__,
)
def test_forms_of_a_diagonal_scale_agree(alpha, basis):
    """However a diagonal Sigma is given, and in whichever order its coordinates come."""
    diagonal = torch.tensor([2.0, 2e-12], dtype=F64)
    loc = torch.tensor([0.05, 0.1], dtype=F64)
    forms = [{"scale": torch.diag(diagonal)}, {"scale_diag": diagonal}, {"scale_tril": torch.diag(diagonal.sqrt())}]
    values = [BetaGaussian(loc, alpha=alpha, **form).expect(basis) for form in forms]
    for value in values[1:]:
        torch.testing.assert_close(value, values[0], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 10])
def test_rotations_leave_orthogonal_rows_of_any_size(n):
    sizes = torch.logspace(0, -12, n, dtype=F64).unsqueeze(-1)
    matrix = sizes * torch.randn(6, n, n, dtype=F64)
    eye = torch.eye(n, dtype=F64).expand(6, n, n)
    rows, turn = orthogonalise_rows(matrix, eye)
    unit = rows / rows.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(unit @ unit.mT, eye, rtol=0, atol=4e-15 * n)
    torch.testing.assert_close(turn @ turn.mT, eye, rtol=0, atol=4e-15 * n)
    diagonal = torch.diag(sizes.squeeze(-1))
    assert torch.equal(orthogonalise_rows(diagonal, eye[0])[0], diagonal)


def test_a_matrix_of_nan_spoils_its_own_entry_only():
    scale = torch.stack([torch.eye(3, dtype=F64), torch.full((3, 3), math.nan, dtype=F64)])
    basis = GaussianRBF(torch.zeros(1, 3, dtype=F64), scales(3, "full"))
    for alpha in (0.8, 1.0, 2.0):
        value = BetaGaussian(torch.zeros(2, 3, dtype=F64), scale, alpha, validate_args=False).expect(basis)
        assert value[0].isfinite().all() and value[1].isnan().all()
