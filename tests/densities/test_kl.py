"""Closed Kullback-Leibler divergences against quadrature, torch's normal and samples."""

from __future__ import annotations

import math

import pytest
import torch
from torch.autograd import gradcheck
from torch.distributions import MultivariateNormal, kl_divergence

from densities.oracle import F64, radial, spd
from omegamax.densities import BetaGaussian, Gaussian, TruncatedParaboloid

every_n = pytest.mark.parametrize("n", [1, 2, 4])


@every_n
def test_gaussians_as_torch_has_them(n: int):
    locs, scales = torch.randn(2, 5, n, dtype=F64), (spd(n, 5), spd(n, 5, seed=1))
    normals = [MultivariateNormal(m, s) for m, s in zip(locs, scales, strict=True)]
    ours = [Gaussian(m, s) for m, s in zip(locs, scales, strict=True)]
    learnt = [BetaGaussian(m, s, torch.ones(5, dtype=F64)) for m, s in zip(locs, scales, strict=True)]
    expected = kl_divergence(*normals)
    for p in (normals[0], ours[0], learnt[0]):
        for q in (normals[1], ours[1], learnt[1]):
            assert torch.allclose(kl_divergence(p, q), expected, rtol=1e-11)
    assert (kl_divergence(ours[0], ours[0]) == 0).all()


@pytest.mark.parametrize("alpha", [0.9, 1.2, 2.0, 4.0])
def test_around_one_centre_by_quadrature(alpha: float):
    p = BetaGaussian(torch.tensor([0.2, -0.3], dtype=F64), spd(2), alpha)
    q = Gaussian(p.loc, 1.7 * p.scale)
    base = -q.log_prob(q.loc).item()
    cross = radial(p, lambda r2, v: math.log(v) + base + r2 / (2 * 1.7), min(p.support_radius.item(), math.inf))
    assert kl_divergence(p, q).item() == pytest.approx(cross, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.9, 1.5])
def test_in_general_by_samples(alpha: float):
    p, q = BetaGaussian(torch.zeros(3, dtype=F64), spd(3), alpha), Gaussian(torch.ones(3, dtype=F64), spd(3, seed=1))
    x = p.sample((40000,))
    gap = p.log_prob(x) - q.log_prob(x)
    assert abs(gap.mean() - kl_divergence(p, q)) < 5 * gap.std() / 200
    normal = MultivariateNormal(q.loc, q.scale)
    assert torch.allclose(kl_divergence(p, normal), kl_divergence(p, q), rtol=1e-12)


def test_gradients_and_broadcasting():
    leaves = [t.requires_grad_() for t in (torch.zeros(2, dtype=F64), spd(2), torch.ones(2, dtype=F64), spd(2, seed=1))]
    for alpha in (0.9, 1.0, 2.0):
        a = torch.tensor(alpha, dtype=F64, requires_grad=True)
        f = lambda m, s, k, t, a: kl_divergence(  # noqa: E731
            BetaGaussian(m, s, a, validate_args=False), Gaussian(k, t, validate_args=False)
        )
        assert gradcheck(f, [*leaves, a])
    p, q = TruncatedParaboloid(torch.zeros(4, 1, 2), 1.0), Gaussian(torch.zeros(3, 2), 1.0)
    assert kl_divergence(p, q).shape == (4, 3)


def test_infinite_where_the_covariance_is():
    q = Gaussian(torch.zeros(1), 1.0)
    assert kl_divergence(BetaGaussian(torch.zeros(1), 1.0, 0.0), q).isposinf()
    p = BetaGaussian(torch.zeros(3, 1), 1.0, torch.tensor([0.0, 0.2, 0.9]))
    assert kl_divergence(p, q).isposinf().tolist() == [True, True, False]


def test_nothing_else_is_closed():
    p, q = Gaussian(torch.zeros(2), 1.0), TruncatedParaboloid(torch.zeros(2), 1.0)
    for pair in ((p, q), (q, q), (MultivariateNormal(torch.zeros(2), torch.eye(2)), q)):
        with pytest.raises(NotImplementedError, match="q must be a Gaussian"):
            kl_divergence(*pair)
    with pytest.raises(NotImplementedError):
        kl_divergence(p, torch.distributions.Normal(0.0, 1.0))
