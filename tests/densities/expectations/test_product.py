"""Nodes for any smooth basis against quadrature and closed forms, with pathwise derivatives."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
import torch
from scipy.integrate import dblquad, quad
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from densities.expectations import spherical_oracle as exact
from omegamax.basis import Basis, Polynomial
from omegamax.densities import BetaGaussian, Gaussian, TruncatedParaboloid, product_nodes
from omegamax.densities._base import find_expectation
from omegamax.densities.expectations._product import expect_any

F64 = torch.float64


class Ridges(Basis):
    """exp(w.t) and a bump of one variable: smooth, and known to no other rule."""

    def __init__(self, directions: Tensor):
        super().__init__()
        self.dimension = directions.shape[1]
        self._hold("directions", directions)

    def __len__(self) -> int:
        return 2 * len(self.directions)

    def forward(self, t: Tensor) -> Tensor:
        along = (t.unsqueeze(-2) * self.directions).sum(-1)
        return torch.cat([along.exp(), 1 / along.cosh()], -1)


def scales(n: int, count: int = 2) -> tuple[Tensor, Tensor]:
    root = torch.randn(count, n, n, dtype=F64) * 0.4
    return 0.4 * torch.randn(count, n, dtype=F64), root @ root.mT + 0.3 * torch.eye(n, dtype=F64)


def shape(r: float, e: float) -> float:
    """(1 - e r)_+^(1/e)"""
    if e == 0:
        return math.exp(-r)
    return math.exp(math.log1p(-e * r) / e) if e * r < 1 else 0.0


@pytest.mark.parametrize("alpha", [0.6, 0.9, 1.0, 1 + 1e-7, 1.25, 1.5, 2.0, 3.0, 9.0])
def test_line_by_quadrature(alpha: float):
    loc, variance = 0.3, 0.4
    width = math.sqrt(float(exact.dilation(alpha, 1, math.log(variance))) * variance)
    e = alpha - 1
    reach = math.sqrt(2 / e) if e > 1e-3 else (12.0 if e >= 0 else math.inf)
    mass = 2 * quad(lambda z: shape(z * z / 2, e), 0, reach, epsabs=1e-14, epsrel=1e-13)[0]

    def integrand(z: float) -> float:
        return shape(z * z / 2, e) / math.cosh(min(1.5 * (loc + width * z), 700.0)) if abs(z) < 300 else 0.0

    halves = [
        quad(lambda z, s=s: integrand(s * z), 0, reach, epsabs=1e-13, epsrel=1e-13, limit=200)[0] for s in (-1, 1)
    ]
    found = BetaGaussian(torch.tensor([loc], dtype=F64), variance, alpha).expect(
        Ridges(torch.tensor([[1.5]], dtype=F64))
    )
    assert found[1].item() == pytest.approx(sum(halves) / mass, abs=1e-9 if alpha < 0.9 else 1e-12)


@pytest.mark.parametrize("alpha", [0.9, 1.0, 2.0])
def test_plane_by_quadrature(alpha: float):
    loc, scale = (t[0] for t in scales(2))
    root = torch.linalg.cholesky(scale)
    e, c = alpha - 1, float(exact.dilation(alpha, 2, float(scale.logdet())))
    w = root.T @ torch.tensor([0.7, -0.4], dtype=F64) * math.sqrt(c)
    start = float(loc @ torch.tensor([0.7, -0.4], dtype=F64))
    reach = math.sqrt(2 / e) if e > 0 else (10.0 if e == 0 else 60.0)

    def integrand(theta: float, r: float) -> float:
        return r * shape(r * r / 2, e) / math.cosh(start + r * (w[0] * math.cos(theta) + w[1] * math.sin(theta)).item())

    total = dblquad(integrand, 0, reach, 0, 2 * math.pi, epsabs=1e-11, epsrel=1e-11)[0]
    mass = 2 * math.pi * quad(lambda r: r * shape(r * r / 2, e), 0, reach, epsabs=1e-13)[0]
    found = BetaGaussian(loc, scale, alpha).expect(Ridges(torch.tensor([[0.7, -0.4]], dtype=F64)))
    assert found[1].item() == pytest.approx(total / mass, abs=1e-9)


# Measured with the default orders; what is left comes from the directions.
@pytest.mark.parametrize("n, error", [(1, 1e-13), (2, 1e-13), (3, 1e-13), (4, 1e-11), (5, 1e-7), (6, 1e-5), (8, 2e-3)])
@pytest.mark.parametrize("alpha", [1.0, 1 + 1e-9, 4 / 3, 2.0, 5.0])
def test_exponentials_are_bessels_i(n: int, error: float, alpha: float):
    loc, scale = (t[0] for t in scales(n))
    direction = 0.6 * torch.nn.functional.normalize(torch.randn(1, n, dtype=F64), dim=-1)
    with mp.workdps(30):
        c = exact.dilation(alpha, n, float(scale.logdet()))
        square = c * float(direction[0] @ scale @ direction[0])
        wanted = mp.exp(float(direction[0] @ loc)) * exact.exponential(square, mp.mpf(alpha) - 1, n)
    found = BetaGaussian(loc, scale, alpha).expect(Ridges(direction))
    assert found[0].item() == pytest.approx(float(wanted), rel=error)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("e", [0.0, 1e-8, 0.02, 0.5, 1.0, 3.0])
def test_derivatives_in_alpha(n: int, e: float):
    alpha = torch.tensor(1 + e, dtype=F64, requires_grad=True)
    p = BetaGaussian(torch.zeros(n, dtype=F64), 1.0, alpha)
    w = torch.full((1, n), 1.3 / math.sqrt(n), dtype=F64)
    value = p.expect(Ridges(w))[0]
    first = torch.autograd.grad(value, alpha, create_graph=True)[0]
    second = torch.autograd.grad(first, alpha)[0]
    with mp.workdps(90):
        step = mp.mpf("1e-15")

        def at(e: mp.mpf) -> mp.mpf:
            return exact.exponential(mp.mpf(1.3) ** 2 * exact.dilation(1 + e, n, 0), e, n)

        # From alpha = 1 upwards, where the closed form is 0/0.
        centre = mp.mpf(e) + 2 * step
        values = [at(centre + k * step) for k in (-1, 0, 1)]
        slope, bend = (values[2] - values[0]) / (2 * step), (values[2] - 2 * values[1] + values[0]) / step**2
    assert first.item() == pytest.approx(float(slope), rel=1e-10)
    assert second.item() == pytest.approx(float(bend), rel=1e-8)


@pytest.mark.parametrize("alpha", [0.7, 0.999, 1.001])
def test_derivative_in_alpha_on_both_sides_of_one(alpha: float):
    given = torch.tensor(alpha, dtype=F64, requires_grad=True)
    basis = Ridges(torch.tensor([[1.0]], dtype=F64))
    value = BetaGaussian(torch.tensor([0.2], dtype=F64), 0.5, given).expect(basis)[1]
    (slope,) = torch.autograd.grad(value, given)
    step = 1e-4
    ends = [
        BetaGaussian(torch.tensor([0.2], dtype=F64), 0.5, alpha + s * step).expect(basis)[1].item() for s in (-1, 1)
    ]
    assert slope.item() == pytest.approx((ends[1] - ends[0]) / (2 * step), abs=1e-7)


def test_order_sets_the_number_of_nodes():
    for n, count in ((1, 2 * 5), (2, 5 * 10), (3, 5 * 5 * 10), (4, 5 * 5 * 5 * 10), (5, 5 * 2 * 256 * 5)):
        t, w = product_nodes(BetaGaussian(torch.zeros(2, n), 1.0, 1.5), order=5)
        assert t.shape == (2, count, n) and w.shape == (count,)
        assert t.dtype == w.dtype == F64
    for order in (0, 2.0, True):
        with pytest.raises(ValueError, match="product_nodes: order must be an int of at least 1"):
            product_nodes(BetaGaussian(torch.zeros(1), 1.0), order=order)


def test_nodes_lie_within_the_support():
    p = BetaGaussian(*scales(3), 1.7)
    t, w = product_nodes(p)
    assert bool(p.support_contains(t.movedim(-2, 0)).all()) and bool((w > 0).all())


def test_named_members_and_closer_rules():
    loc, scale = scales(1)
    basis = Ridges(torch.tensor([[1.0]], dtype=F64))
    assert torch.equal(Gaussian(loc, scale).expect(basis), BetaGaussian(loc, scale, 1.0).expect(basis))
    assert torch.equal(TruncatedParaboloid(loc, scale).expect(basis), BetaGaussian(loc, scale, 2.0).expect(basis))
    assert find_expectation(Gaussian, Ridges) is expect_any
    assert find_expectation(Gaussian, Polynomial) is not expect_any


def test_gradients():
    loc, scale = scales(2, 3)
    alpha = torch.tensor([0.8, 1.0, 1.7], dtype=F64)
    basis = Ridges(torch.randn(2, 2, dtype=F64))
    inputs = [t.requires_grad_() for t in (loc, scale, alpha)]

    def apply(*inputs: Tensor) -> Tensor:
        return BetaGaussian(*inputs, validate_args=False).expect(basis)[..., 2:]  # exp has no mean under heavy tails

    assert gradcheck(apply, inputs, atol=1e-6, fast_mode=True)
    assert gradgradcheck(apply, inputs, atol=1e-5, fast_mode=True)


def test_shapes_dtypes_and_expansion():
    basis = Ridges(torch.randn(3, 2))
    p = BetaGaussian(torch.randn(4, 1, 2), torch.eye(2), torch.tensor([1.0, 1.5, 2.0]))
    value = p.expect(basis)
    assert value.shape == (4, 3, 6) and value.dtype == torch.float32
    assert product_nodes(p)[1].shape == (1, 3, 2048)
    wide = BetaGaussian(p.loc.double(), torch.eye(2, dtype=F64), p.alpha.double()).expect(basis.double())
    assert ((value - wide) / wide).abs().max() <= 1e-5
    assert torch.equal(p.expand((2, 4, 3)).expect(basis.float())[1], value)
    # One alpha for all, as a tensor: one rule.
    one = BetaGaussian(torch.zeros(5, 2), torch.eye(2), torch.tensor(1.5))
    assert product_nodes(one)[1].shape == (1, 2048)
    assert BetaGaussian(torch.zeros(0, 2), torch.eye(2)).expect(basis).shape == (0, 6)


def test_mapped_and_two_forwards_before_a_backward():
    loc, scale = scales(2, 3)
    alpha = torch.tensor([0.9, 1.0, 1.7], dtype=F64)
    basis = Ridges(torch.randn(2, 2, dtype=F64))
    together = BetaGaussian(loc, scale, alpha).expect(basis)
    mapped = torch.vmap(lambda *parts: BetaGaussian(*parts).expect(basis))(loc, scale, alpha)
    assert ((mapped - together) / together).abs().max() <= 1e-12
    x = alpha.clone().requires_grad_()
    one, two = BetaGaussian(loc, scale, x + 0.2).expect(basis), BetaGaussian(loc, scale, 2 * x).expect(basis)
    (both,) = torch.autograd.grad(one.sum() + two.sum(), x)
    (a,) = torch.autograd.grad(BetaGaussian(loc, scale, x + 0.2).expect(basis).sum(), x)
    (b,) = torch.autograd.grad(BetaGaussian(loc, scale, 2 * x).expect(basis).sum(), x)
    assert (both - a - b).abs().max() <= 1e-12


@pytest.mark.parametrize("n, alpha", [(1, "tensor"), (5, 1.5)])
def test_compiled(n: int, alpha: float | str):
    loc, scale = scales(n, 3)
    basis = Ridges(torch.randn(2, n, dtype=F64))
    given = torch.tensor([0.9, 1.0, 1.7], dtype=F64) if alpha == "tensor" else alpha
    compiled = torch.compile(lambda loc: BetaGaussian(loc, scale, given).expect(basis), fullgraph=True, backend="eager")
    wanted = BetaGaussian(loc, scale, given).expect(basis)
    assert ((compiled(loc) - wanted) / wanted).abs().max() <= 1e-12
