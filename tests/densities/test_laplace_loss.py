"""Losses and divergences of the beta-Laplace family against their definitions, by quadrature, and torch's."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import kl_divergence

from densities.test_laplace import F64, MU, B, column, every_alpha, make, over
from omegamax.densities import BetaLaplace, Gaussian, Laplace, Triangular, fenchel_young_loss


def omega(density: BetaLaplace) -> float:
    alpha = density.alpha
    if alpha == 1:
        return over(density, lambda t, p: p * p.log())
    return (over(density, lambda t, p: p.pow(alpha)) - 1) / (alpha * (alpha - 1))


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.3, 2.0, 3.0])
@pytest.mark.parametrize("mu, b", [(0.5, 1.4), (0.35, 0.2), (-4.0, 0.7)])
def test_loss_is_its_definition_by_quadrature(alpha: float, mu: float, b: float):
    density, target = make(alpha), make(alpha, mu, b)
    conjugate = over(density, lambda t, p: -p * (t - MU).abs() / B) - omega(density)
    distance = over(target, lambda t, q: q * (t - MU).abs(), MU)
    expected = conjugate + omega(target) + distance / B
    assert fenchel_young_loss(density, target).item() == pytest.approx(expected, abs=1e-10)
    assert fenchel_young_loss(density, column(mu)[0]).item() == pytest.approx(conjugate + abs(mu - MU) / B, abs=1e-10)
    assert target.mean_distance(column(MU)[0]).item() == pytest.approx(distance, abs=1e-10)


@every_alpha
def test_loss_is_zero_at_equality_and_accurate_beside_it(alpha: float):
    if alpha <= 0.5:
        with pytest.raises(ValueError, match="alpha must be > 1/2"):
            fenchel_young_loss(make(alpha), make(alpha))
        return
    density = make(alpha)
    assert fenchel_young_loss(density, density) == 0
    # To second order the loss is half the curvature, and the curvature in the location is alpha / (b s).
    near = make(alpha, mu=MU + 1e-7)
    expected = 0.5 * alpha * 1e-14 / (B * density._unit.item())
    assert fenchel_young_loss(density, near).item() == pytest.approx(expected, rel=1e-6)
    assert fenchel_young_loss(density, make(alpha, b=B * (1 + 1e-9))).item() > 0


def test_loss_is_never_negative():
    for alpha in (0.6, 0.9, 1.0, 1.5, 2.0, 4.0):
        mu, b = torch.randn(2, 500, 1, dtype=F64), torch.randn(2, 500, 1, dtype=F64).exp()
        loss = fenchel_young_loss(BetaLaplace(mu[0], b[0], alpha), BetaLaplace(mu[1], b[1], alpha))
        assert (loss >= 0).all() and loss.isfinite().all()


def test_loss_of_points_is_least_at_the_mean_distance():
    # In 1/b the score is linear, so the gradient is the gap of E|t - mu|.
    rate = torch.tensor([1.3], dtype=F64, requires_grad=True)
    points = torch.randn(50, 1, dtype=F64)
    for alpha in (1.0, 1.5, 2.0):
        density = BetaLaplace(torch.zeros(1, dtype=F64), 1 / rate, alpha)
        gradient = torch.autograd.grad(fenchel_young_loss(density, points).mean(), rate)[0]
        gap = points.abs().mean() - density.mean_distance(torch.zeros(1, dtype=F64))
        assert gradient.item() == pytest.approx(gap.item(), abs=1e-13)


def test_curvature_of_the_loss_where_the_locations_meet():
    loc = torch.zeros(1, dtype=F64, requires_grad=True)
    for alpha in (1.0, 1.5, 2.0):
        target = BetaLaplace(torch.zeros(1, dtype=F64), 0.5, alpha)
        first = torch.autograd.grad(fenchel_young_loss(BetaLaplace(loc, 0.5, alpha), target), loc, create_graph=True)[0]
        second = torch.autograd.grad(first.sum(), loc)[0]
        assert first == 0
        # E|t - x| has the curvature 2 q(x).
        assert second.item() == pytest.approx(2 * target.prob(torch.zeros(1, dtype=F64)).item() / 0.5)


def test_loss_refuses_other_alphas_and_families():
    with pytest.raises(ValueError, match="same alpha, got 2 and 1"):
        fenchel_young_loss(Triangular(torch.zeros(1), 1.0), Laplace(torch.zeros(1), 1.0))
    with pytest.raises(TypeError, match="a density of its family, got a Gaussian"):
        fenchel_young_loss(Laplace(torch.zeros(1), 1.0), Gaussian(torch.zeros(1), 1.0))
    loss = fenchel_young_loss(BetaLaplace(torch.zeros(1), 1.0, torch.tensor([0.4, 1.5])), torch.zeros(1))
    assert loss.isnan().tolist() == [True, False]


def test_divergence_to_laplace():
    mu, b = torch.randn(2, 6, 1, dtype=F64), torch.rand(2, 6, 1, dtype=F64) + 0.1
    theirs = [torch.distributions.Laplace(mu[i].squeeze(-1), b[i].squeeze(-1)) for i in (0, 1)]
    ours = [Laplace(mu[i], b[i]) for i in (0, 1)]
    assert (kl_divergence(*ours) - kl_divergence(*theirs)).abs().max() <= 1e-13
    assert (kl_divergence(ours[0], ours[0]) == 0).all()
    learnt = BetaLaplace(mu[0], b[0], torch.ones(6, dtype=F64))
    assert (kl_divergence(learnt, ours[1]) - kl_divergence(*theirs)).abs().max() <= 1e-13
    for alpha in (0.8, 1.4, 2.0):
        p, q = make(alpha), Laplace(column(0.1)[0], 0.4)
        expected = over(p, lambda t, f, q=q: f * (f.log() - q.log_prob(t.unsqueeze(-1))), 0.1)
        assert kl_divergence(p, q).item() == pytest.approx(expected, abs=1e-10)
    with pytest.raises(NotImplementedError, match="q must be a Laplace density"):
        kl_divergence(ours[0], Triangular(mu[1], b[1]))
