"""Truncated paraboloids as basis functions, against quadrature."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from densities.expectations import line_oracle
from densities.expectations.modes import check_mapped_and_compiled
from omegamax.basis import TruncatedParaboloidRBF
from omegamax.densities import BetaGaussian, BetaLaplace, LocationScale

F64 = torch.float64
ALPHAS = [-0.5, 0.3, 1.0, 1.1, 1.25, 1.5, 1.7, 2.0, 4.0]
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)


def parabolas(centers: list[float], radius: float) -> TruncatedParaboloidRBF:
    """With peak 1."""
    return TruncatedParaboloidRBF(torch.tensor(centers, dtype=F64)[:, None], 2 / 3 * radius**3, normalised=False)


@pytest.mark.parametrize("sigma", [1e-4, 1.0, 1e3])
@every_alpha
def test_over_the_line(alpha: float, sigma: float):
    loc = torch.tensor([0.3], dtype=F64, requires_grad=True)
    scale = torch.tensor([[sigma**2]], dtype=F64, requires_grad=True)
    line = line_oracle.beta_gaussian(alpha, 0.3, sigma**2)
    if line.width < 1e-8:
        pytest.skip("a density of heavy tails that is narrower than any")
    size = min(line.radius, 3 * line.width)
    for radius in (1e-3, 0.1, 1e2):
        offsets = [0.0, 0.4 * size, -0.9 * size, size, size + 0.9 * radius, size - 0.8 * radius, -1.1 * radius]
        centers = [0.3 + x for x in offsets]
        for index in (alpha, torch.tensor(alpha, dtype=F64)):
            value = BetaGaussian(loc, scale, index).expect(parabolas(centers, radius))
            for j, center in enumerate(centers):
                exact, moved, grown = line.expect(line_oracle.paraboloid(center, radius))
                assert abs(value[j].item() - exact) <= 1e-12
                dloc, dscale = torch.autograd.grad(value[j], (loc, scale), retain_graph=True)
                assert abs(dloc.item() - moved) * max(size, radius) <= 1e-10
                assert abs((dscale * scale).item() - grown / (1 + alpha)) <= 1e-11


@pytest.mark.parametrize("alpha", [-0.5, 0.6, 1.2, 1.5, 2.0, 3.0])
def test_gradient_in_alpha(alpha: float):
    index = torch.tensor(alpha, dtype=F64, requires_grad=True)
    for center, radius in ((0.0, 0.1), (0.5, 0.7), (1.2, 0.6), (0.1, 50.0)):
        value = BetaGaussian(torch.zeros(1, dtype=F64), 0.5, index).expect(parabolas([center], radius))

        def exact(a: float) -> float:
            return line_oracle.beta_gaussian(a, 0.0, 0.5).expect(line_oracle.paraboloid(center, radius))[0]  # noqa: B023

        slope = line_oracle.derivative(exact, alpha, 2e-3)
        assert abs(torch.autograd.grad(value.sum(), index)[0].item() - slope) <= 1e-9


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.25, 3.5])
def test_gradcheck(alpha: float):
    loc = torch.tensor([[0.1], [0.4]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[[0.2]], [[0.003]]], dtype=F64, requires_grad=True)
    index = torch.full((2,), alpha, dtype=F64, requires_grad=True)
    centers = torch.tensor([[-0.8], [0.5], [0.2]], dtype=F64)
    basis = TruncatedParaboloidRBF(centers, torch.tensor([0.4, 0.02, 1e-5], dtype=F64))
    assert gradcheck(lambda *p: BetaGaussian(*p).expect(basis), (loc, scale, index))
    assert gradgradcheck(lambda *p: BetaGaussian(*p).expect(basis), (loc, scale, index), rtol=1e-2, atol=1e-4)
    assert gradcheck(lambda *p: BetaGaussian(*p, alpha).expect(basis), (loc, scale))
    assert gradgradcheck(lambda *p: BetaGaussian(*p, alpha).expect(basis), (loc, scale), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("alpha", [1.25, 1.7, 2.0, 4.0])
def test_apart_is_exactly_zero(alpha: float):
    loc = torch.zeros(1, dtype=F64, requires_grad=True)
    scale = torch.ones(1, 1, dtype=F64, requires_grad=True)
    radius = line_oracle.beta_gaussian(alpha, 0.0, 1.0).radius
    for index in (alpha, torch.tensor(alpha, dtype=F64)):
        value = BetaGaussian(loc, scale, index).expect(parabolas([radius + 0.5 + 1e-9, -radius - 3.0, 1e9], 0.5))
        grads = torch.autograd.grad(value.sum(), (loc, scale))
        assert torch.equal(value, torch.zeros(3, dtype=F64)) and all(bool((g == 0).all()) for g in grads)


def test_equal_parabolas_by_hand():
    # Of the density 3/4 (1 - t^2) with itself, 3/5.
    basis = TruncatedParaboloidRBF(torch.zeros(1, 1, dtype=F64), 2 / 3)
    value = BetaGaussian(torch.zeros(1, dtype=F64), 2 / 3, 2.0).expect(basis)
    assert abs(value.item() - 0.6) <= 1e-15


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5, 3.0])
def test_under_beta_laplace(alpha: float):
    line = line_oracle.beta_laplace(alpha, 0.2, 0.7)
    centers = [0.2, -0.1, 0.9, 1.5, 30.0]
    for radius in (0.05, 0.5, 20.0):
        value = BetaLaplace(torch.tensor([0.2], dtype=F64), 0.7, alpha).expect(parabolas(centers, radius))
        for j, center in enumerate(centers):
            assert abs(value[j].item() - line.expect(line_oracle.paraboloid(center, radius))[0]) <= 1e-11
    loc = torch.tensor([[0.2], [0.25]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[0.7], [0.3]], dtype=F64, requires_grad=True)
    index = torch.full((2,), alpha, dtype=F64, requires_grad=True)
    basis = parabolas([0.3, -0.1, 50.0], 0.4)
    assert gradcheck(lambda *p: BetaLaplace(*p).expect(basis), (loc, scale, index))
    assert gradgradcheck(lambda *p: BetaLaplace(*p).expect(basis), (loc, scale, index))


def test_under_location_scale():
    line = line_oracle.location_scale(np.cosh, np.sinh, 0.2, 0.7)
    loc = torch.tensor([[0.2], [0.25]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[0.7], [0.3]], dtype=F64, requires_grad=True)
    centers = [0.2, -0.1, 0.8, 1.5, 30.0]
    for radius in (0.05, 0.5, 20.0):
        value = LocationScale(torch.cosh, loc, scale).expect(parabolas(centers, radius))
        for j, center in enumerate(centers):
            assert abs(value[0, j].item() - line.expect(line_oracle.paraboloid(center, radius))[0]) <= 1e-12
    basis = parabolas([0.3, -0.1, 50.0], 0.4)
    assert gradcheck(lambda *p: LocationScale(torch.cosh, *p).expect(basis), (loc, scale))
    assert gradgradcheck(lambda *p: LocationScale(torch.cosh, *p).expect(basis), (loc, scale))


def test_single_precision_vmap_and_compile():
    basis = parabolas([0.0, 0.5, 3.0], 0.6)
    loc, scale = torch.randn(4, 1, dtype=F64), torch.rand(4, 1, 1, dtype=F64) + 0.02
    for alpha in (1.5, torch.tensor(1.2, dtype=F64)):

        def value(loc: Tensor, scale: Tensor, alpha: float | Tensor = alpha) -> Tensor:
            return BetaGaussian(loc, scale, alpha, validate_args=False).expect(basis)

        exact = check_mapped_and_compiled(value, loc, scale)
        single = value(loc.float(), scale.float())
        assert single.dtype == torch.float32 and (single - exact).abs().max() <= 1e-5
    assert math.isfinite(exact.sum().item())


def planar(centers: list[list[float]], scales: list[list[list[float]]]) -> TruncatedParaboloidRBF:
    return TruncatedParaboloidRBF(torch.tensor(centers, dtype=F64), torch.tensor(scales, dtype=F64), normalised=False)


def by_rays(density: BetaGaussian, basis: TruncatedParaboloidRBF, j: int) -> float:
    """Polar coordinates about the basis function's centre: radius by double-exponential nodes, angle adaptively."""
    alpha, loc = float(density.alpha), density.loc.numpy()
    root = np.linalg.cholesky(basis.covariance[j].numpy()) * math.sqrt(2 * basis.height[j].item())
    precision = np.linalg.inv(density.scale.numpy()) / (2 * density.dilation.item())
    apart = basis.centers[j].numpy() - loc

    def ray(angle: float) -> float:
        step = root @ np.array([math.cos(angle), math.sin(angle)])
        # r(x) = c + 2 b x + a x^2, the support being where e r < 1
        a, b, c = step @ precision @ step, step @ precision @ apart, apart @ precision @ apart
        low, high = 0.0, 1.0
        if alpha > 1:
            inside = b * b - a * (c - 1 / (alpha - 1))
            if inside <= 0:
                return 0.0
            low, high = max(low, (-b - math.sqrt(inside)) / a), min(high, (-b + math.sqrt(inside)) / a)
            if high <= low:
                return 0.0
        x = low + (high - low) * line_oracle._DE_X
        r = c + x * (2 * b + a * x)
        p = np.exp(-r) if alpha == 1 else np.maximum(1 - (alpha - 1) * r, 0) ** (1 / (alpha - 1))
        return float(((high - low) * line_oracle._DE_W * x * (1 - x) * (1 + x) * p).sum())

    ends = np.linspace(0, 2 * math.pi, 41)
    total = sum(quad(ray, a, b, epsabs=1e-13, epsrel=1e-10, limit=200)[0] for a, b in pairwise(ends))
    return total * abs(np.linalg.det(root)) * math.exp(density.log_peak.item())


PLANE = planar(
    [[0.3, 0.1], [1.0, 0.6], [0.4, -0.9], [0.9, -0.4], [0.2, 0.2]],
    [
        [[0.3, -0.1], [-0.1, 0.2]],
        [[0.2, 0.0], [0.0, 0.2]],
        [[9.0, 0.3], [0.3, 0.02]],
        [[0.001, 0.0], [0.0, 0.003]],
        [[50.0, 3.0], [3.0, 90.0]],
    ],
)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.2, 1.5, 1.7, 2.0, 3.0])
def test_over_the_plane(alpha: float):
    loc, scale = torch.tensor([0.1, -0.2], dtype=F64), torch.tensor([[0.5, 0.2], [0.2, 0.3]], dtype=F64)
    density = BetaGaussian(loc, scale, alpha)
    value = density.expect(PLANE)
    for j in range(len(PLANE)):
        assert abs(value[j].item() - by_rays(density, PLANE, j)) <= 1e-10
    index = torch.tensor(alpha, dtype=F64)
    assert (BetaGaussian(loc, scale, index).expect(PLANE) - value).abs().max() <= 1e-13


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 1.7, 2.0, 4.0])
def test_a_wide_paraboloid_sees_the_covariance(alpha: float):
    for size in (1e-4, 1e-2, 1.0):
        cov = size**2 * torch.tensor([[1.0, 0.6], [0.6, 0.5]], dtype=F64)
        density = BetaGaussian.from_moments(torch.tensor([0.3, -0.1], dtype=F64), cov, alpha)
        far = 1e5 if alpha >= 1 else 1e9  # heavy tails leave every ellipse
        basis = planar([[0.5, 0.2]], [[[far, 0.0], [0.0, 2 * far]]])
        inverse = torch.linalg.inv(basis.covariance[0]) / (2 * basis.height[0])
        apart = basis.centers[0] - density.loc
        exact = 1 - apart @ inverse @ apart - (inverse * cov).sum()
        assert abs(density.expect(basis).item() - exact.item()) <= 1e-12


def test_a_narrow_paraboloid_inside_another():
    # Under the quadratic density the mean over a small paraboloid is the density at its centre, less half the trace.
    for size in (1e-6, 1e-3, 0.1):
        density = BetaGaussian(torch.tensor([0.3, -0.1], dtype=F64), torch.tensor([[0.5, 0.2], [0.2, 0.3]], dtype=F64))
        small = BetaGaussian.from_moments(
            torch.tensor([0.5, 0.0], dtype=F64), size**2 * torch.tensor([[1.0, -0.9], [-0.9, 1.0]], dtype=F64), 2.0
        )
        basis = TruncatedParaboloidRBF(small.loc[None], small.scale[None])
        bend = (torch.linalg.inv(density.scale) * small.covariance_matrix).sum() / 2
        exact = density.prob(small.loc) - bend
        loc = density.loc.clone().requires_grad_()
        value = BetaGaussian(loc, density.scale).expect(basis)
        assert abs(value.item() - exact.item()) <= 1e-12
        slope = torch.linalg.solve(density.scale, small.loc - density.loc)
        assert (torch.autograd.grad(value.sum(), loc)[0] - slope).abs().max() <= 1e-10


@pytest.mark.parametrize("alpha", [1.5, 1.7, 3.0])
def test_ellipses_apart_are_exactly_zero(alpha: float):
    # Within each other's boxes, but not within each other.
    loc = torch.zeros(2, dtype=F64, requires_grad=True)
    scale = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=F64)
    basis = planar([[1.0, -1.0], [0.0, 50.0]], [[[0.1, 0.08], [0.08, 0.1]], [[0.1, 0.0], [0.0, 0.1]]])
    value = BetaGaussian(loc, scale, alpha).expect(basis)
    assert torch.equal(value, torch.zeros(2, dtype=F64))
    assert torch.equal(torch.autograd.grad(value.sum(), loc)[0], torch.zeros(2, dtype=F64))


@pytest.mark.parametrize("alpha", [0.6, 1.5, 3.0])
def test_gradcheck_over_the_plane(alpha: float):
    loc = torch.tensor([[0.1, -0.2], [0.5, 0.5]], dtype=F64, requires_grad=True)
    root = torch.tensor([[[0.7, 0.0], [0.2, 0.5]], [[0.05, 0.0], [-0.02, 0.1]]], dtype=F64, requires_grad=True)
    index = torch.full((2,), alpha, dtype=F64, requires_grad=True)
    basis = planar([[0.3, 0.1], [0.5, 0.45]], [[[0.3, -0.1], [-0.1, 0.2]], [[0.003, 0.001], [0.001, 0.01]]])

    def value(loc: Tensor, root: Tensor, alpha: float | Tensor = alpha) -> Tensor:
        return BetaGaussian(loc, scale_tril=root.tril(), alpha=alpha, validate_args=False).expect(basis)

    assert gradcheck(value, (loc, root, index), fast_mode=True)
    assert gradgradcheck(value, (loc, root, index), atol=1e-4, rtol=1e-3, fast_mode=True)
    if alpha == 1.5:
        assert gradcheck(value, (loc, root), fast_mode=True)
        assert gradgradcheck(value, (loc, root), atol=1e-4, rtol=1e-3, fast_mode=True)


def test_plane_in_batches_and_single_precision():
    loc, scale = torch.randn(3, 1, 2, dtype=F64), torch.eye(2, dtype=F64).expand(4, 2, 2) * 0.3
    exact = BetaGaussian(loc, scale, 1.5).expect(PLANE)
    assert exact.shape == (3, 4, 5)
    single = BetaGaussian(loc.float(), scale.float(), 1.5).expect(PLANE)
    assert single.dtype == torch.float32 and (single - exact).abs().max() <= 1e-5
    mapped = torch.vmap(lambda x: BetaGaussian(x, scale[0], 1.5, validate_args=False).expect(PLANE))(loc[:, 0])
    assert torch.allclose(mapped, exact[:, 0], rtol=0, atol=1e-13)
    with pytest.raises(NotImplementedError, match="needs 1 or 2 dimensions, got 3"):
        BetaGaussian(torch.zeros(3), 1.0).expect(TruncatedParaboloidRBF(torch.zeros(1, 3), 1.0))
