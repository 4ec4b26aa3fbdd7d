"""Escort distributions against their formula, generalised covariances against Jacobians of maps."""

from __future__ import annotations

import math

import pytest
import torch

import omegamax
from omegamax import entmax, escort, generalized_covariance

F64 = torch.float64
P = torch.tensor([[0.5, 0.3, 0.2, 0.0], [0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]], dtype=F64)


@pytest.mark.parametrize("beta", [-1.5, 0.0, 0.5, 1.0, 2.0, 40.0])
def test_escort_is_its_formula(beta):
    powers = torch.where(P > 0, P.clamp(min=1e-300) ** beta, 0.0)
    torch.testing.assert_close(escort(P, beta), powers / powers.sum(-1, keepdim=True), rtol=1e-13, atol=0)


def test_escort_of_one_is_the_distribution_and_of_zero_uniform_on_its_support():
    torch.testing.assert_close(escort(P, 1.0), P, rtol=1e-15, atol=0)
    torch.testing.assert_close(escort(P, 0.0), (P > 0).to(F64) / (P > 0).sum(-1, keepdim=True))


def test_escort_along_any_dim_with_weights_and_a_tensor_beta():
    w = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=F64)
    beta = torch.tensor([[0.5], [1.5], [2.0]], dtype=F64)
    found = escort(P, beta, weights=w)
    for row in range(3):
        s = torch.where(P[row] > 0, w * P[row].clamp(min=1e-300) ** beta[row], 0.0)
        torch.testing.assert_close(found[row], s / s.sum(), rtol=1e-13, atol=0)
    torch.testing.assert_close(escort(P.T, beta.T, 0, weights=w[:, None]), found.T, rtol=1e-14, atol=0)


def test_escort_has_derivatives_on_the_support():
    p = torch.tensor([0.5, 0.3, 0.2], dtype=F64, requires_grad=True)
    beta = torch.tensor(0.7, dtype=F64, requires_grad=True)
    w = torch.tensor([1.0, 2.0, 0.5], dtype=F64, requires_grad=True)

    def call(p, beta, w):
        return escort(p, beta, weights=w)

    assert torch.autograd.gradcheck(call, (p, beta, w)) and torch.autograd.gradgradcheck(call, (p, beta, w))
    zero = torch.tensor([0.5, 0.5, 0.0], dtype=F64, requires_grad=True)
    escort(zero, 0.5).square().sum().backward()
    assert zero.grad.isfinite().all() and zero.grad[2] == 0


def test_edge_cases():
    assert torch.equal(escort(torch.zeros(3), 0.5), torch.zeros(3))
    assert torch.equal(generalized_covariance(torch.zeros(3), 0.5), torch.zeros(3, 3))
    tiny = torch.tensor([1e-30, 1e-35, 0.0])
    assert escort(tiny, 5.0).tolist() == [1.0, pytest.approx(1e-25), 0.0]
    spoilt = escort(torch.tensor([[math.nan, 0.5], [0.5, 0.5]]), 2.0)
    assert spoilt[0].isnan().any() and torch.equal(spoilt[1], torch.full((2,), 0.5))
    assert escort(torch.tensor([0.5, 0.5]).half(), 2.0).dtype == torch.float16
    assert escort(torch.ones(2, 1), -3.0).tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.3, 1.5, 2.0, 2.5, 4.0])
def test_covariance_is_the_jacobian_of_entmax(alpha):
    z = torch.randn(7, dtype=F64)
    p = entmax(z, alpha)
    jacobian = torch.autograd.functional.jacobian(lambda z: entmax(z, alpha), z)
    torch.testing.assert_close(generalized_covariance(p, 2 - alpha), jacobian, rtol=0, atol=1e-11)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_covariance_of_statistics_is_the_jacobian_of_an_expectation(alpha):
    phi, psi = torch.randn(6, 3, dtype=F64), torch.randn(6, 4, dtype=F64)
    theta = torch.randn(3, dtype=F64)

    def expectation(theta):
        return entmax(phi @ theta, alpha) @ psi

    jacobian = torch.autograd.functional.jacobian(expectation, theta)  # [B, A]
    found = generalized_covariance(entmax(phi @ theta, alpha), 2 - alpha, phi, psi)
    torch.testing.assert_close(found, jacobian.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_gradient_of_the_normaliser_is_the_escort(alpha):
    """tau of p = [(alpha - 1)(z - tau)]^(1 / (alpha - 1)), read off the largest entry."""

    def tau(z):
        p = entmax(z, alpha)
        at = p.argmax()
        return z[at] - (p[at].log() if alpha == 1 else (p[at] ** (alpha - 1) - 1) / (alpha - 1))

    z = torch.randn(6, dtype=F64)
    found = torch.autograd.functional.jacobian(tau, z)
    torch.testing.assert_close(found, escort(entmax(z, alpha), 2 - alpha), rtol=0, atol=1e-12)


def test_covariance_of_one_is_that_of_statistics():
    x = torch.randn(5, 2, dtype=F64) + 1e6
    p = torch.softmax(torch.randn(3, 5, dtype=F64), -1)
    mean = p @ x
    wanted = torch.stack([((x - m).T * q) @ (x - m) for m, q in zip(mean, p, strict=True)])
    torch.testing.assert_close(generalized_covariance(p, first=x), wanted, rtol=1e-8, atol=1e-9)


def test_misuse_is_refused_by_name():
    with pytest.raises(ValueError, match=r"generalized_covariance: first must be \[\*, 4, A\]"):
        generalized_covariance(P, 1.0, torch.zeros(3, 2))
    with pytest.raises(TypeError, match="escort"):
        escort(torch.ones(3, dtype=torch.long), 1.0)
    assert omegamax.functional.escort is escort
