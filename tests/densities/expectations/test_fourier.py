"""Waves under beta-Gaussians against Bessel functions with many digits, and against quadrature."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
import torch
from scipy.integrate import quad
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from densities.expectations import spherical_oracle as exact
from densities.expectations.modes import check_two_forwards
from omegamax.basis import Fourier
from omegamax.densities import BetaGaussian
from omegamax.densities.expectations._fourier import characteristic
from omegamax.densities.expectations._product import product_nodes

F64 = torch.float64
THREE = torch.tensor([3.0], dtype=F64)
# rho, the argument of the Bessel function; above the order times 2 waves are fast.
RHOS = [1e-6, 0.1, 1.0, 2.5, 5.0, 12.0, 30.0, 60.0, 81.0, 150.0, 400.0, 3000.0]


def scales(n: int, count: int = 2) -> tuple[Tensor, Tensor]:
    root = torch.randn(count, n, n, dtype=F64) * 0.4
    return 0.4 * torch.randn(count, n, dtype=F64), root @ root.mT + 0.3 * torch.eye(n, dtype=F64)


def errors(squares: list[float], e: float, n: int) -> float:
    with mp.workdps(20):
        wanted = torch.tensor([float(exact.characteristic(s, e, n)) for s in squares], dtype=F64)
    given = torch.tensor(squares, dtype=F64)
    found = [characteristic(given, e, n), characteristic(given, torch.tensor(e, dtype=F64), n)]
    return max((f - wanted).abs().max().item() for f in found)


@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("e", [0.003, 0.02, 0.1, 0.5, 1.0, 3.0, 1000.0])
def test_compact_support_is_bessels_j(n: int, e: float):
    assert errors([rho**2 * e / 2 for rho in (RHOS if e > 0.05 else RHOS[:-1])], e, n) <= 1e-12


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("freedom", [0.05, 0.5, 1.0, 2.0, 3.7, 190.0])
def test_heavy_tails_are_bessels_k(n: int, freedom: float):
    e = -2 / (freedom + n)
    assert errors([0.0, 1e-16, 1e-9, 1e-4, 0.01, 0.3, 1.0, 7.0, 40.0, 1e3, 1e5], e, n) <= 1e-12


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("e", [-2e-3, -1e-5, 1e-12, 1e-5, 2e-3])
def test_alpha_near_one(n: int, e: float):
    assert errors([0.0, 0.005, 0.02, 1.0, 9.0, 40.0, 75.0], e, n) <= 1e-12
    beyond = torch.tensor([90.0, 300.0, 1e4, 1e8], dtype=F64)  # the Gaussian's is below 3e-20
    assert characteristic(beyond, e, n).abs().max() <= 1e-15


def test_gaussian():
    square = torch.tensor([0.0, 0.3, 20.0, 1e4], dtype=F64)
    assert torch.equal(characteristic(square, 0.0, 3), (-square / 2).exp())
    assert (characteristic(square, torch.zeros((), dtype=F64), 3) - (-square / 2).exp()).abs().max() <= 1e-14


def test_one_dimension_at_alpha_two_is_elementary():
    rho = torch.tensor([0.3, 2.0, 9.0, 77.0], dtype=F64)
    wanted = 3 * (rho.sin() - rho * rho.cos()) / rho**3  # v = 3/2
    assert (characteristic(rho.square() / 2, 1.0, 1) - wanted).abs().max() <= 1e-14


@pytest.mark.parametrize("e", [-0.4, -0.01, 0.0, 1e-6, 1e-3, 0.05, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("square", [0.002, 6.0, 300.0])
def test_derivatives_in_omega_and_alpha(e: float, square: float):
    n = 2
    inputs = torch.tensor([square], dtype=F64, requires_grad=True), torch.tensor(e, dtype=F64, requires_grad=True)
    value = characteristic(*inputs, n).sum()
    first = torch.autograd.grad(value, inputs, create_graph=True)
    with mp.workdps(30):
        # mpmath's differences keep off e = 0, where the oracle has no formula.
        step = mp.mpf("1e-9") if abs(e) < 1e-9 else mp.mpf("1e-10") * abs(e)
        centre = mp.mpf(e)

        def at(e: mp.mpf, square: float = square) -> mp.mpf:
            return exact.characteristic(square, e, n)

        in_square = mp.diff(lambda s: exact.characteristic(s, centre, n), mp.mpf(square))
        in_e = (at(centre + step) - at(centre - step)) / (2 * step)
    assert first[0].item() == pytest.approx(float(in_square), abs=1e-11)
    assert first[1].item() == pytest.approx(float(in_e), abs=1e-9)


def test_second_derivative_in_alpha_through_one():
    values = [-0.0024, -0.0021, -0.0019, -0.0016, -1e-4, -1e-6, 0.0, 1e-6, 1e-4, 0.02]
    points = torch.tensor(values, dtype=F64, requires_grad=True)
    first = torch.autograd.grad(characteristic(THREE, points, 2).sum(), points, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), points)[0]

    def series(e: mp.mpf) -> mp.mpf:
        """Of moments, which has no 0/0: sum_k (-omega^2/2)^k / k! / prod_j (1 + e (n/2 + j))."""
        total, term = mp.mpf(1), mp.mpf(1)
        for k in range(1, 61):
            term *= mp.mpf("-1.5") / k / (1 + e * (1 + k))
            total += term
        return total

    with mp.workdps(40):
        wanted = [float(mp.diff(series, mp.mpf(e), 2, h=mp.mpf("1e-8"))) for e in values]
    assert second.tolist() == pytest.approx(wanted, rel=1e-7)


@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.0, 1.25, 2.0, 3.0])
def test_line_by_quadrature(alpha: float):
    loc, variance = 0.3, 0.2
    waves = [0.0, 1.0, 7.0, 25.0]
    p = BetaGaussian(torch.tensor([loc], dtype=F64), variance, alpha)
    found = p.expect(Fourier(torch.tensor(waves, dtype=F64)[:, None]))
    c, e = float(exact.dilation(alpha, 1, math.log(variance))), alpha - 1

    def shape(t: float) -> float:
        r = t**2 / (2 * c * variance)
        return math.exp(-r) if e == 0 else max(1 - e * r, 0.0) ** (1 / e)

    reach = math.sqrt(2 * c * variance / e) if e > 0 else (10.0 if e == 0 else math.inf)
    mass = 2 * quad(shape, 0, reach, epsabs=1e-13, epsrel=1e-13)[0]
    for i, w in enumerate(waves):
        if e < 0 and w:
            part = 2 * quad(shape, 0, math.inf, weight="cos", wvar=w, epsabs=1e-12)[0]
        else:
            part = 2 * quad(lambda t, w=w: shape(t) * math.cos(w * t), 0, reach, epsabs=1e-13, limit=200)[0]
        assert found[i].item() == pytest.approx(math.cos(w * loc) * part / mass, abs=1e-10)
        assert found[i + 4].item() == pytest.approx(math.sin(w * loc) * part / mass, abs=1e-10)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("alpha", [1.0, 1.5, 3.0])
def test_space_by_the_product_rule(n: int, alpha: float):
    p = BetaGaussian(*scales(n), alpha)
    basis = Fourier(torch.randn(5, n, dtype=F64))
    t, w = product_nodes(p)
    assert (p.expect(basis) - (basis(t) * w.unsqueeze(-1)).sum(-2)).abs().max() <= 1e-11


def test_gradients():
    loc, scale = scales(2, 3)
    basis = Fourier(torch.tensor([[0.0], [2.0], [30.0]], dtype=F64) * torch.randn(1, 2, dtype=F64))
    alpha = torch.tensor([0.8, 1.0, 1.7], dtype=F64)
    inputs = [t.requires_grad_() for t in (loc, scale, alpha)]

    def apply(*inputs: Tensor) -> Tensor:
        return BetaGaussian(*inputs, validate_args=False).expect(basis)

    assert gradcheck(apply, inputs, atol=1e-6, fast_mode=True)
    assert gradgradcheck(apply, inputs, atol=1e-5, fast_mode=True)


def test_shapes_dtypes_and_expansion():
    basis = Fourier.grid(2, 2)
    assert BetaGaussian(torch.zeros(2), 1.0).expect(basis).shape == (26,)
    p = BetaGaussian(torch.randn(3, 1, 2), torch.eye(2), torch.tensor([0.9, 1.0, 1.5, 2.0]))
    value = p.expect(basis)
    assert value.shape == (3, 4, 26) and value.dtype == torch.float32
    wide = BetaGaussian(p.loc.double(), torch.eye(2, dtype=F64), p.alpha.double()).expect(basis.double())
    assert (value - wide).abs().max() <= 1e-6
    basis = Fourier.grid(2, 2)
    assert torch.equal(p.expand((2, 3, 4)).expect(basis)[1], value)
    shared = BetaGaussian(torch.zeros(5, 2), torch.eye(2), torch.tensor(1.5)).expect(basis)
    assert (shared - BetaGaussian(torch.zeros(5, 2), torch.eye(2), 1.5).expect(basis)).abs().max() <= 1e-6
    assert BetaGaussian(torch.zeros(0, 2), torch.eye(2)).expect(basis).shape == (0, 26)


def test_float32_keeps_fast_waves():
    p = BetaGaussian(torch.tensor([0.7]), 0.05, 2.0)
    basis = Fourier(torch.tensor([[100.0], [400.0]]))
    wide = BetaGaussian(p.loc.double(), 0.05, 2.0).expect(Fourier(basis.frequencies.double()))
    assert (p.expect(basis) - wide).abs().max() <= 1e-6


def test_nan_spoils_its_own_row_only():
    loc = torch.zeros(3, 1, dtype=F64)
    loc[1] = math.nan
    value = BetaGaussian(loc, 1.0, 1.5, validate_args=False).expect(Fourier.grid(3, 1, dtype=F64))
    assert value[1].isnan().any() and value[[0, 2]].isfinite().all()


def test_mapped_and_two_forwards_before_a_backward():
    loc, scale = scales(2, 3)
    basis = Fourier(5 * torch.randn(4, 2, dtype=F64))
    alpha = torch.tensor([0.8, 1.0, 1.7], dtype=F64)
    together = BetaGaussian(loc, scale, alpha).expect(basis)
    mapped = torch.vmap(lambda *parts: BetaGaussian(*parts).expect(basis))(loc, scale, alpha)
    assert (mapped - together).abs().max() <= 1e-13
    check_two_forwards(basis, loc, scale, 1e-14)


@pytest.mark.parametrize("alpha", [1.5, "tensor"])
def test_compiled(alpha: float | str):
    loc, scale = scales(2, 3)
    basis = Fourier(torch.tensor([[0.0], [1.0], [30.0]], dtype=F64) * torch.randn(1, 2, dtype=F64))
    given = torch.tensor([0.8, 1.0, 1.7], dtype=F64) if alpha == "tensor" else alpha
    compiled = torch.compile(
        lambda loc, scale: BetaGaussian(loc, scale, given).expect(basis), fullgraph=True, backend="eager"
    )
    assert (compiled(loc, scale) - BetaGaussian(loc, scale, given).expect(basis)).abs().max() <= 1e-13
