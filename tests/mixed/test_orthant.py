"""Integrals along a line and probabilities of orthants, against closed forms and scipy."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from omegamax.mixed._fibre import log_line_integral
from omegamax.mixed._orthant import log_orthant, quantile

F = torch.float64


def correlations(*values):
    """A 3 x 3 (or 2 x 2) matrix from its entries above the diagonal."""
    size = 3 if len(values) == 3 else 2
    matrix = torch.eye(size, dtype=F)
    for (i, j), value in zip([(0, 1), (0, 2), (1, 2)], values, strict=False):
        matrix[i, j] = matrix[j, i] = value
    return matrix


def orthant(mean, cov, **options):
    mean = torch.as_tensor(mean, dtype=F)
    there = torch.ones_like(mean, dtype=torch.bool)
    return log_orthant(mean, cov, there, options.get("order", 48), options.get("points", 2048))


@pytest.mark.parametrize("r", [0.0, 0.3, -0.7, 0.99, -0.99, 0.9999])
def test_two_centred_entries_have_an_arcsine(r):
    got = orthant([0.0, 0.0], correlations(r)).exp().item()
    assert got == pytest.approx(0.25 + math.asin(r) / (2 * math.pi), rel=1e-11 if abs(r) < 0.999 else 1e-7)


@pytest.mark.parametrize("r", [(0.0, 0.0, 0.0), (0.3, -0.2, 0.5), (0.9, 0.8, 0.85), (-0.45, -0.4, -0.3)])
def test_three_centred_entries_have_arcsines(r):
    got = orthant([0.0, 0.0, 0.0], correlations(*r)).exp().item()
    assert got == pytest.approx(0.125 + sum(map(math.asin, r)) / (4 * math.pi), rel=1e-10)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("shift", [2.0, 0.0, -3.0, -12.0])
def test_one_common_factor_is_one_integral(size, shift):
    # Entries sqrt(r) u + sqrt(1 - r) e + mean: independent once u is known. Far out on the left too.
    r, mean = 0.4, shift + np.linspace(-0.5, 0.5, size)
    cov = r * torch.ones(size, size, dtype=F) + (1 - r) * torch.eye(size, dtype=F)

    def log_integrand(u):
        return stats.norm.logpdf(u) + special.log_ndtr((mean + math.sqrt(r) * u) / math.sqrt(1 - r)).sum()

    grid = np.linspace(-10, 30, 4001)
    top = max(log_integrand(u) for u in grid)
    mode = grid[np.argmax([log_integrand(u) for u in grid])]
    value, _ = integrate.quad(lambda u: math.exp(log_integrand(u) - top), mode - 12, mode + 12, limit=400)
    wanted = math.log(value) + top
    within = 1e-8 if size <= 3 else 0.02 if shift < -10 else 2e-3
    assert orthant(mean, cov).item() == pytest.approx(wanted, abs=within)


@pytest.mark.parametrize("size", [4, 6, 10])
def test_equal_correlations_of_a_half_give_one_over_the_count(size):
    cov = 0.5 * torch.ones(size, size, dtype=F) + 0.5 * torch.eye(size, dtype=F)
    assert orthant([0.0] * size, cov).exp().item() == pytest.approx(1 / (size + 1), rel=2e-3)
    assert orthant([0.0] * size, cov, points=2**16).exp().item() == pytest.approx(1 / (size + 1), rel=2e-4)


def test_entries_that_are_not_there_do_not_count():
    cov = correlations(0.3, -0.2, 0.5)
    mean = torch.tensor([0.2, -1.0, 0.4], dtype=F)
    there = torch.tensor([[True, False, True], [False, False, False], [False, True, False], [True, True, True]])
    got = log_orthant(mean.expand(4, 3), cov.expand(4, 3, 3), there, 48, 64)
    pair = orthant(mean[[0, 2]], cov[[0, 2]][:, [0, 2]])
    wanted = torch.stack([pair, torch.zeros((), dtype=F), torch.special.log_ndtr(mean[1]), orthant(mean, cov)])
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("positive", [False, True])
def test_line_integral_with_slopes_of_both_signs(positive):
    m, v = 0.3, 0.8
    c, d = np.array([0.2, 1.0, -0.5]), np.array([1.5, -2.0, 0.7])

    def integrand(t):
        return math.exp(-((t - m) ** 2) / (2 * v)) * stats.norm.cdf(c + d * t).prod()

    wanted, _ = integrate.quad(integrand, 0 if positive else -12, 12, epsabs=1e-15)
    parts = (torch.tensor(x, dtype=F) for x in (m, v, c, d))
    assert log_line_integral(*parts, 48, positive).exp().item() == pytest.approx(wanted, rel=1e-12)


def test_line_integral_without_factors_is_gaussian():
    none = torch.full((3,), math.inf, dtype=F)
    got = log_line_integral(torch.tensor(5.0, dtype=F), torch.tensor(0.25, dtype=F), none, torch.zeros(3, dtype=F), 32)
    assert got.item() == pytest.approx(0.5 * math.log(2 * math.pi * 0.25), abs=1e-13)


@pytest.mark.parametrize("log_p", [-1e-12, -0.1, -5.0, -29.0, -31.0, -700.0, -1e6])
def test_quantile_of_a_logarithm(log_p):
    log_p = torch.tensor(log_p, dtype=F)
    torch.testing.assert_close(torch.special.log_ndtr(quantile(log_p)), log_p, rtol=1e-12, atol=1e-15)


def test_quantile_is_differentiable_twice():
    log_p = torch.tensor([-0.1, -3.0, -50.0], dtype=F, requires_grad=True)
    assert torch.autograd.gradcheck(quantile, log_p)
    assert torch.autograd.gradgradcheck(quantile, log_p)
