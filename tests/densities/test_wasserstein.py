"""The 2-Wasserstein distance against quantiles on a line, Gelbrich's formula and an optimal map."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch
from torch.autograd import gradcheck

from densities.oracle import F64, spd
from omegamax.densities import BetaGaussian, Gaussian, TruncatedParaboloid, wasserstein2

every_alpha = pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 2.0])


@every_alpha
def test_distance_of_quantiles_on_a_line(alpha: float):
    p = BetaGaussian(torch.tensor([0.3], dtype=F64), 0.5, alpha)
    q = BetaGaussian(torch.tensor([-1.1], dtype=F64), 2.0, alpha)
    if alpha > 1:  # r^2 / R^2 is a beta variable, by the radius of each
        half = scipy.stats.beta(0.5, 1 / (alpha - 1) + 1)
        level, weight = np.polynomial.legendre.leggauss(200)
        level, weight = (level + 1) / 2, weight / 2
        s = np.sqrt(half.ppf(level))
        a, b = p.support_tril.item(), q.support_tril.item()
        expected = sum(0.5 * (weight * (1.4 + sign * s * (a - b)) ** 2).sum() for sign in (1, -1))
        assert wasserstein2(p, q, squared=True).item() == pytest.approx(expected, rel=1e-6)
        exact = 1.4**2 + (a - b) ** 2 / (1 + 2 * alpha / (alpha - 1))
    else:
        exact = 1.4**2 + (p.stddev - q.stddev).item() ** 2
    assert wasserstein2(p, q, squared=True).item() == pytest.approx(exact, rel=1e-13)
    assert wasserstein2(p, q).item() == pytest.approx(math.sqrt(exact), rel=1e-13)


@every_alpha
@pytest.mark.parametrize("n", [2, 3, 5])
def test_gelbrich(n: int, alpha: float):
    p = BetaGaussian(torch.randn(4, n, dtype=F64), spd(n, 4), alpha)
    q = BetaGaussian(torch.randn(4, n, dtype=F64), spd(n, 4, seed=1), alpha)
    distance = wasserstein2(p, q)
    for i in range(4):
        a, b = p.covariance_matrix[i].numpy(), q.covariance_matrix[i].numpy()
        root = scipy.linalg.sqrtm(a).real
        cross = scipy.linalg.sqrtm(root @ b @ root).real
        expected = (p.loc[i] - q.loc[i]).square().sum().item() + np.trace(a + b - 2 * cross)
        assert distance[i].item() ** 2 == pytest.approx(expected, rel=1e-10)
    assert torch.allclose(distance, wasserstein2(q, p), rtol=1e-12)
    learnt = [BetaGaussian(d.loc, d.scale, torch.tensor(alpha, dtype=F64)) for d in (p, q)]
    assert torch.allclose(wasserstein2(*learnt), distance, rtol=1e-12)


def test_the_linear_map_transports_one_onto_the_other():
    p, q = (
        TruncatedParaboloid(torch.zeros(2, dtype=F64), spd(2)),
        TruncatedParaboloid(torch.ones(2, dtype=F64), spd(2, seed=1)),
    )
    a, b = p.covariance_matrix.numpy(), q.covariance_matrix.numpy()
    root = scipy.linalg.sqrtm(a).real
    back = np.linalg.inv(root)
    move = torch.as_tensor(back @ scipy.linalg.sqrtm(root @ b @ root).real @ back)
    x = p.sample((40000,))
    y = q.loc + x @ move.mT
    assert torch.allclose(p.log_prob(x) - torch.linalg.det(move).log(), q.log_prob(y), atol=1e-6)
    cost = (x - y).square().sum(-1)
    assert abs(cost.mean() - wasserstein2(p, q, squared=True)) < 5 * cost.std() / 200


def test_diagonal_scales_need_no_rotation():
    a, b = torch.rand(3, 4, dtype=F64) + 0.5, torch.rand(3, 4, dtype=F64) + 0.5
    p, q = (Gaussian(torch.zeros(4, dtype=F64), scale_diag=d) for d in (a, b))
    full = [Gaussian(torch.zeros(4, dtype=F64), torch.diag_embed(d)) for d in (a, b)]
    assert torch.allclose(wasserstein2(p, q), (a.sqrt() - b.sqrt()).norm(dim=-1), rtol=1e-14)
    assert torch.allclose(wasserstein2(*full), wasserstein2(p, q), rtol=1e-13)
    assert torch.allclose(wasserstein2(p, full[1]), wasserstein2(p, q), rtol=1e-13)


@pytest.mark.parametrize("n", [1, 3])
def test_zero_at_equality_with_zero_gradient(n: int):
    loc, scale = torch.zeros(5, n, dtype=F64, requires_grad=True), spd(n, 5).requires_grad_()
    p = BetaGaussian(loc, scale, 1.5)
    q = BetaGaussian(loc.detach().clone(), scale.detach().clone(), 1.5)
    for squared in (True, False):
        distance = wasserstein2(p, q, squared)
        assert (distance == 0).all()
        assert all((g == 0).all() for g in torch.autograd.grad(distance.sum(), (loc, scale), retain_graph=True))


@pytest.mark.parametrize("step", [1e-3, 1e-7, 1e-11])
def test_no_digit_is_lost_near_equality(step: float):
    # Sigma' = (1 + step)^2 Sigma for Gaussians: the distance is step sqrt(tr Sigma).
    scale = spd(3)
    tril = torch.linalg.cholesky(scale)
    p, q = (Gaussian(torch.zeros(3, dtype=F64), scale_tril=t) for t in (tril, tril * (1 + step)))
    expected = ((1 + step) - 1) * scale.diagonal().sum().sqrt().item()
    assert wasserstein2(p, q).item() == pytest.approx(expected, rel=1e-4 if step < 1e-9 else 1e-8)


@pytest.mark.parametrize("alpha", [0.9, 1.0, 2.0])
def test_gradients(alpha: float):
    leaves = [t.requires_grad_() for t in (torch.zeros(2, dtype=F64), spd(2), torch.ones(2, dtype=F64), spd(2, seed=1))]
    leaves.append(torch.tensor(alpha, dtype=F64, requires_grad=True))

    def f(loc_p, scale_p, loc_q, scale_q, a):
        p = BetaGaussian(loc_p, scale_p, a, validate_args=False)
        q = BetaGaussian(loc_q, scale_q, a, validate_args=False)
        return wasserstein2(p, q), wasserstein2(p, q, squared=True)

    assert gradcheck(f, leaves)


def test_batches_and_float32():
    p = TruncatedParaboloid(torch.zeros(4, 1, 2), spd(2, 4, 1).float())
    q = TruncatedParaboloid(torch.ones(3, 2), 1.0)
    assert wasserstein2(p, q).shape == (4, 3) and wasserstein2(p, q).dtype == torch.float32
    mapped = torch.func.vmap(
        lambda s: wasserstein2(TruncatedParaboloid(torch.zeros(2), s), TruncatedParaboloid(torch.ones(2), 1.0))
    )
    assert torch.allclose(mapped(p.scale[:, 0]), wasserstein2(p, q)[:, 0])


def test_errors():
    p = Gaussian(torch.zeros(2), 1.0)
    with pytest.raises(ValueError, match="wasserstein2: both densities must have the same alpha, got 1 and 2"):
        wasserstein2(p, TruncatedParaboloid(torch.zeros(2), 1.0))
    with pytest.raises(ValueError, match="wasserstein2: p and q must have the same dimension, got 2 and 3"):
        wasserstein2(p, Gaussian(torch.zeros(3), 1.0))
    with pytest.raises(TypeError, match="wasserstein2: q must be a BetaGaussian, got Tensor"):
        wasserstein2(p, torch.zeros(2))
    heavy = BetaGaussian(torch.zeros(2), 1.0, 0.5)
    with pytest.raises(ValueError, match=r"wasserstein2: alpha must be > 2/4 in 2 dimensions, got 0.5"):
        wasserstein2(heavy, heavy)
    mixed = BetaGaussian(torch.zeros(2, 2), torch.eye(2), torch.tensor([0.5, 2.0]))
    assert wasserstein2(mixed, mixed).isnan().tolist() == [True, False]
