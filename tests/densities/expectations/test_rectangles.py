"""Masses of boxes, against distribution functions of scipy and quadrature."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from densities.expectations import line_oracle
from densities.expectations.modes import check_mapped_and_compiled
from omegamax.basis import Rectangles
from omegamax.densities import BetaGaussian, BetaLaplace, LocationScale

F64 = torch.float64
ALPHAS = [-0.8, 0.0, 0.5, 0.999, 1.0, 1.001, 1.25, 4 / 3, 1.5, 1.7, 2.0, 4.0, 10.0]
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)


def boxes(*ends: float) -> Rectangles:
    """From each end to the next."""
    t = torch.tensor(ends, dtype=F64)[:, None]
    return Rectangles(t[:-1], t[1:])


def distribution(alpha: float, variance: float):
    """The same density as a distribution of scipy: Beta over an interval, or Student's t."""
    line = line_oracle.beta_gaussian(alpha, 0.0, variance)
    if alpha == 1:
        return stats.norm(0, math.sqrt(variance)), math.sqrt(variance)
    if alpha > 1:
        m = 1 / (alpha - 1)
        return stats.beta(m + 1, m + 1, loc=-line.radius, scale=2 * line.radius), line.radius
    k = 1 / (1 - alpha)
    return stats.t(2 * k - 1, 0, line.width / math.sqrt(2 * k - 1)), line.width


@pytest.mark.parametrize("sigma", [1e-4, 1.0, 1e3])
@every_alpha
def test_masses_under_beta_gaussians(alpha: float, sigma: float):
    truth, size = distribution(alpha, sigma**2)
    ends = size * np.array([-math.inf, -5.0, -1.0, -0.999, -0.5, -0.4999, 0.0, 0.7, 1.0, 1.1, 40.0, math.inf])
    loc, scale = torch.zeros(1, dtype=F64), torch.tensor([[sigma**2]], dtype=F64)
    exact = np.diff(truth.cdf(ends))
    for index in (alpha, torch.tensor(alpha, dtype=F64)):
        value = BetaGaussian(loc, scale, index).expect(boxes(*ends))
        assert np.abs(value.numpy() - exact).max() <= 1e-12
        assert abs(value.sum().item() - 1) <= 1e-13
    if alpha > 1:  # nothing beyond the support
        assert value[0] == 0 and value[-2] == 0 and value[-1] == 0


@every_alpha
def test_gradients_under_beta_gaussians(alpha: float):
    index = torch.tensor(alpha, dtype=F64, requires_grad=True)
    loc, scale = (
        torch.tensor([0.1], dtype=F64, requires_grad=True),
        torch.tensor([[0.3]], dtype=F64, requires_grad=True),
    )
    basis = boxes(-math.inf, -0.5, 0.1, 0.25, 0.9, math.inf)
    ends = torch.cat([basis.lower, basis.upper[-1:]])[:, 0].numpy()
    line = line_oracle.beta_gaussian(alpha, 0.1, 0.3)
    heights = line.of_distance(np.minimum(np.abs(ends - 0.1), 1e6)) * np.isfinite(ends)
    # Moving or stretching the density does the contrary to the ends; it grows as Sigma^(1 / (1 + alpha)).
    flux = np.diff(-heights)
    stretch = np.diff(-heights * np.where(np.isfinite(ends), ends - 0.1, 0.0)) / (1 + alpha)
    for a in (alpha, index):
        value = BetaGaussian(loc, scale, a).expect(basis)
        for j in range(len(basis)):
            grads = torch.autograd.grad(value[j], (loc, scale), retain_graph=True)
            assert abs(grads[0].item() - flux[j]) <= 1e-11
            assert abs((grads[1] * scale).item() - stretch[j]) <= 1e-11
            if a is index:
                slope = line_oracle.derivative(
                    lambda x: np.diff(distribution(x, 0.3)[0].cdf(ends - 0.1))[j],  # noqa: B023
                    alpha,
                    0.0123 if abs(alpha - 1) < 0.01 else 4e-3,
                )
                got = torch.autograd.grad(value[j], index, retain_graph=True)[0].item()
                assert abs(got - slope) <= 1e-8 * max(1.0, abs(slope))


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5, 3.5])
def test_gradcheck(alpha: float):
    loc = torch.tensor([[0.1], [0.4], [-0.3]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[[0.2]], [[0.01]], [[3.0]]], dtype=F64, requires_grad=True)
    index = torch.full((3,), alpha, dtype=F64, requires_grad=True)
    basis = boxes(-math.inf, -0.35, 0.1, 0.37, 0.9)
    assert gradcheck(lambda *p: BetaGaussian(*p).expect(basis), (loc, scale, index))
    assert gradgradcheck(lambda *p: BetaGaussian(*p).expect(basis), (loc, scale, index))
    assert gradcheck(lambda *p: BetaGaussian(*p, alpha).expect(basis), (loc, scale))
    assert gradgradcheck(lambda *p: BetaGaussian(*p, alpha).expect(basis), (loc, scale))


@pytest.mark.parametrize("alpha", [0.3, 1.0, 1.5, 5.0])
def test_masses_under_beta_laplace(alpha: float):
    line = line_oracle.beta_laplace(alpha, 0.2, 0.7)
    ends = [-3.0, -0.5, 0.2, 0.21, 0.9, 8.0]
    value = BetaLaplace(torch.tensor([0.2], dtype=F64), 0.7, alpha).expect(boxes(-math.inf, *ends, math.inf))
    exact = [line.mean(np.ones_like, a, b) for a, b in pairwise(ends)]
    assert np.abs(value[1:-1].numpy() - exact).max() <= 1e-12 and abs(value.sum().item() - 1) <= 1e-13
    loc = torch.tensor([[0.2], [0.25]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[0.7], [0.3]], dtype=F64, requires_grad=True)
    index = torch.full((2,), alpha, dtype=F64, requires_grad=True)
    basis = boxes(-math.inf, -0.1, 0.3, 5.0)
    assert gradcheck(lambda *p: BetaLaplace(*p).expect(basis), (loc, scale, index))
    assert gradgradcheck(lambda *p: BetaLaplace(*p).expect(basis), (loc, scale, index))


def test_masses_under_location_scale():
    line = line_oracle.location_scale(np.cosh, np.sinh, 0.2, 0.7)
    ends = [-3.0, -0.3, 0.2, 0.21, 0.6, 8.0]
    loc = torch.tensor([[0.2], [0.25]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[0.7], [0.3]], dtype=F64, requires_grad=True)
    value = LocationScale(torch.cosh, loc, scale).expect(boxes(-math.inf, *ends, math.inf))
    exact = [line.mean(np.ones_like, a, b) for a, b in pairwise(ends)]
    assert np.abs(value[0, 1:-1].detach().numpy() - exact).max() <= 1e-12
    assert (value.sum(-1) - 1).abs().max() <= 1e-13
    basis = boxes(-math.inf, -0.1, 0.3, 5.0)
    assert gradcheck(lambda *p: LocationScale(torch.cosh, *p).expect(basis), (loc, scale))
    assert gradgradcheck(lambda *p: LocationScale(torch.cosh, *p).expect(basis), (loc, scale))


def test_cells_sum_to_one_in_single_precision():
    basis = Rectangles.grid(50, 1)
    for alpha in (0.9, 1.0, 1.5, 1.7, 2.0):
        value = BetaGaussian(torch.tensor([[0.4], [0.6]]), 1e-4, alpha).expect(basis)
        assert value.dtype == torch.float32 and value.shape == (2, 50)
        if alpha >= 1:
            assert (value.sum(-1) - 1).abs().max() <= 1e-5


def test_vmap_and_compile():
    basis = boxes(-math.inf, -0.1, 0.3, 5.0)
    loc, scale = torch.randn(4, 1, dtype=F64), torch.rand(4, 1, 1, dtype=F64) + 0.2
    for alpha in (1.5, torch.tensor(1.2, dtype=F64)):

        def value(loc: Tensor, scale: Tensor, alpha: float | Tensor = alpha) -> Tensor:
            return BetaGaussian(loc, scale, alpha, validate_args=False).expect(basis)

        check_mapped_and_compiled(value, loc, scale)


def random_boxes(count: int, generator: np.random.Generator) -> Rectangles:
    ends = np.sort(generator.normal(size=(count, 2, 2)) * 10 ** generator.uniform(-1.5, 1, size=(count, 1, 2)), axis=1)
    return Rectangles(torch.tensor(ends[:, 0]), torch.tensor(ends[:, 1]))


def random_scales(count: int, generator: np.random.Generator, decades: float = 1.5) -> Tensor:
    angle = generator.uniform(0, math.pi, count)
    turn = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], -1).reshape(count, 2, 2)
    axes = 10 ** generator.uniform(-2 * decades, 2 * decades, (count, 1, 2))
    return torch.tensor((turn * axes) @ turn.swapaxes(1, 2))


def test_normal_masses_over_the_plane():
    generator = np.random.default_rng(0)
    scales, basis = random_scales(6, generator, 0.7), random_boxes(6, generator)
    value = BetaGaussian(torch.full((6, 2), 0.1, dtype=F64), scales, 1.0).expect(basis)
    for i, scale in enumerate(scales):
        truth = stats.multivariate_normal([0.1, 0.1], scale.numpy())
        for j in range(len(basis)):
            exact = truth.cdf(basis.upper[j].numpy(), lower_limit=basis.lower[j].numpy())
            assert abs(value[i, j].item() - exact) <= 1e-9  # what scipy promises is less
    # The quadrant from the centre: 1/4 and the angle between the strips.
    quadrant = Rectangles(torch.zeros(1, 2, dtype=F64), torch.full((1, 2), math.inf, dtype=F64))
    for r in (-0.999999, -0.3, 0.0, 0.8, 0.99999999):
        scale = torch.tensor([[1.0, r], [r, 1.0]], dtype=F64)
        for alpha in (0.5, 1.0, 1.5, 2.6):  # for any round density
            value = BetaGaussian(torch.zeros(2, dtype=F64), scale, alpha).expect(quadrant).item()
            assert abs(value - 0.25 - math.asin(r) / (2 * math.pi)) <= 1e-11


@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.0, 1.1, 1.25, 1.5, 1.7, 2.0, 4.0])
def test_strips_over_the_plane_are_marginals(alpha: float):
    generator = np.random.default_rng(1)
    scales = random_scales(5, generator)
    loc = torch.tensor(generator.normal(size=(5, 2)))
    ends = np.sort(generator.normal(size=(8, 2)) * 10 ** generator.uniform(-2, 1, size=(8, 1)), axis=1)
    for axis in (0, 1):
        low, high = np.full((8, 2), -math.inf), np.full((8, 2), math.inf)
        low[:, axis], high[:, axis] = ends.T
        density = BetaGaussian(loc, scales, alpha)
        value = density.expect(Rectangles(torch.tensor(low), torch.tensor(high)))
        for i in range(5):
            size = math.sqrt(density.dilation[i].item() * scales[i, axis, axis].item())
            if alpha > 1:  # a density over the line with the power 1 / (alpha - 1) + 1/2
                m, a = 1 / (alpha - 1) + 0.5, size * math.sqrt(2 / (alpha - 1))
                truth = stats.beta(m + 1, m + 1, loc=loc[i, axis].item() - a, scale=2 * a)
            elif alpha < 1:
                k = 1 / (1 - alpha)
                truth = stats.t(2 * k - 2, loc[i, axis].item(), size * math.sqrt(2 * k / (2 * k - 2)))
            else:
                truth = stats.norm(loc[i, axis].item(), size)
            assert np.abs(value[i].numpy() - (truth.cdf(ends[:, 1]) - truth.cdf(ends[:, 0]))).max() <= 1e-10


@pytest.mark.parametrize("alpha", [0.3, 0.8, 1.0, 1.5, 1.6, 3.0])
def test_cells_of_the_plane_sum_to_one(alpha: float):
    density = BetaGaussian(torch.full((4, 2), 0.3, dtype=F64), random_scales(4, np.random.default_rng(2)), alpha)
    ends = torch.tensor([-math.inf, -1.0, 0.2, 0.31, 5.0, math.inf], dtype=F64)
    low, high = torch.cartesian_prod(ends[:-1], ends[:-1]), torch.cartesian_prod(ends[1:], ends[1:])
    value = density.expect(Rectangles(low, high))
    assert (value.sum(-1) - 1).abs().max() <= (1e-8 if alpha < 0.5 else 1e-12) and (value >= -1e-14).all()


def test_a_box_under_a_paraboloid_by_hand():
    # Density 2 / pi (1 - x^2 - y^2) on the unit disk; the box [0, 1/2]^2 lies inside it.
    density = BetaGaussian.from_moments(torch.zeros(2, dtype=F64), 1 / 6, 2.0)
    basis = Rectangles(torch.zeros(1, 2, dtype=F64), torch.full((1, 2), 0.5, dtype=F64))
    assert abs(density.expect(basis).item() - 2 / math.pi * (1 / 4 - 2 / 48)) <= 1e-15
    outside = Rectangles(torch.full((1, 2), 0.71, dtype=F64), torch.full((1, 2), 3.0, dtype=F64))
    assert density.expect(outside).item() == 0  # inside the square around the disk


@pytest.mark.parametrize("alpha", [0.6, 1.0, 1.5, 3.0])
def test_gradcheck_over_the_plane(alpha: float):
    loc = torch.tensor([[0.1, -0.2], [0.4, 0.5]], dtype=F64, requires_grad=True)
    root = torch.tensor([[[0.7, 0.0], [0.2, 0.5]], [[0.1, 0.0], [-0.3, 0.05]]], dtype=F64, requires_grad=True)
    index = torch.full((2,), alpha, dtype=F64, requires_grad=True)
    basis = Rectangles(
        torch.tensor([[-0.3, -math.inf], [0.2, 0.3]], dtype=F64), torch.tensor([[0.35, 0.1], [3.0, 0.8]], dtype=F64)
    )

    def value(loc: Tensor, root: Tensor, alpha: float | Tensor = alpha) -> Tensor:
        return BetaGaussian(loc, scale_tril=root.tril(), alpha=alpha, validate_args=False).expect(basis)

    assert gradcheck(value, (loc, root, index), fast_mode=True)
    assert gradgradcheck(value, (loc, root, index), atol=1e-4, rtol=1e-3, fast_mode=True)
    if alpha in (1.0, 1.5):
        assert gradcheck(value, (loc, root), fast_mode=True)
        assert gradgradcheck(value, (loc, root), atol=1e-4, rtol=1e-3, fast_mode=True)


def test_three_dimensions_are_refused():
    with pytest.raises(NotImplementedError, match="needs 1 or 2 dimensions, got 3"):
        BetaGaussian(torch.zeros(3), 1.0).expect(Rectangles(torch.zeros(1, 3), torch.ones(1, 3)))
