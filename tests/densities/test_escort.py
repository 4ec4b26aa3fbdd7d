"""Escorts of densities and covariances under them, against quadrature and against Jacobians."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import integrate

from densities.line import integral
from omegamax import densities
from omegamax.basis import GaussianRBF
from omegamax.densities import (
    BetaGaussian,
    BetaLaplace,
    Gaussian,
    GridDensity,
    LocationScale,
    Mixture,
    gauss_legendre_nodes,
    generalized_covariance,
)

F64 = torch.float64


@pytest.mark.parametrize("alpha", [0.7, 0.9, 1.0, 1.3, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0, 3.5])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_escort_of_a_beta_gaussian_is_its_power_normalised(alpha, beta, n):
    if 1 + (alpha - 1) / beta <= 1 - 2 / n:
        pytest.skip("no escort")
    p = BetaGaussian(torch.randn(n, dtype=F64), torch.eye(n, dtype=F64) * 0.7 + 0.2, alpha=alpha)
    q = p.escort(beta)
    t = p.sample((40,))
    ratio = beta * p.log_prob(t) - q.log_prob(t)  # the logarithm of the integral of the power
    torch.testing.assert_close(ratio, ratio[:1].expand(40), rtol=0, atol=1e-10)
    torch.testing.assert_close(q.support_radius * q.scale_tril[0, 0], p.support_radius * p.scale_tril[0, 0])
    if n == 1 and alpha > 1:
        low, high = p.boundary().flatten().tolist()
        mass, _ = integrate.quad(lambda x: p.prob(torch.tensor([x], dtype=F64)).item() ** beta, low, high, limit=400)
        assert ratio[0].item() == pytest.approx(math.log(mass), abs=1e-7)


def test_escort_of_a_gaussian_and_of_one():
    p = densities.Gaussian(torch.zeros(2, dtype=F64), torch.eye(2, dtype=F64))
    torch.testing.assert_close(p.escort(4.0).scale, 0.25 * torch.eye(2, dtype=F64))
    q = BetaGaussian(torch.zeros(2, dtype=F64), 0.3, alpha=1.7).escort(1.0)
    torch.testing.assert_close(q.scale, 0.3 * torch.eye(2, dtype=F64))
    assert q.alpha == pytest.approx(1.7)


def test_escort_is_differentiable_in_every_parameter():
    loc, scale, alpha, beta = (torch.tensor(x, dtype=F64, requires_grad=True) for x in ([0.3], [[0.6]], 1.6, 0.8))
    t = torch.tensor([[0.2], [0.5]], dtype=F64)

    def log_prob(loc, scale, alpha, beta):
        return BetaGaussian(loc, scale, alpha, validate_args=False).escort(beta).log_prob(t)

    assert torch.autograd.gradcheck(log_prob, (loc, scale, alpha, beta))


def test_escort_on_a_grid_is_its_power_normalised():
    nodes, weights = gauss_legendre_nodes(cells=40, order=6, low=-2, high=2, dtype=F64)
    p = GridDensity.from_function(lambda t: -2 * t[..., 0].abs(), nodes, weights, alpha=2.0)
    q = p.escort(0.5)
    powers = torch.where(p.probs_at_nodes > 0, p.probs_at_nodes.clamp(min=1e-300).sqrt(), 0.0)
    torch.testing.assert_close(q.probs_at_nodes, powers / (weights * powers).sum(), rtol=1e-12, atol=1e-12)
    at = torch.tensor([[0.1], [0.4], [1.9]], dtype=F64)
    ratio = q.prob(at) / p.prob(at).sqrt()
    assert ratio[0] == pytest.approx(ratio[1].item()) and q.prob(at)[2] == 0


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.4, 1.5, 1.9, 2.0, 2.4, 3.0])
@pytest.mark.parametrize("n", [1, 2])
def test_covariance_is_the_jacobian_of_an_expectation_by_the_canonical_parameters(alpha, n):
    theta1 = torch.tensor([0.4, -0.2], dtype=F64)[:n]
    theta2 = -torch.tensor([[1.1, 0.3], [0.3, 0.8]], dtype=F64)[:n, :n]
    basis = GaussianRBF(torch.randn(3, n, dtype=F64), 0.6)

    def expectation(theta1, theta2):
        sym = (theta2 + theta2.mT) / 2
        return BetaGaussian.from_canonical(theta1, sym, alpha, validate_args=False).expect(basis)

    first, second = torch.autograd.functional.jacobian(expectation, (theta1, theta2))
    jacobian = torch.cat([first, second.flatten(1)], -1).T  # [n + n^2, J]
    p = BetaGaussian.from_canonical(theta1, theta2, alpha)

    def statistics(t):
        return torch.cat([t, (t.unsqueeze(-1) * t.unsqueeze(-2)).flatten(-2)], -1)

    found = generalized_covariance(p, statistics, basis)
    torch.testing.assert_close(found, jacobian, rtol=0, atol=1e-9 if alpha >= 1 else 1e-6)


def test_covariance_on_a_grid_is_the_jacobian_of_an_expectation():
    nodes, weights = gauss_legendre_nodes(cells=30, order=4, low=-2, high=2, dtype=F64)
    phi = torch.cat([nodes, nodes**2, nodes.cos()], -1)
    basis = GaussianRBF(torch.randn(3, 1, dtype=F64), 0.6)
    theta = torch.tensor([0.3, -1.0, 0.5], dtype=F64)
    for alpha in (1.0, 1.5, 2.0):

        def expectation(theta, alpha=alpha):
            return GridDensity(phi @ theta, nodes, weights, alpha, validate_args=False).expect(basis)

        jacobian = torch.autograd.functional.jacobian(expectation, theta).T
        p = GridDensity(phi @ theta, nodes, weights, alpha)
        found = generalized_covariance(p, lambda t: torch.cat([t, t**2, t.cos()], -1), basis)
        torch.testing.assert_close(found, jacobian, rtol=0, atol=1e-11)


def test_covariance_of_beta_one_is_the_covariance():
    for alpha in (1.0, 1.5, 2.0):
        p = BetaGaussian(torch.randn(2, 2, dtype=F64), torch.eye(2, dtype=F64) * 0.5, alpha=alpha)
        found = generalized_covariance(p, lambda t: t, beta=1.0)
        torch.testing.assert_close(found, p.covariance_matrix, rtol=0, atol=1e-12)


def test_gradient_of_the_normaliser_is_the_mean_under_the_escort():
    """A_alpha of alpha = 1.5, read off the density at a point: p^(1/2) = 1/2 (f - A) + 1."""
    theta = torch.tensor([0.4, -1.1], dtype=F64)

    def normaliser(theta):
        p = BetaGaussian.from_canonical(theta[:1], theta[1:, None], 1.5, validate_args=False)
        t = p.loc.detach()
        return theta[0] * t[0] + theta[1] * t[0] ** 2 - 2 * (p.prob(t).sqrt() - 1)

    gradient = torch.autograd.functional.jacobian(normaliser, theta)
    escort = BetaGaussian.from_canonical(theta[:1], theta[1:, None], 1.5).escort(0.5)
    wanted = torch.stack([escort.mean[0], escort.mean[0] ** 2 + escort.variance[0]])
    torch.testing.assert_close(gradient, wanted, rtol=0, atol=1e-11)


def power(p, beta, t):
    log_p = p.log_prob(t.unsqueeze(-1))
    return torch.where(log_p > -math.inf, (beta * log_p.clamp(min=-1e3)).exp(), 0.0)


def log_integral(p, beta, *ends):
    return math.log(integral(lambda t: power(p, beta, t), *ends))


@pytest.mark.parametrize("alpha", [0.6, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0, 3.5])
def test_escort_of_a_beta_laplace_is_its_power_normalised(alpha, beta):
    p = BetaLaplace(torch.tensor([0.3], dtype=F64), 0.8, alpha)
    q = p.escort(beta)
    radius = p.support_radius.item()
    mass = log_integral(p, beta, 0.3 - radius, 0.3, 0.3 + radius)
    t = p.sample((40,))
    torch.testing.assert_close(q.log_prob(t), beta * p.log_prob(t) - mass, rtol=0, atol=1e-9)
    torch.testing.assert_close(q.support_radius, p.support_radius, rtol=1e-13, atol=0)


def test_escort_of_a_beta_laplace_takes_tensors_and_is_differentiable_in_all():
    loc, scale, alpha, beta = (torch.tensor(x, dtype=F64, requires_grad=True) for x in ([[0.3]], [0.6], [1.6], [0.8]))
    t = torch.tensor([[0.2], [0.5]], dtype=F64)

    def log_prob(loc, scale, alpha, beta):
        return BetaLaplace(loc, scale, alpha, validate_args=False).escort(beta).log_prob(t)

    assert torch.autograd.gradcheck(log_prob, (loc, scale, alpha, beta))
    both = BetaLaplace(torch.zeros(2, 1), 1.0, 1.5).escort(torch.tensor([0.5, 2.0]))
    assert both.alpha.tolist() == [2.0, 1.25]


CONVEX = {
    "triangular": lambda s: s**2 / 2,
    "parabola": lambda s: s**3 / 6,
    "root": lambda s: s**1.5,
    "cosh": torch.cosh,
}


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0, 3.5])
@pytest.mark.parametrize("g", CONVEX.values(), ids=CONVEX)
def test_escort_of_a_location_scale_density_is_its_power_normalised(g, beta):
    p = LocationScale(g, torch.tensor([0.3], dtype=F64), 0.8)
    q = p.escort(beta)
    radius = p.support_radius.item()
    ends = 0.3 - radius, 0.3, 0.3 + radius
    mass = log_integral(p, beta, *ends)
    t = p.sample((40,))
    torch.testing.assert_close(q.log_prob(t), beta * p.log_prob(t) - mass, rtol=0, atol=1e-9)
    assert q.prob(torch.tensor([0.3 + 1.001 * radius], dtype=F64)) == 0
    spread = integral(lambda t: (t - 0.3) ** 2 * power(p, beta, t), *ends) / math.exp(mass)
    assert q.variance.item() == pytest.approx(spread, abs=1e-9)
    assert q.mean.item() == pytest.approx(0.3, abs=1e-12)


def test_escort_of_a_location_scale_density_takes_tensors_and_is_differentiable_in_all():
    loc, scale, curve, beta = (
        torch.tensor(x, dtype=F64, requires_grad=True) for x in ([[0.3], [0.1]], [0.6], [[1.2], [0.7]], [0.8, 1.5])
    )
    basis = GaussianRBF(torch.tensor([[0.2], [0.6]], dtype=F64), 0.3)

    def measures(loc, scale, curve, beta):
        q = LocationScale(lambda s: curve * s**3, loc, scale, validate_args=False).escort(beta)
        return q.log_prob(torch.tensor([[0.2], [0.25]], dtype=F64)), q.expect(basis)

    assert torch.autograd.gradcheck(measures, (loc, scale, curve, beta))


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 1.9, 2.0, 2.4, 3.0])
def test_covariance_of_a_beta_laplace_is_the_jacobian_by_the_slope(alpha):
    loc, basis = torch.tensor([0.2], dtype=F64), GaussianRBF(torch.randn(3, 1, dtype=F64), 0.6)

    def expectation(slope):
        return BetaLaplace(loc, 1 / slope, alpha, validate_args=False).expect(basis)

    slope = torch.tensor([1.3], dtype=F64)
    jacobian = torch.autograd.functional.jacobian(expectation, slope).T
    p = BetaLaplace(loc, 1 / slope, alpha)
    found = generalized_covariance(p, lambda t: -(t - loc).abs(), basis)
    torch.testing.assert_close(found, jacobian, rtol=0, atol=1e-9 if alpha >= 1 else 1e-6)


@pytest.mark.parametrize("g", CONVEX.values(), ids=CONVEX)
def test_covariance_of_a_location_scale_density_is_the_jacobian_by_a_factor_of_the_score(g):
    loc, basis = torch.tensor([0.2], dtype=F64), GaussianRBF(torch.randn(3, 1, dtype=F64), 0.6)

    def expectation(factor):
        return LocationScale(lambda s: factor * g(s), loc, 0.7, validate_args=False).expect(basis)

    def score(t):
        return -torch.func.grad(lambda s: g(s).sum())((t - loc).abs() / 0.7) / 0.7

    jacobian = torch.autograd.functional.jacobian(expectation, torch.ones(1, dtype=F64)).T
    found = generalized_covariance(LocationScale(g, loc, 0.7), score, basis)
    torch.testing.assert_close(found, jacobian, rtol=0, atol=1e-9)


def test_escort_on_a_grid_is_zero_outside_the_support_at_any_power():
    nodes, weights = gauss_legendre_nodes(cells=40, order=6, low=-2, high=2, dtype=F64)
    p = GridDensity.from_function(lambda t: -2 * t[..., 0].abs(), nodes, weights, alpha=2.0)
    at = torch.tensor([[0.1], [1.9]], dtype=F64)
    assert p.escort(0.0).prob(at)[1] == 0 and p.escort(-0.5).prob(at)[1] == 0


def test_misuse_is_refused_by_name():
    p = BetaGaussian(torch.zeros(1), 1.0, alpha=2.0)
    with pytest.raises(ValueError, match=r"BetaGaussian\.escort: beta must be > 0"):
        p.escort(0.0)
    with pytest.raises(ValueError, match=r"BetaGaussian\.escort: beta must be above 0.3"):
        BetaGaussian(torch.zeros(2), 1.0, alpha=0.7).escort(0.3)
    with pytest.raises(ValueError, match=r"generalized_covariance: beta must be above 1 - alpha = -1"):
        generalized_covariance(p, lambda t: t, beta=-1.0)
    with pytest.raises(ValueError, match=r"generalized_covariance: beta must be above 1 - alpha = -1"):
        generalized_covariance(BetaLaplace(torch.zeros(1), 1.0), lambda t: t, beta=-1.0)
    with pytest.raises(ValueError, match=r"BetaLaplace\.escort: beta must be > 0"):
        BetaLaplace(torch.zeros(1), 1.0).escort(0.0)
    with pytest.raises(ValueError, match=r"BetaLaplace\.escort: beta must be above 0.3 for alpha = 0.7, got 0.2"):
        BetaLaplace(torch.zeros(1), 1.0, alpha=0.7).escort(0.2)
    with pytest.raises(ValueError, match=r"LocationScale\.escort: beta must be a finite number >= 0"):
        LocationScale(torch.cosh, torch.zeros(1), 1.0).escort(-0.5)
    with pytest.raises(ValueError, match=r"LocationScale\.escort: beta must be >= 0 everywhere, got a minimum of -1"):
        LocationScale(torch.cosh, torch.zeros(2, 1), 1.0).escort(torch.tensor([1.0, -1.0]))
    mixture = Mixture(torch.ones(1), Gaussian(torch.zeros(1, 1), 1.0))
    with pytest.raises(NotImplementedError, match=r"Mixture\.escort: not known in closed form"):
        mixture.escort(0.5)
    with pytest.raises(NotImplementedError, match="a LocationScale or a GridDensity, got Mixture"):
        generalized_covariance(mixture, lambda t: t)
