"""Moments of beta-Gaussians against pairings written out, quadrature, and what is known of Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mpmath as mp
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from densities.expectations import spherical_oracle as exact
from densities.expectations.modes import check_two_forwards
from omegamax.basis import Polynomial
from omegamax.densities import BetaGaussian, product_nodes

F64 = torch.float64


def scales(n: int, count: int = 2) -> tuple[Tensor, Tensor]:
    root = torch.randn(count, n, n, dtype=F64) * 0.4
    return 0.4 * torch.randn(count, n, dtype=F64), root @ root.mT + 0.3 * torch.eye(n, dtype=F64)


def radial(alpha: float, n: int, r: int) -> mp.mpf:
    """E|z|^(2r) over that of a Gaussian: Beta moments above alpha = 1, those of a ratio of Gammas below."""
    e, half = mp.mpf(alpha) - 1, mp.mpf(n) / 2
    if e == 0:
        return mp.mpf(1)
    if e > 0:  # e |z|^2 / 2 is Beta(n/2, 1/e + 1)
        return 1 / (e**r * mp.rf(half + 1 / e + 1, r))
    u = -1 / e - half  # -e |z|^2 / 2 is Gamma(n/2) / Gamma(u)
    return mp.gamma(u - r) / mp.gamma(u) / (-e) ** r


def pairings(factors: Sequence[int], loc: Tensor, spread: Tensor, alpha: float, pairs: int = 0) -> mp.mpf:
    """E of a product of coordinates, over every way to leave factors at their means or to pair them."""
    if not factors:
        return radial(alpha, len(loc), pairs)
    first, rest = factors[0], factors[1:]
    total = mp.mpf(loc[first].item()) * pairings(rest, loc, spread, alpha, pairs)
    for k, other in enumerate(rest):
        left = [*rest[:k], *rest[k + 1 :]]
        total += mp.mpf(spread[first, other].item()) * pairings(left, loc, spread, alpha, pairs + 1)
    return total


def oracle(exponents: Sequence[int], loc: Tensor, scale: Tensor, alpha: float) -> float:
    c = exact.dilation(alpha, len(loc), float(scale.logdet()))
    factors = [i for i, k in enumerate(exponents) for _ in range(k)]
    return float(pairings(factors, loc, float(c) * scale, alpha))


@pytest.mark.parametrize("n, degree", [(1, 8), (2, 6), (3, 5), (5, 3)])
@pytest.mark.parametrize("alpha", [0.87, 1 - 1e-7, 1.0, 1 + 1e-7, 1.5, 2.0, 4.0])
def test_pairings_written_out(n: int, degree: int, alpha: float):
    loc, scale = (t[0] for t in scales(n))
    basis = Polynomial.total_degree(degree, n)
    found = BetaGaussian(loc, scale, alpha).expect(basis)
    for value, exponents in zip(found.tolist(), basis.exponents.tolist(), strict=True):
        if alpha > 1 - 2 / (n + sum(exponents)):
            assert value == pytest.approx(oracle(exponents, loc, scale, alpha), rel=1e-12, abs=1e-13)
        else:
            assert not math.isfinite(value)


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.3, 2.0])
def test_line_by_quadrature(alpha: float):
    loc, variance, e = 0.7, 0.3, mp.mpf(alpha) - 1
    width = mp.sqrt(exact.dilation(alpha, 1, math.log(variance)) * variance)
    ends = [0, mp.sqrt(2 / e)] if e > 0 else [0, 1, 4, 20] if e == 0 else [0, 1, 4, 20, mp.inf]

    def mean(f) -> mp.mpf:
        def bell(z: mp.mpf) -> mp.mpf:
            return mp.exp(-z * z / 2) if e == 0 else abs(1 - e * z * z / 2) ** (1 / e)

        return mp.quad(lambda z: bell(z) * (f(loc + width * z) + f(loc - width * z)), ends)

    mass = mean(lambda t: mp.mpf(1))
    found = BetaGaussian(torch.tensor([loc], dtype=F64), variance, alpha).expect(Polynomial.total_degree(8, 1))
    for k in range(9):
        if alpha > 1 - 2 / (1 + k):
            assert found[k].item() == pytest.approx(float(mean(lambda t, k=k: t**k) / mass), rel=1e-11)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("alpha", [1.0, 1.6])
def test_degree_eight_by_the_product_rule(n: int, alpha: float):
    p = BetaGaussian(*scales(n), alpha)
    basis = Polynomial.total_degree(8, n)
    t, w = product_nodes(p)
    wanted = (basis(t) * w.unsqueeze(-1)).sum(-2)
    assert ((p.expect(basis) - wanted).abs() <= 1e-12 * (1 + wanted.abs())).all()


@pytest.mark.parametrize("alpha", [0.75, 1.0, 1.25, 2.0, 6.0])
def test_first_and_second_moments_are_mean_and_covariance(alpha: float):
    p = BetaGaussian(*scales(3), alpha)
    basis = Polynomial(torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1], [2, 0, 0], [0, 1, 1]]))
    value = p.expect(basis)
    mean, covariance = p.mean, p.covariance_matrix
    assert (value[:, :3] - mean).abs().max() <= 1e-15
    assert (value[:, 3] - covariance[:, 0, 0] - mean[:, 0] ** 2).abs().max() <= 1e-13
    assert (value[:, 4] - covariance[:, 1, 2] - mean[:, 1] * mean[:, 2]).abs().max() <= 1e-13


def test_moments_that_do_not_exist():
    basis = Polynomial.total_degree(4, 1)
    for freedom, kept in ((0.5, 0), (1.0, 0), (1.5, 1), (2.0, 1), (3.5, 3), (4.5, 4)):
        alpha = 1 - 2 / (freedom + 1)
        for given in (alpha, torch.tensor(alpha, dtype=F64)):
            value = BetaGaussian(torch.tensor([0.3], dtype=F64), 1.0, given).expect(basis)
            assert value[: kept + 1].isfinite().all()
            for k in range(kept + 1, 5):
                assert value[k].isnan() if k % 2 else value[k] == math.inf
    student = torch.distributions.StudentT(torch.tensor(3.0, dtype=F64), 0.0, 1.0)
    p = BetaGaussian(torch.zeros(1, dtype=F64), 1.0, 0.5)
    ratio = 2 / 3 * p.dilation / 0.5  # S = 2 tau / nu Sigma and tau = c / (1 - alpha)
    assert p.expect(basis)[2].item() == pytest.approx((student.variance * ratio).item(), rel=1e-12)


def test_gradients_beside_a_moment_that_does_not_exist():
    alpha = torch.tensor([0.5, 1.5], dtype=F64, requires_grad=True)
    value = BetaGaussian(torch.zeros(2, 1, dtype=F64), 1.0, alpha).expect(Polynomial.total_degree(4, 1))
    value[value.isfinite()].sum().backward()
    assert alpha.grad is not None and alpha.grad.isfinite().all()


@pytest.mark.parametrize("n", [1, 2])
def test_gradients(n: int):
    loc, scale = scales(n, 3)
    alpha = torch.tensor([0.8, 1.0, 1.7], dtype=F64)
    basis = Polynomial.total_degree(4, n)
    inputs = [t.requires_grad_() for t in (loc, scale, alpha)]

    def apply(*inputs: Tensor) -> Tensor:
        return BetaGaussian(*inputs, validate_args=False).expect(basis)

    assert gradcheck(apply, inputs, fast_mode=True)
    assert gradgradcheck(apply, inputs, atol=1e-5, fast_mode=True)


def test_any_order_of_any_monomials():
    exponents = torch.tensor([[3, 0], [0, 0], [1, 4], [3, 0], [0, 7]])
    p = BetaGaussian(*scales(2), 1.5)
    together = p.expect(Polynomial(exponents))
    assert together.shape == (2, 5)
    for j, row in enumerate(exponents):
        assert (together[:, j] - p.expect(Polynomial(row[None]))[:, 0]).abs().max() <= 1e-14
    assert torch.equal(p.expect(Polynomial(torch.zeros(1, 2, dtype=torch.long))), torch.ones(2, 1, dtype=F64))


def test_shapes_dtypes_and_expansion():
    basis = Polynomial.total_degree(4, 2)
    p = BetaGaussian(torch.randn(3, 1, 2), torch.eye(2), torch.tensor([1.0, 1.5, 2.0, 3.0]))
    value = p.expect(basis)
    assert value.shape == (3, 4, 15) and value.dtype == torch.float32
    wide = BetaGaussian(p.loc.double(), torch.eye(2, dtype=F64), p.alpha.double()).expect(basis)
    assert ((value - wide) / (1 + wide.abs())).abs().max() <= 1e-6
    assert torch.equal(p.expand((2, 3, 4)).expect(basis)[1], value)
    assert BetaGaussian(torch.zeros(0, 2), torch.eye(2)).expect(basis).shape == (0, 15)


def test_mapped_and_two_forwards_before_a_backward():
    loc, scale = scales(2, 3)
    alpha = torch.tensor([0.8, 1.0, 1.7], dtype=F64)
    basis = Polynomial(torch.tensor([[2, 1], [0, 3], [1, 0]]))
    together = BetaGaussian(loc, scale, alpha).expect(basis)
    mapped = torch.vmap(lambda *parts: BetaGaussian(*parts).expect(basis))(loc, scale, alpha)
    assert (mapped - together).abs().max() <= 1e-14
    check_two_forwards(basis, loc, scale, 1e-13)


def test_compiled():
    loc, scale = scales(2, 3)
    compiled = torch.compile(
        lambda loc, basis: BetaGaussian(loc, scale, 1.5).expect(basis), fullgraph=True, backend="eager"
    )
    # Exponents are data: a basis of the same shape must not be given the moments of another.
    for exponents in ([[2, 1], [0, 3]], [[0, 3], [2, 1]], [[1, 1], [3, 2]]):
        basis = Polynomial(torch.tensor(exponents))
        assert (compiled(loc, basis) - BetaGaussian(loc, scale, 1.5).expect(basis)).abs().max() <= 1e-13
