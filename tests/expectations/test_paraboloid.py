"""Truncated paraboloids as basis functions, against quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from expectations import line_oracle
from omegamax.basis import TruncatedParaboloidRBF
from omegamax.densities import BetaGaussian, BetaLaplace, LocationScale
from omegamax.expectations._dispatch import expect

F64 = torch.float64
ALPHAS = [-0.5, 0.3, 0.9, 1.0, 1.1, 1.25, 4 / 3, 1.5, 1.7, 2.0, 2.6, 4.0]
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)


def parabolas(centers: list[float], radius: float) -> TruncatedParaboloidRBF:
    """With peak 1."""
    return TruncatedParaboloidRBF(torch.tensor(centers, dtype=F64)[:, None], 2 / 3 * radius**3, normalised=False)


@pytest.mark.parametrize("sigma", [1e-4, 0.1, 1.0, 1e3])
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
            value = expect(BetaGaussian(loc, scale, index), parabolas(centers, radius))
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
        value = expect(BetaGaussian(torch.zeros(1, dtype=F64), 0.5, index), parabolas([center], radius))

        def exact(a: float) -> float:
            return line_oracle.beta_gaussian(a, 0.0, 0.5).expect(line_oracle.paraboloid(center, radius))[0]  # noqa: B023

        slope = line_oracle.derivative(exact, alpha, 2e-3)
        assert abs(torch.autograd.grad(value.sum(), index)[0].item() - slope) <= 1e-9


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.25, 1.6, 2.0, 3.5])
def test_gradcheck(alpha: float):
    loc = torch.tensor([[0.1], [0.4]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[[0.2]], [[0.003]]], dtype=F64, requires_grad=True)
    index = torch.full((2,), alpha, dtype=F64, requires_grad=True)
    centers = torch.tensor([[-0.8], [0.5], [0.2]], dtype=F64)
    basis = TruncatedParaboloidRBF(centers, torch.tensor([0.4, 0.02, 1e-5], dtype=F64))
    assert gradcheck(lambda *p: expect(BetaGaussian(*p), basis), (loc, scale, index))
    assert gradgradcheck(lambda *p: expect(BetaGaussian(*p), basis), (loc, scale, index), rtol=1e-2, atol=1e-4)
    assert gradcheck(lambda *p: expect(BetaGaussian(*p, alpha), basis), (loc, scale))
    assert gradgradcheck(lambda *p: expect(BetaGaussian(*p, alpha), basis), (loc, scale), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("alpha", [1.25, 1.7, 2.0, 4.0])
def test_apart_is_exactly_zero(alpha: float):
    loc = torch.zeros(1, dtype=F64, requires_grad=True)
    scale = torch.ones(1, 1, dtype=F64, requires_grad=True)
    radius = line_oracle.beta_gaussian(alpha, 0.0, 1.0).radius
    for index in (alpha, torch.tensor(alpha, dtype=F64)):
        value = expect(BetaGaussian(loc, scale, index), parabolas([radius + 0.5 + 1e-9, -radius - 3.0, 1e9], 0.5))
        grads = torch.autograd.grad(value.sum(), (loc, scale))
        assert torch.equal(value, torch.zeros(3, dtype=F64)) and all(bool((g == 0).all()) for g in grads)


def test_equal_parabolas_by_hand():
    # Of the density 3/4 (1 - t^2) with itself, 3/5.
    basis = TruncatedParaboloidRBF(torch.zeros(1, 1, dtype=F64), 2 / 3)
    value = expect(BetaGaussian(torch.zeros(1, dtype=F64), 2 / 3, 2.0), basis)
    assert abs(value.item() - 0.6) <= 1e-15


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5, 3.0])
def test_under_beta_laplace(alpha: float):
    line = line_oracle.beta_laplace(alpha, 0.2, 0.7)
    centers = [0.2, -0.1, 0.9, 1.5, 30.0]
    for radius in (0.05, 0.5, 20.0):
        value = expect(BetaLaplace(torch.tensor([0.2], dtype=F64), 0.7, alpha), parabolas(centers, radius))
        for j, center in enumerate(centers):
            assert abs(value[j].item() - line.expect(line_oracle.paraboloid(center, radius))[0]) <= 1e-11
    loc = torch.tensor([[0.2], [0.25]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[0.7], [0.3]], dtype=F64, requires_grad=True)
    index = torch.full((2,), alpha, dtype=F64, requires_grad=True)
    basis = parabolas([0.3, -0.1, 50.0], 0.4)
    assert gradcheck(lambda *p: expect(BetaLaplace(*p), basis), (loc, scale, index))
    assert gradgradcheck(lambda *p: expect(BetaLaplace(*p), basis), (loc, scale, index))


def test_under_location_scale():
    line = line_oracle.location_scale(np.cosh, np.sinh, 0.2, 0.7)
    loc = torch.tensor([[0.2], [0.25]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[0.7], [0.3]], dtype=F64, requires_grad=True)
    centers = [0.2, -0.1, 0.8, 1.5, 30.0]
    for radius in (0.05, 0.5, 20.0):
        value = expect(LocationScale(torch.cosh, loc, scale), parabolas(centers, radius))
        for j, center in enumerate(centers):
            assert abs(value[0, j].item() - line.expect(line_oracle.paraboloid(center, radius))[0]) <= 1e-12
    basis = parabolas([0.3, -0.1, 50.0], 0.4)
    assert gradcheck(lambda *p: expect(LocationScale(torch.cosh, *p), basis), (loc, scale))
    assert gradgradcheck(lambda *p: expect(LocationScale(torch.cosh, *p), basis), (loc, scale))


def test_single_precision_vmap_and_compile():
    basis = parabolas([0.0, 0.5, 3.0], 0.6)
    loc, scale = torch.randn(4, 1, dtype=F64), torch.rand(4, 1, 1, dtype=F64) + 0.02
    for alpha in (1.5, torch.tensor(1.2, dtype=F64)):

        def value(loc: Tensor, scale: Tensor, alpha: float | Tensor = alpha) -> Tensor:
            return expect(BetaGaussian(loc, scale, alpha, validate_args=False), basis)

        exact = value(loc, scale)
        assert torch.allclose(torch.vmap(value)(loc, scale), exact, rtol=0, atol=1e-13)
        torch._dynamo.reset()
        compiled = torch.compile(value, backend="eager", fullgraph=True)
        assert torch.allclose(compiled(loc, scale), exact, rtol=0, atol=1e-13)
        single = value(loc.float(), scale.float())
        assert single.dtype == torch.float32 and (single - exact).abs().max() <= 1e-5
    assert math.isfinite(exact.sum().item())
