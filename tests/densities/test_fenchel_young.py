"""Fenchel-Young losses of beta-Gaussians against their definition, integrated by brute force."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate
from torch.autograd import gradcheck, gradgradcheck
from torch.distributions import MultivariateNormal, kl_divergence

from densities.oracle import F64, spd, threshold
from omegamax.densities import BetaGaussian, Density, Gaussian, TruncatedParaboloid, fenchel_young_loss

ALPHAS = [0.8, 1.0, 1.2, 1.5, 2.0, 3.0]
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)


def pair(n: int, alpha: float | torch.Tensor, *batch: int) -> tuple[BetaGaussian, BetaGaussian]:
    first = BetaGaussian(torch.randn(*batch, n, dtype=F64), spd(n, *batch), alpha)
    return first, BetaGaussian(torch.randn(*batch, n, dtype=F64), 0.7 * spd(n, *batch, seed=1), alpha)


def brute(p: BetaGaussian, q: BetaGaussian, alpha: float) -> float:
    """``Omega*(f) + Omega(q) - E_q[f]`` in one dimension with ``Omega*(f) = E_p[f] - Omega(p)``, all by quadrature."""
    score = lambda t: -((t - p.loc.item()) ** 2) / (2 * p.scale.item())  # noqa: E731

    def ends(d: BetaGaussian) -> tuple[float, float]:
        radius = d.support_tril.item() if alpha > 1 else 12 * d.stddev.item() if alpha == 1 else np.inf
        return d.loc.item() - radius, d.loc.item() + radius

    def expect(d: BetaGaussian, h) -> float:
        def integrand(t: float) -> float:
            v = d.prob(torch.tensor([t], dtype=F64)).item()
            return v * h(t, v) if v > 0 else 0.0

        return integrate.quad(integrand, *ends(d), epsabs=1e-11, epsrel=1e-11, limit=300)[0]

    log = (lambda v: math.log(v)) if alpha == 1 else (lambda v: (v ** (alpha - 1) - 1) / (alpha - 1) / alpha)
    return expect(p, lambda t, v: score(t) - log(v)) + expect(q, lambda t, v: log(v)) - expect(q, lambda t, v: score(t))


@every_alpha
def test_value_is_the_definition(alpha: float):
    p, q = pair(1, alpha)
    assert fenchel_young_loss(p, q).item() == pytest.approx(brute(p, q, alpha), abs=1e-8)
    torch.manual_seed(0)
    p, q = pair(1, alpha)
    torch.manual_seed(0)
    learnt = pair(1, torch.tensor(alpha, dtype=F64))
    assert fenchel_young_loss(*learnt).item() == pytest.approx(fenchel_young_loss(p, q).item(), rel=1e-13)
    assert fenchel_young_loss(learnt[0], q).item() == pytest.approx(fenchel_young_loss(p, q).item(), rel=1e-13)


@every_alpha
@pytest.mark.parametrize("n", [1, 2, 4])
def test_value_is_the_textbook_sum(n: int, alpha: float):
    p, q = pair(n, alpha, 6)
    precision, d = torch.linalg.inv(p.scale), q.loc - p.loc
    omega_p, omega_q = -p.tsallis_entropy(), -q.tsallis_entropy()
    quadratic = torch.einsum("bi,bij,bj->b", d, precision, d) + (precision * q.covariance_matrix).sum((-2, -1))
    expected = 0.5 * quadratic + omega_q - (1 + n * (alpha - 1) / 2) * omega_p - n / (2 * alpha)
    loss = fenchel_young_loss(p, q)
    assert loss.shape == (6,) and torch.allclose(loss, expected, rtol=1e-10)
    points = torch.randn(5, 6, n, dtype=F64)
    x = points - p.loc
    cross = torch.einsum("sbi,bij,sbj->sb", x, precision, x) / 2 - (1 + n * (alpha - 1) / 2) * omega_p - n / (2 * alpha)
    assert torch.allclose(fenchel_young_loss(p, points), cross, rtol=1e-11)


@pytest.mark.parametrize("n", [1, 3])
def test_points_at_alpha_one_give_the_log_likelihood(n: int):
    p, _ = pair(n, 1.0, 4)
    x = torch.randn(7, 4, n, dtype=F64)
    assert torch.allclose(fenchel_young_loss(p, x), -p.log_prob(x), rtol=1e-13)


def test_points_are_the_limit_of_narrow_densities():
    p, _ = pair(1, 1.5)
    x = torch.tensor([0.3], dtype=F64)
    narrow = BetaGaussian(x, 1e-9, 1.5)
    assert fenchel_young_loss(p, x).item() == pytest.approx(
        (fenchel_young_loss(p, narrow) + narrow.tsallis_entropy()).item(), abs=1e-6
    )


@every_alpha
def test_zero_and_only_zero_at_equality(alpha: float):
    p, q = pair(3, alpha, 50)
    assert (fenchel_young_loss(p, p) == 0).all()
    again = BetaGaussian(p.loc.clone(), p.scale.clone(), alpha)
    assert (fenchel_young_loss(p, again) == 0).all()
    assert (fenchel_young_loss(p, q) > 0.01).all()
    tiny = BetaGaussian(p.loc, p.scale * (1 + 1e-15), alpha)
    assert (fenchel_young_loss(p, tiny) >= 0).all() and (fenchel_young_loss(p, tiny) < 1e-28).all()


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("step", [1e-2, 1e-5, 1e-8, 1e-11])
def test_no_digit_is_lost_near_equality(alpha: float, step: float):
    # Two densities on a line with variances 1 and (1 + step)^2, at 50 digits.
    with mpmath.workdps(80):
        root = mpmath.mpf(1 + step)
        log_det = 2 * mpmath.log(root)
        a, n = mpmath.mpf(alpha), 1
        if alpha == 1:
            exact = (root**2 - 1 - log_det) / 2
        else:
            tau_p, tau_q = threshold(a, n, 0.0), _threshold(a, log_det)
            cov = -2 * tau_q / (n + 2 * a / (a - 1)) * root**2
            omega = lambda tau: -1 / (a * (a - 1)) - 2 * tau / (2 * a + n * (a - 1))  # noqa: E731
            exact = cov / 2 + omega(tau_q) - (1 + n * (a - 1) / 2) * omega(tau_p) - n / (2 * a)
        p = BetaGaussian(torch.zeros(1, dtype=F64), alpha=alpha, scale_tril=torch.ones(1, 1, dtype=F64))
        q = BetaGaussian(torch.zeros(1, dtype=F64), alpha=alpha, scale_tril=torch.full((1, 1), 1 + step, dtype=F64))
        assert fenchel_young_loss(p, q).item() == pytest.approx(float(exact), rel=1e-13)


def _threshold(alpha: mpmath.mpf, log_det: mpmath.mpf) -> mpmath.mpf:
    return threshold(alpha, 1, log_det)


@every_alpha
@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradient_is_the_gap_of_the_moments(n: int, alpha: float):
    _, q = pair(n, alpha)
    theta1, theta2 = (t.detach().requires_grad_() for t in pair(n, alpha)[0].canonical)
    p = BetaGaussian.from_canonical(theta1, theta2, alpha)
    g1, g2 = torch.autograd.grad(fenchel_young_loss(p, q), (theta1, theta2))
    second = lambda d: d.covariance_matrix + d.mean.unsqueeze(-1) * d.mean.unsqueeze(-2)  # noqa: E731
    assert torch.allclose(g1, p.mean - q.mean, rtol=1e-10)
    assert torch.allclose(g2, second(p) - second(q), rtol=1e-10)
    p = BetaGaussian.from_canonical(theta1, theta2, alpha)
    x = torch.randn(n, dtype=F64)
    g1, g2 = torch.autograd.grad(fenchel_young_loss(p, x), (theta1, theta2))
    assert torch.allclose(g1, p.mean - x, rtol=1e-10) and torch.allclose(g2, second(p) - x[:, None] * x, rtol=1e-10)


def test_gradient_vanishes_at_equality():
    loc, scale = torch.zeros(2, dtype=F64, requires_grad=True), spd(2).requires_grad_()
    loss = fenchel_young_loss(BetaGaussian(loc, scale, 1.5), BetaGaussian(loc.detach(), scale.detach(), 1.5))
    assert all((g == 0).all() for g in torch.autograd.grad(loss, (loc, scale)))


@pytest.mark.parametrize("alpha", [0.9, 1.0, 1.4])
@pytest.mark.parametrize("n", [1, 2])
def test_gradients_in_everything(n: int, alpha: float):
    leaves = [
        t.requires_grad_() for t in (torch.randn(n, dtype=F64), spd(n), torch.randn(n, dtype=F64), spd(n, seed=1))
    ]
    leaves.append(torch.tensor(alpha, dtype=F64, requires_grad=True))

    def f(loc_p, scale_p, loc_q, scale_q, a):
        p = BetaGaussian(loc_p, scale_p, a, validate_args=False)
        q = BetaGaussian(loc_q, scale_q, a, validate_args=False)
        return fenchel_young_loss(p, q), fenchel_young_loss(p, loc_q)

    assert gradcheck(f, leaves) and gradgradcheck(f, leaves, atol=1e-6, fast_mode=True)


def test_minimum_matches_the_moments():
    target = TruncatedParaboloid(torch.tensor([0.4, -0.2], dtype=F64), spd(2))
    loc, tril = torch.zeros(2, dtype=F64, requires_grad=True), torch.eye(2, dtype=F64).requires_grad_()
    optimiser = torch.optim.LBFGS([loc, tril], max_iter=100, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        loss = fenchel_young_loss(TruncatedParaboloid(loc, tril @ tril.mT), target)
        loss.backward()
        return loss

    optimiser.step(closure)
    fit = TruncatedParaboloid(loc, tril @ tril.mT)
    assert torch.allclose(fit.mean, target.mean, atol=1e-4) and torch.allclose(fit.scale, target.scale, rtol=1e-3)


def test_alpha_one_is_kl_and_alpha_two_is_half_the_squared_distance():
    p, q = pair(2, 1.0)
    normals = [MultivariateNormal(d.loc, d.scale) for d in (q, p)]
    assert fenchel_young_loss(p, q).item() == pytest.approx(kl_divergence(*normals).item(), rel=1e-12)
    p, q = TruncatedParaboloid(torch.zeros(1, dtype=F64), 2.0), TruncatedParaboloid(torch.tensor([0.1], dtype=F64), 0.5)
    t = torch.linspace(-3, 3, 600001, dtype=F64).unsqueeze(-1)
    assert q.support_tril.item() + 0.1 < p.support_tril.item()
    distance = 0.5 * torch.trapezoid((p.prob(t) - q.prob(t)).square(), dx=1e-5)
    assert fenchel_young_loss(p, q).item() == pytest.approx(distance.item(), rel=1e-8)


def test_other_densities_with_the_same_alpha_are_targets():
    p, q = pair(2, 1.5, 3)

    class Other(Density):
        alpha, event_shape = 1.5, torch.Size([2])
        mean, covariance_matrix, tsallis_entropy = q.mean, q.covariance_matrix, staticmethod(q.tsallis_entropy)

        def __init__(self):
            pass

    assert torch.allclose(fenchel_young_loss(p, Other()), fenchel_young_loss(p, q), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 3])
def test_batches_forms_and_float32(n: int):
    wide = BetaGaussian(torch.zeros(4, 1, n), 0.5, 1.5)
    narrow = BetaGaussian(torch.ones(3, n), scale_diag=torch.full((3, n), 0.2), alpha=1.5)
    loss = fenchel_young_loss(wide, narrow)
    full = fenchel_young_loss(BetaGaussian(torch.zeros(n), 0.5 * torch.eye(n), 1.5), narrow.expand((4, 3)))
    assert loss.shape == (4, 3) and loss.dtype == torch.float32 and torch.allclose(loss, full, rtol=1e-5)
    assert fenchel_young_loss(wide, torch.zeros(3, n)).shape == (4, 3)
    mapped = torch.func.vmap(
        lambda m: fenchel_young_loss(BetaGaussian(m, 0.5, 1.5), BetaGaussian(torch.ones(n), 0.2, 1.5))
    )
    assert torch.allclose(mapped(torch.zeros(4, n)), loss[:, 0])
    if n > 1:
        return
    f = lambda m: fenchel_young_loss(Gaussian(m, 0.5, validate_args=False), Gaussian(m + 1, 0.2, validate_args=False))  # noqa: E731
    assert torch.allclose(torch.compile(f, fullgraph=True, backend="eager")(torch.zeros(2, n)), f(torch.zeros(2, n)))


def test_errors():
    p = BetaGaussian(torch.zeros(2), 1.0, 1.5)
    with pytest.raises(ValueError, match=r"must have the same alpha, got 1.5 and 2"):
        fenchel_young_loss(p, TruncatedParaboloid(torch.zeros(2), 1.0))
    with pytest.raises(ValueError, match=r"same alpha, got 1.5 and \[1.5, 2.0\]"):
        fenchel_young_loss(p, BetaGaussian(torch.zeros(2, 2), 1.0, torch.tensor([1.5, 2.0])))
    with pytest.raises(ValueError, match="target must have 2 coordinates"):
        fenchel_young_loss(p, torch.zeros(3))
    with pytest.raises(ValueError, match="target must have 2 coordinates"):
        fenchel_young_loss(p, BetaGaussian(torch.zeros(3), 1.0, 1.5))
    with pytest.raises(TypeError, match="target must be a density or a tensor of points, got list"):
        fenchel_young_loss(p, [0.0, 0.0])
    with pytest.raises(TypeError, match="no closed form for a density of type Normal"):
        fenchel_young_loss(torch.distributions.Normal(0.0, 1.0), p)
    with pytest.raises(ValueError, match=r"alpha must be > 1/3 in 1 dimensions, got 0"):
        fenchel_young_loss(BetaGaussian(torch.zeros(1), 1.0, 0.0), torch.zeros(1))
    heavy = BetaGaussian(torch.zeros(2, 1), 1.0, torch.tensor([0.0, 0.9]))
    assert fenchel_young_loss(heavy, heavy).isnan().tolist() == [True, False]
