"""The beta-Gaussian against raw formulas at 40 digits, adaptive quadrature and torch's own distributions."""

from __future__ import annotations

import copy
import math
import pickle

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.distributions import MultivariateNormal, StudentT, kl_divergence

from densities.oracle import F64, log_density, radial, slope, spd, threshold
from omegamax.densities import (
    BetaGaussian,
    Biweight,
    Gaussian,
    Triweight,
    TruncatedParaboloid,
    fenchel_young_loss,
    wasserstein2,
)

ALPHAS = [0.5, 0.8, 0.9, 1.0, 1.2, 4 / 3, 1.5, 2.0, 3.0, 6.0]
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)
every_n = pytest.mark.parametrize("n", [1, 2, 3])


def one(n: int, alpha: float | torch.Tensor, seed: int = 0) -> BetaGaussian:
    return BetaGaussian(torch.linspace(-0.5, 1.0, n, dtype=F64), spd(n, seed=seed), alpha)


def reach(p: BetaGaussian) -> float:
    return min(p.support_radius.item(), np.inf)


# --- Against the definition


@every_n
@every_alpha
def test_density_is_the_raw_formula(n: int, alpha: float):
    if alpha <= 1 - 2 / n:
        pytest.skip("no density")
    p = one(n, alpha)
    x = p.loc + 1.3 * torch.randn(40, n, dtype=F64)
    d = (x - p.loc).numpy()
    q = np.einsum("si,ij,sj->s", d, np.linalg.inv(p.scale.numpy()), d)
    with mpmath.workdps(40):
        expected = [float(log_density(alpha, n, p.scale.logdet().item(), v)) for v in q]
    assert np.allclose(p.log_prob(x).numpy(), expected, rtol=1e-12, atol=1e-12)
    assert np.array_equal(p.support_contains(x).numpy(), np.isfinite(expected))
    assert torch.allclose(p.prob(x), p.log_prob(x).exp(), rtol=1e-15)
    learnt = one(n, torch.tensor(alpha, dtype=F64))
    assert torch.allclose(learnt.log_prob(x), p.log_prob(x), rtol=1e-13)
    assert torch.equal(learnt.support_contains(x), p.support_contains(x))


@every_n
@every_alpha
def test_moments_and_entropies_are_integrals(n: int, alpha: float):
    if alpha <= 1 - 2 / n:
        pytest.skip("no density")
    p, end = one(n, alpha), reach(one(n, alpha))
    assert radial(p, lambda q, v: 1.0, end) == pytest.approx(1, abs=1e-11)
    assert radial(p, lambda q, v: -math.log(v), end) == pytest.approx(p.entropy().item(), abs=1e-9)
    if alpha > n / (n + 2):
        ratio = (p.covariance_matrix / p.scale).mean().item()
        assert torch.allclose(p.covariance_matrix, ratio * p.scale, rtol=1e-14)
        assert radial(p, lambda q, v: q / n, end) == pytest.approx(ratio, rel=1e-9)
        gap = (lambda v: (v ** (alpha - 1) - 1) / (alpha - 1)) if alpha != 1 else math.log
        tsallis = radial(p, lambda q, v: -gap(v) / alpha, end)
        assert tsallis == pytest.approx(p.tsallis_entropy().item(), rel=1e-9)
    learnt = one(n, torch.tensor(alpha, dtype=F64))
    for name in ("covariance_matrix", "mean", "support_radius", "log_peak", "dilation", "variance"):
        assert torch.allclose(getattr(learnt, name), getattr(p, name), rtol=1e-13, equal_nan=True), name
    for name in ("entropy", "tsallis_entropy"):
        assert torch.allclose(getattr(learnt, name)(), getattr(p, name)(), rtol=1e-13, equal_nan=True), name


def test_plane_integral_with_a_full_matrix():
    p = one(2, 1.5)
    r, w = np.polynomial.legendre.leggauss(60)
    r, w = torch.as_tensor((r + 1) / 2), torch.as_tensor(w / 2)
    angles = torch.arange(64, dtype=F64) * (2 * math.pi / 64)
    values, vectors = torch.linalg.eigh(p.scale)
    axes = p.support_radius * vectors * values.sqrt()
    t = p.loc + (r[:, None, None] * torch.stack([angles.cos(), angles.sin()], -1)) @ axes.mT
    mass = p.prob(t) * (w * r)[:, None] * (2 * math.pi / 64) * torch.linalg.det(axes).abs()
    assert mass.sum().item() == pytest.approx(1, abs=1e-13)
    mean = (mass[..., None] * t).sum((0, 1))
    assert torch.allclose(mean, p.mean, atol=1e-13)
    cov = ((t - mean)[..., :, None] * (t - mean)[..., None, :] * mass[..., None, None]).sum((0, 1))
    assert torch.allclose(cov, p.covariance_matrix, atol=1e-13)


def test_special_values_in_one_dimension():
    s = 0.7  # sigma^2
    for alpha, half in ((2.0, (1.5 * s) ** (1 / 3)), (1.5, (15 * s**2) ** 0.2), (4 / 3, (945 / 4 * s**3) ** (1 / 7))):
        p = BetaGaussian(torch.zeros(1, dtype=F64), s, alpha)
        assert p.support_tril.item() == pytest.approx(half, rel=1e-14)
        assert torch.allclose(p.boundary(), torch.tensor([[-half], [half]], dtype=F64))
    v = 0.3
    for alpha, sigma in (
        (2.0, 2 / 3 * (5 * v) ** 1.5),
        (1.5, 15**-0.5 * (7 * v) ** 1.25),
        (4 / 3, (4 / 945) ** (1 / 3) * (9 * v) ** (7 / 6)),
    ):
        assert BetaGaussian.from_moments(torch.zeros(1, dtype=F64), v, alpha).scale.item() == pytest.approx(
            sigma, rel=1e-14
        )


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_truncated_paraboloid_of_the_papers(n: int):
    scale = spd(n)
    p = TruncatedParaboloid(torch.zeros(n, dtype=F64), scale)
    lam = -((math.gamma(n / 2 + 2) / torch.linalg.det(2 * math.pi * scale).sqrt()) ** (2 / (2 + n)))  # eq. 11
    assert p.log_peak.exp().item() == pytest.approx(-lam.item(), rel=1e-14)
    assert torch.allclose(p.covariance_matrix, -lam * scale / (n / 2 + 2), rtol=1e-13)  # thesis, eq. 4.1
    if n == 2:
        cov = spd(2, seed=3)
        expected = 9 * math.pi * torch.linalg.det(cov).sqrt() * cov  # thesis, eq. 4.6
        assert torch.allclose(TruncatedParaboloid.from_moments(torch.zeros(2, dtype=F64), cov).scale, expected)


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_alpha_one_is_the_gaussian(n: int):
    loc, scale, x = torch.randn(5, n, dtype=F64), spd(n, 5), torch.randn(7, 5, n, dtype=F64)
    p, q = Gaussian(loc, scale), MultivariateNormal(loc, scale)
    assert torch.allclose(p.log_prob(x), q.log_prob(x), rtol=1e-13)
    assert torch.allclose(p.entropy(), q.entropy(), rtol=1e-13)
    assert torch.allclose(p.tsallis_entropy(), q.entropy(), rtol=1e-13)
    assert torch.equal(p.covariance_matrix, p.scale)
    assert p.support_radius.isinf().all() and p.support_contains(1e3 * x).all()


@pytest.mark.parametrize("alpha", [-0.9, -0.5, 0.0, 1 / 3, 0.5, 0.9])
def test_below_one_is_student_t(alpha: float):
    scale = torch.tensor([[0.7]], dtype=F64)
    p = BetaGaussian(torch.tensor([0.3], dtype=F64), scale, alpha)
    nu = 2 / (1 - alpha) - 1
    tau = float(threshold(alpha, 1, math.log(0.7)))
    q = StudentT(nu, torch.tensor(0.3, dtype=F64), torch.tensor(2 * tau / nu * 0.7, dtype=F64).sqrt())
    x = torch.linspace(-50, 50, 101, dtype=F64)
    assert torch.allclose(p.log_prob(x[:, None]), q.log_prob(x), rtol=1e-12)
    assert torch.allclose(p.entropy(), q.entropy(), rtol=1e-12)
    assert torch.allclose(p.mean[0], q.mean, equal_nan=True)
    assert torch.allclose(p.variance[0], q.variance, rtol=1e-12, equal_nan=True)
    x = torch.tensor([[1e10], [-1e100], [1e150]], dtype=F64)
    with mpmath.workdps(40):
        far = [float(log_density(alpha, 1, math.log(0.7), mpmath.mpf(v - 0.3) ** 2 / 0.7)) for v in x[:, 0].tolist()]
    for a in (alpha, torch.tensor(alpha, dtype=F64)):
        assert BetaGaussian(p.loc, scale, a).log_prob(x).tolist() == pytest.approx(far, rel=1e-13)


def test_multivariate_student_t():
    loc, scale, alpha, n = torch.randn(3, dtype=F64), spd(3), 0.8, 3
    nu = 2 / (1 - alpha) - n
    tau = float(threshold(alpha, n, scale.logdet().item()))
    oracle = scipy.stats.multivariate_t(loc.numpy(), (2 * tau / nu * scale).numpy(), nu)
    x = torch.randn(20, 3, dtype=F64)
    assert np.allclose(BetaGaussian(loc, scale, alpha).log_prob(x).numpy(), oracle.logpdf(x.numpy()), rtol=1e-12)


def test_where_moments_do_not_exist():
    p = BetaGaussian(torch.zeros(2, 3, dtype=F64), 1.0, torch.tensor([0.4, 0.55], dtype=F64))
    assert p.mean[0].isnan().all() and (p.mean[1] == 0).all()
    assert p.covariance_matrix[0].isnan().all() and p.covariance_matrix[1].isinf().all()
    assert p.tsallis_entropy().isinf().all() and p.entropy().isfinite().all()
    cauchy = BetaGaussian(torch.zeros(1), 1.0, 0.0)
    assert cauchy.mean.isnan().all() and cauchy.variance.isnan().all() and cauchy.tsallis_entropy().isnan()


# --- Smooth through alpha = 1


@pytest.mark.parametrize("e", [s * 10.0**-k for k in (2, 3, 4, 6, 8, 10, 12) for s in (1, -1)] + [0.0])
def test_value_and_slope_in_alpha_through_one(e: float):
    n, log_det, q = 3, 0.4, 2.3
    alpha = torch.tensor(1 + e, dtype=F64, requires_grad=True)
    p = BetaGaussian(torch.zeros(n, dtype=F64), math.exp(log_det / n), alpha)
    x = torch.tensor([math.sqrt(q * math.exp(log_det / n)), 0, 0], dtype=F64)
    with mpmath.workdps(60):
        log_p = lambda a: log_density(a, n, log_det, q)  # noqa: E731
        # At 1 itself the difference straddles the Gaussian.
        exact, change = float(log_p(mpmath.mpf(alpha.item()))), float(slope(log_p, alpha.item(), "1e-16"))
        cov = lambda a: -2 * threshold(a, n, log_det) / (n + 2 * a / (a - 1))  # noqa: E731
        ratio = float(cov(mpmath.mpf(alpha.item()))) if alpha.item() != 1 else 1.0
        ratio_change = float(slope(cov, alpha.item(), "1e-16"))
        omega = lambda a: -1 / (a * (a - 1)) - 2 * threshold(a, n, log_det) / (2 * a + n * (a - 1))  # noqa: E731
        tsallis_change = -float(slope(omega, alpha.item(), "1e-16"))
    value = p.log_prob(x)
    assert value.item() == pytest.approx(exact, rel=1e-14)
    assert torch.autograd.grad(value, alpha, retain_graph=True)[0].item() == pytest.approx(change, rel=1e-12)
    stretch = p.covariance_matrix[0, 0] / p.scale[0, 0]
    assert stretch.item() == pytest.approx(ratio, rel=1e-14)
    assert torch.autograd.grad(stretch, alpha, retain_graph=True)[0].item() == pytest.approx(ratio_change, rel=1e-12)
    assert torch.autograd.grad(p.tsallis_entropy(), alpha)[0].item() == pytest.approx(tsallis_change, rel=1e-11)
    fixed = BetaGaussian(torch.zeros(n, dtype=F64), math.exp(log_det / n), alpha.item())
    assert fixed.log_prob(x).item() == pytest.approx(exact, rel=1e-14)
    gaussian = Gaussian(torch.zeros(n, dtype=F64), math.exp(log_det / n))
    assert fixed.entropy().item() == pytest.approx(gaussian.entropy().item(), abs=max(10 * abs(e), 1e-14))


def test_one_alpha_tensor_may_hold_every_kind():
    alphas = [0.7, 1 - 1e-9, 1.0, 1 + 1e-9, 1.5, 2.0, 5.0]
    loc, scale, x = torch.randn(7, 2, dtype=F64), spd(2, 7), torch.randn(7, 2, dtype=F64)
    alpha = torch.tensor(alphas, dtype=F64, requires_grad=True)
    p = BetaGaussian(loc, scale, alpha)
    alone = [BetaGaussian(loc[i], scale[i], a) for i, a in enumerate(alphas)]
    assert torch.allclose(p.log_prob(x), torch.stack([q.log_prob(x[i]) for i, q in enumerate(alone)]), rtol=1e-13)
    assert torch.allclose(p.entropy(), torch.stack([q.entropy() for q in alone]), rtol=1e-13)
    assert torch.allclose(p.support_radius, torch.stack([q.support_radius for q in alone]), rtol=1e-13)
    total = p.log_prob(x).nan_to_num(neginf=0.0).sum() + p.entropy().sum() + p.rsample().sum() + p.variance.sum()
    grad = torch.autograd.grad(total + p.tsallis_entropy().sum(), alpha)[0]
    assert grad.isfinite().all()


# --- Gradients


@pytest.mark.parametrize("alpha", [0.6, 1.0, 1.3, 3.0])
@pytest.mark.parametrize("n", [1, 2])
def test_log_prob_gradients(n: int, alpha: float):
    loc = torch.zeros(n, dtype=F64, requires_grad=True)
    scale = (spd(n) + 0.1 * torch.randn(n, n, dtype=F64)).requires_grad_()  # not symmetric: only its half is used
    a = torch.tensor(alpha, dtype=F64, requires_grad=True)
    x = 0.4 * torch.randn(3, n, dtype=F64)
    x = torch.cat([x, torch.full((2, n), 50.0, dtype=F64)]) if alpha > 1 else x  # two points outside
    x.requires_grad_()

    def f(loc, scale, a, x):
        value = BetaGaussian(loc, scale, a, validate_args=False).log_prob(x)
        return torch.where(value.isinf(), 0.0, value)

    assert gradcheck(f, (loc, scale, a, x), check_forward_ad=True)
    assert gradgradcheck(f, (loc, scale, a, x), atol=1e-6, fast_mode=True)
    fixed = lambda loc, scale, x: f(loc, scale, alpha, x)  # noqa: E731
    assert gradcheck(fixed, (loc, scale, x))
    assert gradgradcheck(fixed, (loc, scale, x), atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.0])
def test_moments_have_gradients(alpha: float):
    loc = torch.zeros(2, dtype=F64, requires_grad=True)
    scale, a = spd(2).requires_grad_(), torch.tensor(alpha, dtype=F64, requires_grad=True)

    def f(loc, scale, a):
        p = BetaGaussian(loc, scale, a, validate_args=False)
        back = BetaGaussian.from_moments(loc, p.covariance_matrix, a + 0.1, validate_args=False)
        shadow = p.marginal(1)
        return (
            p.covariance_matrix, p.entropy(), p.tsallis_entropy(), p.support_tril, p.boundary(3), *p.canonical,
            back.scale, shadow.alpha, shadow.log_prob(torch.tensor([0.2], dtype=F64)),
        )  # fmt: skip

    assert gradcheck(f, (loc, scale, a)) and gradgradcheck(f, (loc, scale, a), atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("alpha", [1.2, 2.0, 4.0])
def test_no_nan_outside_or_on_the_boundary(alpha: float):
    for a in (alpha, torch.tensor(alpha, dtype=F64, requires_grad=True)):
        loc, scale = torch.zeros(1, dtype=F64, requires_grad=True), torch.eye(1, dtype=F64, requires_grad=True)
        p = BetaGaussian(loc, scale, a)
        edge = p.support_radius.item()
        steps = torch.tensor([[-edge], [edge], [np.nextafter(edge, 9)], [edge * (1 + 1e-9)], [1e200]], dtype=F64)
        x = steps.clone().requires_grad_()
        leaves = [leaf for leaf in (loc, scale, x, a) if isinstance(leaf, torch.Tensor)]
        assert p.log_prob(x)[3:].isneginf().all() and (p.prob(x)[3:] == 0).all()
        for value in (p.prob(x), p.log_prob(x)):
            grads = torch.autograd.grad(value.nan_to_num(neginf=0.0).sum(), leaves, create_graph=True)
            assert not any(g.isnan().any() for g in grads)
            assert (grads[2][3:] == 0).all()
            again = torch.autograd.grad(sum(g.sum() for g in grads), leaves, allow_unused=True, retain_graph=True)
            assert not any(g.isnan().any() for g in again if g is not None)


# --- Samples


@pytest.mark.parametrize("alpha", [0.7, 0.95, 1.0, 1.05, 1.5, 2.0, 5.0])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_samples_have_the_radius_and_the_direction_of_the_density(n: int, alpha: float):
    if alpha <= n / (n + 2) + 0.05:
        pytest.skip("heavy tails")
    for a in (alpha, torch.tensor(alpha, dtype=F64)):
        p = one(n, a)
        x = p.sample((20000,))
        z = torch.linalg.solve(p.scale_tril, (x - p.loc).mT).mT
        q = z.square().sum(-1)
        c = p.dilation.item()
        if alpha > 1:
            distribution = scipy.stats.beta(n / 2, 1 / (alpha - 1) + 1, scale=2 * c / (alpha - 1))
        elif alpha == 1:
            distribution = scipy.stats.chi2(n)
        else:
            nu = 2 / (1 - alpha) - n
            distribution = scipy.stats.f(n, nu, scale=n * 2 * c / ((1 - alpha) * nu))
        assert scipy.stats.kstest(q.numpy(), distribution.cdf).pvalue > 1e-3
        direction = z[:, 0] / q.sqrt()
        if n > 1:
            assert abs(np.corrcoef(q.log(), direction.abs())[0, 1]) < 0.03
            assert scipy.stats.kstest(direction.square().numpy(), scipy.stats.beta(0.5, (n - 1) / 2).cdf).pvalue > 1e-3
        assert abs(direction.mean()) < 5 / math.sqrt(20000 * n)
        assert p.support_contains(x).all() and p.log_prob(x).isfinite().all()


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 3.0])
@every_n
def test_sample_gradients_are_those_of_the_draw(n: int, alpha: float):
    # Draws have the right distribution for every alpha (above); here a draw is followed as the parameters move.
    loc, scale = torch.zeros(n, dtype=F64, requires_grad=True), spd(n).requires_grad_()
    a = torch.tensor(alpha, dtype=F64, requires_grad=True)

    def f(loc, scale, a):
        torch.manual_seed(1)
        return BetaGaussian(loc, scale, a, validate_args=False).rsample((4,))

    assert gradcheck(f, (loc, scale, a)) and gradgradcheck(f, (loc, scale, a), atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("alpha", [0.9, 1.0, 2.0])
def test_pathwise_gradient_in_alpha_is_unbiased(alpha: float):
    a = torch.tensor(alpha, dtype=F64, requires_grad=True)
    p = BetaGaussian(torch.zeros(3, dtype=F64), 0.8, a)
    exact = torch.autograd.grad(p.variance.sum(), a, retain_graph=True)[0]
    each = p.rsample((4000,)).square().sum(-1)
    parts = torch.stack(
        [torch.autograd.grad(v, a, retain_graph=True)[0] for v in each[:2000].chunk(40) for v in [v.mean()]]
    )
    assert abs(parts.mean() - exact) < 5 * parts.std() / math.sqrt(40)
    assert parts.std() < abs(exact)  # no blow-up at alpha = 1


def test_samples_reproduce_and_keep_their_dtype():
    p = BetaGaussian(torch.zeros(2, 3), 1.0, torch.tensor([1.0, 1.5]))
    torch.manual_seed(3)
    first = p.rsample((5,))
    torch.manual_seed(3)
    assert torch.equal(first, p.sample((5,))) and first.shape == (5, 2, 3) and first.dtype == torch.float32
    assert p.sample().shape == (2, 3)


# --- Other ways in and out


@every_alpha
@pytest.mark.parametrize("n", [1, 2, 5])
def test_moments_and_canonical_parameters_return(n: int, alpha: float):
    if alpha <= 1 - 2 / n:
        pytest.skip("no density")
    p = BetaGaussian(torch.randn(4, n, dtype=F64), spd(n, 4), alpha)
    q = BetaGaussian.from_canonical(*p.canonical, alpha)
    assert torch.allclose(q.loc, p.loc) and torch.allclose(q.scale, p.scale, rtol=1e-12)
    x = torch.randn(4, n, dtype=F64)
    theta1, theta2 = p.canonical
    score = lambda t: (theta1 * t).sum(-1) + torch.einsum("bi,bij,bj->b", t, theta2, t)  # noqa: E731
    d = x - p.loc
    expected = -0.5 * torch.einsum("bi,bij,bj->b", d, torch.linalg.inv(p.scale), d)
    assert torch.allclose(score(x) - score(p.loc), expected)
    if alpha > n / (n + 2):
        for a in (alpha, torch.full((4,), alpha, dtype=F64)):
            q = BetaGaussian.from_moments(p.mean, p.covariance_matrix, a)
            assert torch.allclose(q.scale, p.scale, rtol=1e-12) and torch.allclose(q.loc, p.loc)
    else:
        with pytest.raises(ValueError, match="from_moments: alpha must be > "):
            BetaGaussian.from_moments(p.loc, p.scale, alpha)


@pytest.mark.parametrize("kind", [Gaussian, TruncatedParaboloid, Biweight, Triweight])
def test_members(kind: type[BetaGaussian]):
    alpha = {Gaussian: 1.0, TruncatedParaboloid: 2.0, Biweight: 1.5, Triweight: 4 / 3}[kind]
    loc, scale, x = torch.randn(3, 2, dtype=F64), spd(2, 3), 0.5 * torch.randn(3, 2, dtype=F64)
    p, q = kind(loc, scale), BetaGaussian(loc, scale, alpha)
    assert p.alpha == alpha and torch.equal(p.log_prob(x), q.log_prob(x))
    assert type(p.expand((5, 3))) is kind and type(kind.from_moments(loc, scale)) is kind
    assert torch.allclose(kind.from_moments(loc, scale).covariance_matrix, scale)
    assert torch.allclose(kind.from_canonical(*p.canonical).scale, scale)
    assert torch.equal(kind(loc, scale_diag=scale.diagonal(dim1=-2, dim2=-1)).scale_diag, q.scale_diag)
    # The power of a truncated paraboloid: (1 - q / radius^2)^m.
    if alpha > 1:
        d = torch.linalg.solve_triangular(p.support_tril, (x - loc).unsqueeze(-1), upper=False).square().sum((-2, -1))
        assert torch.allclose(p.prob(x), p.log_peak.exp() * (1 - d).clamp(min=0) ** round(1 / (alpha - 1)))


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 2.0])
def test_marginals(alpha: float):
    p = one(3, alpha)
    for kept in ([0], [2], [0, 2], [2, 1], [0, 1, 2]):
        m = p.marginal(kept)
        assert torch.allclose(m.loc, p.loc[kept])
        assert torch.allclose(m.covariance_matrix, p.covariance_matrix[kept][:, kept], rtol=1e-12)
        learnt = one(3, torch.tensor(alpha, dtype=F64)).marginal(kept)
        assert torch.allclose(learnt.scale, m.scale) and float(learnt.alpha) == pytest.approx(m.alpha)
    # Integrate the third coordinate out.
    m, x = p.marginal([0, 1]), p.loc[:2] + torch.tensor([0.3, -0.4], dtype=F64)
    end = 40.0 if alpha <= 1 else 5.0
    along = lambda t: p.prob(torch.cat([x, torch.tensor([t], dtype=F64)])).item()  # noqa: E731
    mass = scipy.integrate.quad(along, -end, end, limit=2000, epsabs=1e-11, points=[0.0, 1.0])[0]
    assert m.prob(x).item() == pytest.approx(mass, rel=1e-6 if alpha < 1 else 1e-8)
    assert p.marginal(1).event_shape == (1,) and isinstance(p.marginal(1).alpha, float)


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 1.1, 1.5, 2.0, 4.0, 21.0])
def test_cdf(alpha: float):
    p = BetaGaussian(torch.tensor([0.3], dtype=F64), 0.6, alpha)
    half = math.sqrt(2 * p.dilation.item() * 0.6)  # the unit of s
    s = torch.cat([torch.logspace(-9, 1.5, 60, dtype=F64), torch.tensor([0.7745966692, 0.7745966693], dtype=F64)])
    s = torch.cat([-s, torch.zeros(1, dtype=F64), s]) / math.sqrt(max(alpha - 1, 1.0))
    x = (0.3 + half * s).unsqueeze(-1)
    e, r = alpha - 1, (((x - 0.3) / half) ** 2)[:, 0].numpy()
    if alpha == 0:  # scipy's has five digits around the centre
        tail = np.where(r < 0.25, 0.5 - np.arctan(np.sqrt(r)) / np.pi, np.arctan2(1, np.sqrt(r)) / np.pi)
    elif abs(e) < 1e-6:
        tail = scipy.stats.norm.sf(np.sqrt(2 * r))
    elif e > 0:
        small, rest = np.clip(e * r, 0, 1), np.clip(1 - e * r, 0, 1)
        tail = np.where(
            small < 0.3,
            0.5 - 0.5 * scipy.special.betainc(0.5, 1 / e + 1, small),
            0.5 * scipy.special.betainc(1 / e + 1, 0.5, rest),
        )
    else:
        nu = -2 / e - 1
        tail = scipy.stats.t.sf(np.sqrt(-e * r * nu), nu)
    expected = torch.as_tensor(np.where(s.numpy() > 0, 1 - tail, tail))
    tolerance = {"rtol": 1e-12, "atol": 1e-300} if abs(e) > 1e-6 or e == 0 else {"rtol": 1e-5, "atol": 1e-8}
    assert torch.allclose(p.cdf(x), expected, **tolerance)
    learnt = BetaGaussian(p.loc, 0.6, torch.tensor(alpha, dtype=F64))
    assert torch.allclose(learnt.cdf(x), p.cdf(x), rtol=1e-12, atol=1e-300)
    if alpha > 1:
        assert p.cdf(p.boundary(2) + 1e-9 * torch.tensor([[-1.0], [1]])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5, 2.0])
def test_cdf_gradients(alpha: float):
    a = torch.tensor(alpha, dtype=F64, requires_grad=True)
    x = torch.tensor([[-9.0], [-1.05], [-0.2], [0.0], [0.1], [1.05], [9.0]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[0.8]], dtype=F64, requires_grad=True)
    f = lambda x, scale, a: BetaGaussian(torch.zeros(1, dtype=F64), scale, a, validate_args=False).cdf(x)  # noqa: E731
    assert gradcheck(f, (x, scale, a)) and gradgradcheck(f, (x, scale, a), atol=1e-6, fast_mode=True)
    p = BetaGaussian(torch.zeros(1, dtype=F64), scale, a)
    assert torch.allclose(torch.autograd.grad(p.cdf(x).sum(), x)[0][:, 0], p.prob(x), rtol=1e-11, atol=1e-15)


# --- Shapes, forms, kinds of tensor


def test_forms_of_the_scale_agree():
    loc, x = torch.randn(4, 3, dtype=F64), torch.randn(4, 3, dtype=F64)
    d = torch.rand(4, 3, dtype=F64) + 0.5
    full = BetaGaussian(loc, torch.diag_embed(d), 1.5)
    for p in (
        BetaGaussian(loc, None, 1.5, scale_diag=d),
        BetaGaussian(loc, alpha=1.5, scale_tril=torch.diag_embed(d.sqrt())),
    ):
        for name in ("scale", "scale_tril", "scale_diag", "covariance_matrix", "support_tril", "log_peak"):
            assert torch.allclose(getattr(p, name), getattr(full, name), rtol=1e-13), name
        assert torch.allclose(p.log_prob(x), full.log_prob(x), rtol=1e-13)
        assert all(torch.allclose(a, b) for a, b in zip(p.canonical, full.canonical, strict=True))
    eye = torch.eye(3, dtype=F64)
    one = BetaGaussian(loc, 0.7 * eye)
    for scale in (
        0.7,
        torch.tensor(0.7, dtype=F64),
        torch.full((1, 1), 0.7, dtype=F64),
        torch.full((4, 1, 1), 0.7, dtype=F64),
    ):
        p = BetaGaussian(loc, scale)
        assert (
            p.batch_shape == (4,)
            and torch.allclose(p.scale, one.scale)
            and torch.allclose(p.log_prob(x), one.log_prob(x))
        )
    tril = torch.linalg.cholesky(spd(3, 4))
    p, q = BetaGaussian(loc, scale_tril=tril), BetaGaussian(loc, tril @ tril.mT)
    assert torch.equal(p.scale_tril, tril) and torch.allclose(p.log_prob(x), q.log_prob(x))


@pytest.mark.parametrize("form", ["full", "diag", "number"])
@pytest.mark.parametrize("n", [1, 2])
def test_batches_broadcast(n: int, form: str):
    loc, alpha = torch.randn(5, 1, n, dtype=F64), torch.tensor([[1.0], [1.5], [2.5], [0.9], [2.0]], dtype=F64)
    scale = spd(n, 1, 4) if form == "full" else torch.rand(4, n, dtype=F64) + 0.5 if form == "diag" else 0.8
    p = BetaGaussian(loc, alpha=alpha, **({"scale_diag": scale} if form == "diag" else {"scale": scale}))
    batch = (5, 1) if form == "number" else (5, 4)
    assert p.batch_shape == batch and p.event_shape == (n,) and p.alpha.shape == batch
    ranks = {name: 0 for name in ("support_radius", "log_peak", "dilation")}
    ranks |= {name: 1 for name in ("loc", "mean", "mode", "variance", "scale_diag")}
    ranks |= {name: 2 for name in ("scale", "scale_tril", "covariance_matrix", "support_tril")}
    for name, rank in ranks.items():
        assert getattr(p, name).shape == batch + (n,) * rank, name
    assert p.entropy().shape == p.tsallis_entropy().shape == batch
    assert p.boundary(6).shape == (*batch, 2 if n == 1 else 6, n)
    theta1, theta2 = p.canonical
    assert theta1.shape == (*batch, n) and theta2.shape == (*batch, n, n)
    x = torch.randn(7, 5, 4, n, dtype=F64)
    values = p.log_prob(x)
    assert values.shape == (7, 5, 4) and p.support_contains(x).shape == (7, 5, 4)
    j = 0 if form == "number" else 2
    alone = BetaGaussian(p.loc[3, j], p.scale[3, j], p.alpha[3, j])
    assert torch.allclose(values[:, 3, 2], alone.log_prob(x[:, 3, 2]))
    assert p.log_prob(x[0, 0, 0]).shape == batch
    assert p.rsample((6,)).shape == (6, *batch, n)
    wide = p.expand((2, 5, 4))
    assert wide.batch_shape == (2, 5, 4) and wide.alpha.shape == (2, 5, 4) and wide.scale.shape == (2, 5, 4, n, n)
    assert torch.equal(wide.log_prob(x[:2]), values[:2]) and wide.sample().shape == (2, 5, 4, n)
    assert wide.entropy().shape == (2, 5, 4) and torch.equal(
        wide.covariance_matrix[0, ..., :], p.covariance_matrix.expand(5, 4, n, n)
    )


def test_many_points_share_a_factor():
    # One density for each row of points, as attention on a grid has it.
    p = BetaGaussian(torch.randn(3, 1, 2, dtype=F64), spd(2, 3, 1), 1.5)
    points = torch.rand(3, 100, 2, dtype=F64)
    values = p.log_prob(points)
    for i in range(3):
        assert torch.allclose(values[i], BetaGaussian(p.loc[i, 0], p.scale[i, 0], 1.5).log_prob(points[i]))
    assert p.log_prob(points[:, :0]).shape == (3, 0)
    none = BetaGaussian(torch.zeros(0, 2), spd(2, 0).float(), 1.5)
    assert none.log_prob(torch.zeros(5, 0, 2)).shape == (5, 0) and none.rsample().shape == (0, 2)
    assert none.covariance_matrix.shape == (0, 2, 2) and none.entropy().shape == (0,)


def test_expand_keeps_a_float_alpha_and_lazy_scales():
    p = BetaGaussian(torch.zeros(3, dtype=F64), spd(3), 1.5)
    assert p.scale_tril.shape == (3, 3)
    q = p.expand((2,))
    assert q.alpha == 1.5 and q.scale_tril.shape == (2, 3, 3) and q.mean.shape == (2, 3)
    assert q.expand((4, 2)).log_prob(torch.zeros(3, dtype=F64)).shape == (4, 2)


def test_copies_and_words():
    p = BetaGaussian(torch.zeros(2, 3), 1.0, 1.5)
    assert repr(p) == "BetaGaussian(loc: (2, 3), alpha: 1.5)"
    assert repr(BetaGaussian(torch.zeros(2, 3), 1.0, torch.ones(2))) == "BetaGaussian(loc: (2, 3), alpha: (2,))"
    x = torch.randn(2, 3)
    for q in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert torch.equal(q.log_prob(x), p.log_prob(x))


@pytest.mark.parametrize("n", range(1, 9))
def test_float32_and_half(n: int):
    loc, scale, x = torch.randn(n), spd(n).float(), 0.5 * torch.randn(9, n)
    for alpha in (0.9, 1.0, 1 + 1e-6, 1.5, 2.0, torch.tensor(1.0), torch.tensor(1.7)):
        p = BetaGaussian(loc, scale, alpha)
        wide = BetaGaussian(loc.double(), scale.double(), alpha.double() if isinstance(alpha, torch.Tensor) else alpha)
        assert (
            p.log_prob(x).dtype == p.covariance_matrix.dtype == p.entropy().dtype == p.sample().dtype == torch.float32
        )
        inside = wide.support_contains(x.double())
        assert torch.allclose(p.prob(x)[inside].double(), wide.prob(x.double())[inside], rtol=1e-4, atol=1e-5)
        assert torch.allclose(p.covariance_matrix.double(), wide.covariance_matrix, rtol=1e-4)
    for dtype in (torch.float16, torch.bfloat16):
        p = BetaGaussian(loc.to(dtype), scale.to(dtype), 1.5)
        assert p.loc.dtype == torch.float32 and p.log_prob(x.to(dtype)).dtype == torch.float32
    assert BetaGaussian(loc, scale.double()).loc.dtype == F64


def test_vmap_over_construction():
    loc, scale, x = torch.randn(5, 2, dtype=F64), spd(2, 5), torch.randn(5, 3, 2, dtype=F64)
    alpha = torch.tensor([0.8, 1.0, 1.5, 2.0, 3.0], dtype=F64)
    mapped = torch.func.vmap(lambda loc, scale, alpha, x: BetaGaussian(loc, scale, alpha).log_prob(x))(
        loc, scale, alpha, x
    )
    looped = torch.stack([BetaGaussian(*row[:3]).log_prob(row[3]) for row in zip(loc, scale, alpha, x, strict=True)])
    assert torch.allclose(mapped, looped, rtol=1e-13)
    grads = torch.func.vmap(torch.func.grad(lambda loc, scale: BetaGaussian(loc, scale, 1.1).prob(loc + 0.1).sum()))(
        loc, scale
    )
    assert grads.shape == loc.shape and grads.isfinite().all()


def test_compiles_without_a_break():
    def f(loc, scale, x, alpha):
        p = BetaGaussian(loc, scale, alpha, validate_args=False)
        q = TruncatedParaboloid.from_moments(loc, p.covariance_matrix, validate_args=False)
        return (
            p.log_prob(x),
            p.entropy(),
            p.covariance_matrix,
            p.rsample().shape,
            q.log_prob(x),
            q.scale,
            q.support_tril,
        )

    loc, scale, x = torch.randn(4, 2, dtype=F64), spd(2, 4), torch.randn(4, 2, dtype=F64)
    compiled = torch.compile(f, fullgraph=True, backend="eager")
    for alpha in (1.0, 1.5, 2.0, torch.full((4,), 1.3, dtype=F64)):
        for got, wanted in zip(compiled(loc, scale, x, alpha), f(loc, scale, x, alpha), strict=True):
            assert got == wanted if isinstance(got, torch.Size) else torch.allclose(got, wanted, rtol=1e-13)


# --- Hostile input


@pytest.mark.parametrize(
    ("error", "words", "arguments"),
    [
        (TypeError, "loc must be a torch.Tensor", ([0.0], 1.0)),
        (TypeError, "loc must be a floating-point tensor", (torch.zeros(2, dtype=torch.long), 1.0)),
        (ValueError, r"loc must have shape \[\*, n\]", (torch.tensor(0.0), 1.0)),
        (ValueError, r"loc must have shape \[\*, n\]", (torch.zeros(3, 0), 1.0)),
        (ValueError, "one of scale, scale_diag and scale_tril, got 0", (torch.zeros(2),)),
        (TypeError, "scale must be a float or a tensor", (torch.zeros(2), "1")),
        (ValueError, "scale must be > 0 and finite, got -1", (torch.zeros(2), -1.0)),
        (ValueError, r"scale must have shape \[\*, 2, 2\]", (torch.zeros(2), torch.eye(3))),
        (ValueError, r"scale must have shape \[\*, 2, 2\]", (torch.zeros(2), torch.ones(2))),
        (TypeError, "scale must be a floating-point tensor", (torch.zeros(2), torch.eye(2).long())),
        (ValueError, "do not broadcast", (torch.zeros(3, 2), torch.eye(2).expand(4, 2, 2))),
        (ValueError, "do not broadcast", (torch.zeros(3, 2), 1.0, torch.full((4,), 2.0))),
        (ValueError, "alpha must be > 0.333333, got 0.3", (torch.zeros(3), 1.0, 0.3)),
        (ValueError, "alpha must be > -1, got -1", (torch.zeros(1), 1.0, -1.0)),
        (ValueError, "alpha must be > 0 everywhere, got a minimum of", (torch.zeros(2), 1.0, torch.tensor([1, -0.5]))),
        (ValueError, "alpha must be > ", (torch.zeros(2), 1.0, math.nan)),
        (ValueError, "alpha must be finite", (torch.zeros(2), 1.0, math.inf)),
        (ValueError, "alpha must be finite everywhere", (torch.zeros(2), 1.0, torch.tensor(math.inf))),
        (TypeError, "alpha must be a float or a floating-point tensor", (torch.zeros(2), 1.0, torch.tensor([2]))),
        (TypeError, "alpha must be a float or a tensor", (torch.zeros(2), 1.0, "2")),
        (ValueError, "scale must be positive definite", (torch.zeros(2), -torch.eye(2))),
        (ValueError, "to satisfy the constraint", (torch.tensor([0.0, math.nan]), 1.0)),
        (ValueError, "to satisfy the constraint", (torch.zeros(2), torch.tensor(-1.0))),
    ],
)  # fmt: skip
def test_errors_name_what_is_wrong(error: type[Exception], words: str, arguments: tuple):
    with pytest.raises(error, match=words) as caught:
        BetaGaussian(*arguments, validate_args=True)  # torch.compile turns torch's default off, for good
    assert "BetaGaussian" in str(caught.value)


def test_more_errors():
    loc = torch.zeros(2)
    with pytest.raises(ValueError, match="got 2 of them"):
        BetaGaussian(loc, 1.0, scale_diag=torch.ones(2))
    for keyword in ({"scale_diag": torch.tensor([1.0, -1.0])}, {"scale_tril": torch.tensor([[1.0, 0.0], [1.0, -1.0]])}):
        with pytest.raises(ValueError, match="to satisfy the constraint"):
            BetaGaussian(loc, **keyword, validate_args=True)
    with pytest.raises(ValueError, match="boundary: needs 1 or 2 dimensions, got 3"):
        BetaGaussian(torch.zeros(3), 1.0).boundary()
    with pytest.raises(ValueError, match="boundary: alpha must be > 1, got 1"):
        Gaussian(loc, 1.0).boundary()
    with pytest.raises(NotImplementedError, match="cdf: needs one dimension, got 2"):
        BetaGaussian(loc, 1.0).cdf(loc)
    with pytest.raises(ValueError):
        BetaGaussian(loc, 1.0, validate_args=True).log_prob(torch.zeros(3))
    with pytest.raises(TypeError, match="from_canonical: theta2"):
        BetaGaussian.from_canonical(loc, "1")
    with pytest.raises(ValueError, match="-2 theta2 must be > 0"):
        BetaGaussian.from_canonical(loc, 1.0)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_points_whose_distance_overflows(alpha: float, dtype: torch.dtype):
    x = torch.tensor([[1e30 if dtype == torch.float32 else 1e200], [0.0]], dtype=dtype, requires_grad=True)
    for a in (alpha, torch.tensor(alpha, dtype=dtype, requires_grad=True)):
        loc, scale = torch.zeros(1, dtype=dtype, requires_grad=True), torch.eye(1, dtype=dtype, requires_grad=True)
        p = BetaGaussian(loc, scale, a)
        leaves = [leaf for leaf in (x, loc, scale, a) if isinstance(leaf, torch.Tensor)]
        assert p.log_prob(x)[0] < -30 and p.prob(x)[0] < 1e-12
        assert p.support_contains(x).tolist() == [alpha <= 1, True]
        assert all(g.isfinite().all() for g in torch.autograd.grad(p.prob(x).sum(), leaves))
    assert not p.support_contains(torch.tensor([math.nan])).item()


def test_every_part_lives_on_the_device_of_the_location():
    on = {"device": "meta"}  # where mixing devices is an error
    for n, alpha in ((1, 1.5), (2, 2.0), (3, torch.tensor(1.3)), (2, torch.ones(4, **on)), (1, torch.ones(4, **on))):
        p = BetaGaussian(torch.zeros(4, n, **on), torch.zeros(4, n, n, **on), alpha)
        q = BetaGaussian(torch.zeros(4, n, **on), 1.0, alpha)
        x = p.rsample((3,))
        results = [x, p.log_prob(x), p.entropy(), p.tsallis_entropy(), p.covariance_matrix, q.scale, *p.canonical]
        results += [q.log_prob(x), p.support_tril, fenchel_young_loss(p, q), wasserstein2(p, q), p.marginal(0).loc]
        results += [p.boundary()] if n < 3 else [kl_divergence(p, Gaussian(torch.zeros(3, **on), 1.0))]
        results += [p.cdf(x)] if n == 1 else []
        results.append(BetaGaussian.from_canonical(*BetaGaussian.from_moments(p.loc, p.scale, alpha).canonical).loc)
        assert all(r.is_meta for r in results)


def test_a_bad_matrix_spoils_its_own_density_only():
    scale = torch.stack([torch.eye(2, dtype=F64), -torch.eye(2, dtype=F64)]).requires_grad_()
    loc = torch.zeros(2, 2, dtype=F64, requires_grad=True)
    x = torch.tensor([[0.1, 0.2], [0.1, math.nan]], dtype=F64)
    p = BetaGaussian(loc, scale, 1.5, validate_args=False)
    values = p.log_prob(x)
    assert values[0].isfinite() and values[1].isnan()
    values[0].backward()
    assert loc.grad[0].isfinite().all() and scale.grad[0].isfinite().all()
    assert BetaGaussian(loc, 1.0, 1.5, validate_args=False).log_prob(x)[1].isnan()
