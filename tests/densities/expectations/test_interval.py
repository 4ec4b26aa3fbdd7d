"""Gaussian basis functions under the truncated parabola and its powers, against quadrature."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from densities.expectations import line_oracle
from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian
from omegamax.densities.expectations._gaussian_rbf import find_order, integrate_interval

F64 = torch.float64
ORDERS = [1, 2, 3, 4]
every_order = pytest.mark.parametrize("m", ORDERS)


def make(m: int, half_width: float, loc: float = 0.37) -> tuple[Tensor, Tensor]:
    """Location and Sigma of the density with this half-width."""
    p = BetaGaussian.from_moments(torch.zeros(1, dtype=F64), half_width**2 / (2 * m + 3), 1 + 1 / m)
    return torch.tensor([loc], dtype=F64), p.scale.detach()


def places(half_width: float, std: float) -> list[float]:
    """Centres inside, at the edge, outside and far away, in both units."""
    inside = [0.37 + x * half_width for x in (0.0, 0.3, -0.9, 1.0, -1.1)]
    return inside + [0.37 + half_width + k * std for k in (-9.0, -2.0, 3.0, 9.0)] + [0.37 - half_width - 1.5 * std]


@pytest.mark.parametrize("half_width", [1e-4, 0.3, 1e3])
@pytest.mark.parametrize("std", [1e-3, 0.08, 1e2])
@every_order
def test_values_and_gradients(m: int, half_width: float, std: float):
    loc, scale = make(m, half_width)
    centers = places(half_width, std)
    basis = GaussianRBF(torch.tensor(centers, dtype=F64)[:, None], std**2)
    loc.requires_grad_(), scale.requires_grad_()
    value = integrate_interval(BetaGaussian(loc, scale, 1 + 1 / m), basis)
    line = line_oracle.beta_gaussian(1 + 1 / m, loc.item(), scale.item())
    assert math.isclose(line.radius, half_width, rel_tol=1e-12)
    for j, center in enumerate(centers):
        exact, moved, grown = line.expect(line_oracle.gaussian(center, std))
        assert abs(value[j].item() - exact) <= 1e-12 * max(1.0, 1 / std)
        grads = torch.autograd.grad(value[j], (loc, scale), retain_graph=True)
        # Relative to the largest that these can be; a grows as Sigma^(1 / (alpha + 1)).
        assert abs(grads[0].item() - moved) * std * max(half_width, std) <= 1e-12
        assert abs((grads[1] * scale).item() - grown / (2 + 1 / m)) * std <= 1e-12


@every_order
def test_both_branches_agree_where_they_meet(m: int):
    loc, scale = make(m, 1.0)
    centers = torch.linspace(-2.5, 2.5, 41, dtype=F64)[:, None]
    values = [
        integrate_interval(BetaGaussian(loc, scale, 1 + 1 / m), GaussianRBF(centers, (0.3 * x) ** 2))
        for x in (1 - 1e-13, 1.0)
    ]
    assert (values[0] - values[1]).abs().max() <= 1e-11


@every_order
def test_gradcheck(m: int):
    loc = torch.tensor([[0.1], [0.5], [-0.3]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[[0.2]], [[0.001]], [[3.0]]], dtype=F64, requires_grad=True)
    centers = torch.tensor([[-1.0], [0.0], [0.5], [0.5], [2.0]], dtype=F64)
    basis = GaussianRBF(centers, torch.tensor([0.01, 0.3, 2.0, 0.05, 0.0004]), normalised=m % 2 == 0)

    def value(loc: Tensor, scale: Tensor) -> Tensor:
        return integrate_interval(BetaGaussian(loc, scale, 1 + 1 / m), basis)

    assert gradcheck(value, (loc, scale))
    assert gradgradcheck(value, (loc, scale))


def test_hostile_pairs_have_finite_gradients():
    loc = torch.tensor([0.0, 0.0, 1e6, -1e-3, 0.0], dtype=F64)[:, None].requires_grad_()
    scale = torch.tensor([1e-18, 1e18, 1.0, 1e-9, 2 / 3], dtype=F64)[:, None, None].requires_grad_()
    basis = GaussianRBF(
        torch.tensor([[0.0], [1.0], [-1e6], [1e9]], dtype=F64), torch.tensor([1e-12, 1e8, 1e-6, 1e12], dtype=F64)
    )
    value = integrate_interval(BetaGaussian(loc, scale, 1.25), basis)
    grads = torch.autograd.grad(value.sum(), (loc, scale), create_graph=True)
    again = torch.autograd.grad(sum(g.sum() for g in grads), (loc, scale))
    assert all(bool(t.isfinite().all()) for t in (value, *grads, *again))
    assert (value >= -1e-13).all()


def test_single_precision_and_batches():
    loc, scale = torch.randn(2, 3, 1, dtype=F64), torch.rand(3, 1, 1, dtype=F64) + 0.01
    basis = GaussianRBF(torch.rand(4, 1, dtype=F64), 0.01)
    exact = integrate_interval(BetaGaussian(loc, scale), basis)
    assert exact.shape == (2, 3, 4)
    single = integrate_interval(BetaGaussian(loc.float(), scale.float()), GaussianRBF(basis.centers.float(), 0.01))
    assert single.dtype == torch.float32 and (single - exact).abs().max() <= 1e-5
    each = torch.stack([integrate_interval(BetaGaussian(x, s), basis) for x, s in zip(loc[1], scale, strict=True)])
    assert torch.allclose(exact[1], each, rtol=0, atol=1e-14)
    expanded = BetaGaussian(loc[1], scale).expand((2, 3))
    assert torch.equal(integrate_interval(expanded, basis)[0], integrate_interval(BetaGaussian(loc[1], scale), basis))


def test_vmap_and_compile():
    loc, scale = torch.randn(5, 1, dtype=F64), torch.rand(5, 1, 1, dtype=F64) + 0.01
    basis = GaussianRBF(torch.rand(4, 1, dtype=F64), torch.tensor([1e-3, 0.1, 1.0, 1e-5], dtype=F64))

    def value(loc: Tensor, scale: Tensor) -> Tensor:
        return integrate_interval(BetaGaussian(loc, scale, 1.5, validate_args=False), basis)

    exact = value(loc, scale)
    assert torch.allclose(torch.vmap(value)(loc, scale), exact, rtol=0, atol=1e-13)
    compiled = torch.compile(value, backend="eager", fullgraph=True)
    assert torch.allclose(compiled(loc, scale), exact, rtol=0, atol=1e-13)


def test_order():
    assert [find_order(a) for a in (2.0, 3 / 2, 4 / 3, 5 / 4, 6 / 5, 1.0, 0.5, 1.7, 3.0)] == [1, 2, 3, 4] + [None] * 5
    assert find_order(torch.tensor(2.0)) is None
    basis = GaussianRBF(torch.zeros(1, 1), 1.0)
    with pytest.raises(NotImplementedError, match="interval"):
        integrate_interval(BetaGaussian(torch.zeros(1), 1.0, 1.7), basis)
