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

from expectations import line_oracle
from omegamax.basis import Rectangles
from omegamax.densities import BetaGaussian, BetaLaplace, LocationScale
from omegamax.expectations._dispatch import expect

F64 = torch.float64
ALPHAS = [-0.8, -0.3, 0.0, 0.5, 0.9, 0.999, 1.0, 1.001, 1.1, 1.25, 4 / 3, 1.5, 1.7, 2.0, 2.6, 4.0, 10.0]
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


@pytest.mark.parametrize("sigma", [1e-4, 0.1, 1.0, 1e3])
@every_alpha
def test_masses_under_beta_gaussians(alpha: float, sigma: float):
    law, size = distribution(alpha, sigma**2)
    ends = size * np.array([-math.inf, -5.0, -1.0, -0.999, -0.5, -0.4999, 0.0, 0.7, 1.0, 1.1, 40.0, math.inf])
    loc, scale = torch.zeros(1, dtype=F64), torch.tensor([[sigma**2]], dtype=F64)
    exact = np.diff(law.cdf(ends))
    for index in (alpha, torch.tensor(alpha, dtype=F64)):
        value = expect(BetaGaussian(loc, scale, index), boxes(*ends))
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
        value = expect(BetaGaussian(loc, scale, a), basis)
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


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.25, 1.6, 2.0, 3.5])
def test_gradcheck(alpha: float):
    loc = torch.tensor([[0.1], [0.4], [-0.3]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[[0.2]], [[0.01]], [[3.0]]], dtype=F64, requires_grad=True)
    index = torch.full((3,), alpha, dtype=F64, requires_grad=True)
    basis = boxes(-math.inf, -0.35, 0.1, 0.37, 0.9)
    assert gradcheck(lambda *p: expect(BetaGaussian(*p), basis), (loc, scale, index))
    assert gradgradcheck(lambda *p: expect(BetaGaussian(*p), basis), (loc, scale, index))
    assert gradcheck(lambda *p: expect(BetaGaussian(*p, alpha), basis), (loc, scale))
    assert gradgradcheck(lambda *p: expect(BetaGaussian(*p, alpha), basis), (loc, scale))


@pytest.mark.parametrize("alpha", [0.3, 0.9, 1.0, 1.5, 2.0, 5.0])
def test_masses_under_beta_laplace(alpha: float):
    line = line_oracle.beta_laplace(alpha, 0.2, 0.7)
    ends = [-3.0, -0.5, 0.2, 0.21, 0.9, 8.0]
    value = expect(BetaLaplace(torch.tensor([0.2], dtype=F64), 0.7, alpha), boxes(-math.inf, *ends, math.inf))
    exact = [line.mean(np.ones_like, a, b) for a, b in pairwise(ends)]
    assert np.abs(value[1:-1].numpy() - exact).max() <= 1e-12 and abs(value.sum().item() - 1) <= 1e-13
    loc = torch.tensor([[0.2], [0.25]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[0.7], [0.3]], dtype=F64, requires_grad=True)
    index = torch.full((2,), alpha, dtype=F64, requires_grad=True)
    basis = boxes(-math.inf, -0.1, 0.3, 5.0)
    assert gradcheck(lambda *p: expect(BetaLaplace(*p), basis), (loc, scale, index))
    assert gradgradcheck(lambda *p: expect(BetaLaplace(*p), basis), (loc, scale, index))


def test_masses_under_location_scale():
    line = line_oracle.location_scale(np.cosh, np.sinh, 0.2, 0.7)
    ends = [-3.0, -0.3, 0.2, 0.21, 0.6, 8.0]
    loc = torch.tensor([[0.2], [0.25]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[0.7], [0.3]], dtype=F64, requires_grad=True)
    value = expect(LocationScale(torch.cosh, loc, scale), boxes(-math.inf, *ends, math.inf))
    exact = [line.mean(np.ones_like, a, b) for a, b in pairwise(ends)]
    assert np.abs(value[0, 1:-1].detach().numpy() - exact).max() <= 1e-12
    assert (value.sum(-1) - 1).abs().max() <= 1e-13
    basis = boxes(-math.inf, -0.1, 0.3, 5.0)
    assert gradcheck(lambda *p: expect(LocationScale(torch.cosh, *p), basis), (loc, scale))
    assert gradgradcheck(lambda *p: expect(LocationScale(torch.cosh, *p), basis), (loc, scale))


def test_cells_sum_to_one_in_single_precision():
    basis = Rectangles.grid(50, 1)
    for alpha in (0.9, 1.0, 1.5, 1.7, 2.0):
        value = expect(BetaGaussian(torch.tensor([[0.4], [0.6]]), 1e-4, alpha), basis)
        assert value.dtype == torch.float32 and value.shape == (2, 50)
        if alpha >= 1:
            assert (value.sum(-1) - 1).abs().max() <= 1e-5


def test_vmap_and_compile():
    basis = boxes(-math.inf, -0.1, 0.3, 5.0)
    loc, scale = torch.randn(4, 1, dtype=F64), torch.rand(4, 1, 1, dtype=F64) + 0.2
    for alpha in (1.5, torch.tensor(1.2, dtype=F64)):

        def value(loc: Tensor, scale: Tensor, alpha: float | Tensor = alpha) -> Tensor:
            return expect(BetaGaussian(loc, scale, alpha, validate_args=False), basis)

        exact = value(loc, scale)
        assert torch.allclose(torch.vmap(value)(loc, scale), exact, rtol=0, atol=1e-13)
        torch._dynamo.reset()
        compiled = torch.compile(value, backend="eager", fullgraph=True)
        assert torch.allclose(compiled(loc, scale), exact, rtol=0, atol=1e-13)
