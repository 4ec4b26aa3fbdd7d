"""The beta-Laplace family against its defining equation, quadrature, 40-digit arithmetic, torch and scipy."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import pytest
import scipy.stats
import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from densities.line import integral
from omegamax.densities import BetaLaplace, Laplace, Triangular, fenchel_young_loss

F64 = torch.float64
MU, B = 0.3, 0.7
ALPHAS = [0.2, 0.5, 0.6, 0.8, 0.95, 1 - 1e-7, 1.0, 1 + 1e-7, 1.05, 1.25, 1.5, 2.0, 2.5, 4.0]
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=F64).unsqueeze(-1)


def make(alpha: float, mu: float = MU, b: float = B) -> BetaLaplace:
    return BetaLaplace(torch.tensor([mu], dtype=F64), b, alpha)


def over(density: BetaLaplace, f: Callable[[Tensor, Tensor], Tensor], *kinks: float) -> float:
    """The integral of f(t, p(t)) over the support."""
    mu, radius = density.loc.item(), density.support_radius.item()
    radius = radius if radius < 1e4 else math.inf
    inner = [k for k in kinks if abs(k - mu) < radius]

    def integrand(t: Tensor) -> Tensor:
        p = density.prob(t.unsqueeze(-1))
        return torch.where(p > 0, f(t, torch.where(p > 0, p, 1.0)), 0.0)

    return integral(integrand, mu - radius, mu, mu + radius, *inner)


@every_alpha
def test_density_solves_its_defining_equation(alpha: float):
    e = alpha - 1

    def deformed(t: Tensor, normaliser: float) -> Tensor:  # exp_{2-alpha}(f - A)
        y = -(t - MU).abs() / B - normaliser
        inside = e * y > -1
        y = torch.where(inside, y, 0.0)
        return torch.where(inside, (torch.log1p(e * y) / e if e else y).exp(), 0.0)

    def excess(normaliser: float) -> float:
        edge = B * (1 / e - normaliser) if e > 1e-3 else math.inf
        return 2 * integral(lambda t: deformed(t, normaliser), MU, MU + edge) - 1

    low = max(-3.0, 1 / e + 0.02) if e < 0 else -3.0
    high = min(3.0, 1 / e - 1e-9) if e > 0 else 1e4
    normaliser = brentq(excess, low, high, xtol=1e-15)
    t = column(MU, 0.31, 0.0, -0.4, 0.9, 2.0, 40.0)
    assert (make(alpha).prob(t) - deformed(t, normaliser).squeeze(-1)).abs().max() <= 1e-11
    assert make(alpha)._normaliser.item() == pytest.approx(normaliser, abs=1e-11)


def exact_log_prob(t: float, alpha: mpmath.mpf, b: float = B) -> mpmath.mpf:
    """In 40 digits and in the textbook's terms, half-width a or threshold tau, which have no limit at alpha = 1."""
    with mpmath.workdps(40):
        e, x, b = alpha - 1, mpmath.mpf(abs(t)), mpmath.mpf(b)
        m = 1 / e
        if e > 0:
            a = ((m + 1) / 2 * (b / e) ** m) ** (1 / (m + 1))
            return m * mpmath.log(e * (a - x) / b)
        tau = (alpha / (2 * b)) ** (1 / (1 + m)) / -e  # 2 b (|e| tau)^(1 + m) / alpha = 1
        return m * mpmath.log(-e * (tau + x / b))


@pytest.mark.parametrize("alpha", [0.3, 0.9, 1 - 1e-4, 1 - 1e-9, 1 + 1e-9, 1 + 1e-4, 1.1, 1.5, 3.0])
@pytest.mark.parametrize("t", [0.0, 1e-3, 0.2, 0.45])
def test_density_and_its_slope_in_alpha_are_smooth_through_one(alpha: float, t: float):
    a = torch.tensor(alpha, dtype=F64, requires_grad=True)
    ours = BetaLaplace(torch.zeros(1, dtype=F64), B, a).log_prob(torch.tensor([t], dtype=F64))
    with mpmath.workdps(40):
        centre = mpmath.mpf(alpha)
        truth = exact_log_prob(t, centre)
        h = abs(centre - 1) / 64
        slope = mpmath.diff(lambda x: exact_log_prob(t, x), centre, h=h * mpmath.mpf("1e-6"))
    assert ours.item() == pytest.approx(float(truth), abs=1e-13)
    assert torch.autograd.grad(ours, a)[0].item() == pytest.approx(float(slope), rel=1e-10, abs=1e-10)


def test_slope_in_alpha_at_one_is_the_limit():
    slopes = []
    for alpha in (1 - 1e-6, 1.0, 1 + 1e-6):
        a = torch.tensor(alpha, dtype=F64, requires_grad=True)
        slopes.append(torch.autograd.grad(BetaLaplace(column(0.0)[0], B, a).log_prob(column(2.0)[0]), a)[0])
    assert (slopes[1] - (slopes[0] + slopes[2]) / 2).abs() <= 1e-10


@every_alpha
def test_moments_and_entropies_are_integrals(alpha: float):
    density = make(alpha)
    assert over(density, lambda t, p: p) == pytest.approx(1, abs=1e-12)
    assert density.entropy().item() == pytest.approx(over(density, lambda t, p: -p * p.log()), abs=1e-11)
    if abs(alpha - 1) < 1e-3:
        assert density.tsallis_entropy().item() == pytest.approx(density.entropy().item(), abs=1e-6)
    elif alpha > 0.5:
        power = over(density, lambda t, p: p.pow(alpha))
        assert density.tsallis_entropy().item() == pytest.approx((1 - power) / (alpha * (alpha - 1)), abs=1e-11)
    if alpha > 2 / 3:
        variance = over(density, lambda t, p: p * (t - MU) * (t - MU))
        assert density.covariance_matrix.item() == pytest.approx(variance, rel=1e-10)
        assert density.mean.item() == MU


def test_moments_that_do_not_exist_say_so():
    density = BetaLaplace(torch.zeros(1, dtype=F64), 1.0, torch.tensor([0.3, 0.5, 0.6, 2 / 3, 0.7], dtype=F64))
    assert density.mean.squeeze(-1).isnan().tolist() == [True, True, False, False, False]
    variance = density.variance.squeeze(-1)
    assert variance[:2].isnan().all() and variance[2:4].isinf().all() and variance[4].isfinite()
    assert density.tsallis_entropy().isinf().tolist() == [True, True, False, False, False]
    assert density.entropy().isfinite().all() and density.support_radius.isinf().all()


def test_laplace_is_that_of_torch():
    mu, b = torch.randn(5, 1, dtype=F64), torch.rand(5, 1, dtype=F64) + 0.1
    ours, theirs = Laplace(mu, b), torch.distributions.Laplace(mu.squeeze(-1), b.squeeze(-1))
    t = 3 * torch.randn(7, 5, 1, dtype=F64)
    q = torch.rand(7, 5, dtype=F64)
    for one, two in (
        (ours.log_prob(t), theirs.log_prob(t.squeeze(-1))),
        (ours.cdf(t), theirs.cdf(t.squeeze(-1))),
        (ours.icdf(q).squeeze(-1), theirs.icdf(q)),
        (ours.entropy(), theirs.entropy()),
        (ours.tsallis_entropy(), theirs.entropy()),
        (ours.variance.squeeze(-1), theirs.variance),
        (ours.mean.squeeze(-1), theirs.mean),
    ):
        assert one.shape == two.shape and (one - two).abs().max() <= 1e-13
    assert ours.alpha == 1 and ours.support_radius.isinf().all()


def test_triangular_is_that_of_scipy_and_of_the_paper():
    b = 0.49
    density, theirs = Triangular(column(MU)[0], b), scipy.stats.triang(0.5, loc=MU - 0.7, scale=1.4)
    t = torch.linspace(-0.6, 1.2, 50, dtype=F64).unsqueeze(-1)
    flat = t.squeeze(-1).numpy()
    assert abs(density.prob(t).numpy() - theirs.pdf(flat)).max() <= 1e-14
    assert abs(density.cdf(t).numpy() - theirs.cdf(flat)).max() <= 1e-14
    assert density.entropy().item() == pytest.approx(theirs.entropy(), abs=1e-14)
    assert density.variance.item() == pytest.approx(theirs.var(), abs=1e-14)
    # [NeurIPS] Eq. 12: [-lambda - |t - mu| / b]_+ with lambda = -1 / sqrt(b).
    assert (density.prob(t) - (b**-0.5 - (t - MU).abs() / b).clamp(min=0).squeeze(-1)).abs().max() <= 1e-14
    assert density.support_radius.item() == pytest.approx(0.7, abs=1e-15)


@pytest.mark.parametrize("alpha", [0.3, 0.8, 1.0, 1.001, 1.5, 2.0, 3.0])
def test_cdf_integrates_the_density_and_icdf_inverts_it(alpha: float):
    density = make(alpha)
    q = torch.tensor([1e-12, 0.01, 0.3, 0.5, 0.75, 0.999], dtype=F64)
    t = density.icdf(q)
    assert t.shape == (6, 1)
    assert (density.cdf(t) - q).abs().max() <= 1e-15
    between = integral(lambda t: density.prob(t.unsqueeze(-1)), t[1].item(), MU, t[4].item())
    assert between == pytest.approx(0.74, abs=1e-12)
    ends = density.icdf(torch.tensor([0.0, 1.0], dtype=F64)).squeeze(-1) - MU
    assert torch.allclose(ends, density.support_radius * torch.tensor([-1.0, 1.0], dtype=F64))
    far = density.cdf(column(-1e9, 1e9))
    assert far[0] <= 1e-3 and far[1] >= 1 - 1e-3
    if alpha > 1:
        assert far.tolist() == [0, 1]


@pytest.mark.parametrize("alpha", [0.4, 0.9, 1.0, 1.3, 2.0, 4.0])
def test_samples_follow_the_density(alpha: float):
    density = make(alpha)
    draws = density.rsample((4000,))
    assert draws.shape == (4000, 1) and density.support_contains(draws).all()
    assert scipy.stats.kstest(density.cdf(draws).numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("alpha", [0.6, 1.0, 1.5, 3.0])
def test_sample_moves_along_its_quantile(alpha: float):
    parameters = [x.requires_grad_() for x in (column(MU)[0], column(B)[0], torch.tensor(alpha, dtype=F64))]
    torch.manual_seed(1)
    draw = BetaLaplace(*parameters).rsample((6,))
    for point in draw:
        pathwise = torch.autograd.grad(point.sum(), parameters, retain_graph=True)
        density = BetaLaplace(*parameters)
        implicit = torch.autograd.grad(density.cdf(point.detach()), parameters, retain_graph=True)
        p = density.prob(point.detach()).item()
        for one, two in zip(pathwise, implicit, strict=True):
            assert one.item() == pytest.approx(-two.item() / p, rel=1e-9, abs=1e-9)


OUTPUTS: dict[str, Callable[[BetaLaplace, Tensor], Tensor]] = {
    "log_prob": lambda p, t: p.log_prob(t),
    "prob": lambda p, t: p.prob(t),
    "cdf": lambda p, t: p.cdf(t),
    "icdf": lambda p, t: p.icdf(0.5 + t.squeeze(-1) / 3),
    "covariance": lambda p, t: p.covariance_matrix,
    "entropy": lambda p, t: p.entropy(),
    "tsallis_entropy": lambda p, t: p.tsallis_entropy(),
    "mean_distance": lambda p, t: p.mean_distance(t),
    "points": lambda p, t: fenchel_young_loss(p, t),
    "loss": lambda p, t: fenchel_young_loss(p, BetaLaplace(t, 0.4, p.alpha)),
}


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.4, 3.5])
def test_gradients_match_finite_differences(output: str, alpha: float):
    loc, scale = column(0.05).requires_grad_(), column(0.7)[0].requires_grad_()
    a = torch.tensor([alpha], dtype=F64, requires_grad=True)
    t = column(0.21).requires_grad_()

    def apply(loc: Tensor, scale: Tensor, a: Tensor, t: Tensor) -> Tensor:
        return OUTPUTS[output](BetaLaplace(loc, scale, a), t)

    assert gradcheck(apply, (loc, scale, a, t), atol=1e-7, check_forward_ad=True)
    assert gradgradcheck(apply, (loc, scale, a, t), atol=1e-6)


@pytest.mark.parametrize("alpha", [1.2, 2.0, 3.0])
def test_outside_the_support_the_density_is_zero_and_so_is_its_gradient(alpha: float):
    leaves = [x.requires_grad_() for x in (column(0.0)[0], column(1.0)[0], torch.tensor(alpha, dtype=F64))]
    density = BetaLaplace(*leaves)
    radius = density.support_radius.item()
    t = column(-1e300, -50.0, -radius, radius, 1e8).requires_grad_()
    assert (density.log_prob(t) == -math.inf).all() and (density.prob(t) == 0).all()
    assert not density.support_contains(t).any()
    for value in (density.prob(t).sum(), density.cdf(t).sum(), density.log_prob(t).exp().sum()):
        assert all((g == 0).all() for g in torch.autograd.grad(value, [*leaves, t], retain_graph=True))


def test_nan_stays_nan():
    t = column(math.nan, 0.1)
    for alpha in (0.6, 1.0, 1.5, 2.0):
        density = BetaLaplace(column(MU)[0], B, alpha, validate_args=False)
        for value in (density.log_prob(t), density.prob(t), density.cdf(t), density.mean_distance(t)):
            assert value[0].isnan() and not value[1].isnan()


def test_peak_has_no_slope():
    t = column(MU).requires_grad_()
    for alpha in (0.5, 1.0, 1.5, 2.0, 3.0):
        assert torch.autograd.grad(make(alpha).prob(t).sum(), t)[0] == 0


def test_heavy_tails_keep_their_digits():
    density = BetaLaplace(torch.zeros(1, dtype=F64), 1.0, 0.5)
    t = column(1e6, 1e12, 1e100)
    # alpha = 1/2: p = (4 + |t| / 2)^-2 is 1/16 at 0 and has the integral one.
    assert ((density.log_prob(t) + 2 * (4 + t.squeeze(-1) / 2).log()) / density.log_prob(t)).abs().max() <= 1e-15
    assert density.prob(torch.zeros(1, dtype=F64)).item() == pytest.approx(1 / 16)


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.5, 2.0, 5.0])
def test_moments_are_inverted(alpha: float):
    mean, variance = torch.randn(4, 1, dtype=F64), torch.rand(4, 1, 1, dtype=F64) + 0.1
    density = BetaLaplace.from_moments(mean, variance, alpha)
    assert torch.allclose(density.mean, mean) and torch.allclose(density.covariance_matrix, variance, rtol=1e-13)
    each = BetaLaplace.from_moments(mean, 0.3, torch.full((4,), alpha, dtype=F64))
    assert torch.allclose(each.variance, torch.full((4, 1), 0.3, dtype=F64), rtol=1e-13)
    for kind in (Laplace, Triangular):
        member = kind.from_moments(mean, variance)
        assert type(member) is kind and torch.allclose(member.covariance_matrix, variance, rtol=1e-13)


def test_parameters_broadcast_and_expand():
    density = BetaLaplace(torch.zeros(3, 1), torch.tensor(2.0), torch.tensor([[1.0], [1.5]]))
    assert density.batch_shape == (2, 3) and density.event_shape == (1,) and density.scale.shape == (2, 3, 1)
    t = torch.randn(5, 2, 3, 1)
    assert density.log_prob(t).shape == (5, 2, 3) and density.rsample((4,)).shape == (4, 2, 3, 1)
    wide = density.expand((7, 2, 3))
    assert wide.alpha.shape == (7, 2, 3) and torch.equal(wide.log_prob(t[0]), density.log_prob(t[0]).expand(7, 2, 3))
    assert wide.covariance_matrix.shape == (7, 2, 3, 1, 1) and wide.support_radius.shape == (7, 2, 3)
    for member in (Laplace(torch.zeros(1), 1.0), Triangular(torch.zeros(1), 1.0)):
        wider = member.expand((4,))
        assert type(wider) is type(member) and wider.batch_shape == (4,) and wider.alpha == member.alpha
        assert wider.rsample((2,)).shape == (2, 4, 1)


def test_single_and_half_precision():
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        density = BetaLaplace(torch.zeros(1, dtype=dtype), 0.7, torch.tensor(1.5, dtype=F64))
        assert density.log_prob(torch.ones(1)).dtype == torch.float32
    for alpha in ALPHAS:
        single = BetaLaplace(torch.tensor([MU]), B, alpha)
        assert single.log_prob(torch.tensor([0.5])).item() == pytest.approx(
            make(alpha).log_prob(column(0.5)[0]).item(), rel=2e-6, abs=2e-6
        )


def test_vmap_and_functional_derivatives():
    b, t = torch.rand(5, dtype=F64) + 0.5, torch.tensor([0.2], dtype=F64)
    value = torch.func.vmap(lambda b: BetaLaplace(torch.zeros(1, dtype=F64), b, 1.5).log_prob(t))(b)
    assert torch.allclose(value, BetaLaplace(torch.zeros(1, dtype=F64), b.unsqueeze(-1), 1.5).log_prob(t))
    slope = torch.func.grad(lambda b: BetaLaplace(torch.zeros(1, dtype=F64), b, 1.5).entropy())(b[0])
    assert slope.item() == pytest.approx(1 / (1.5 * b[0].item()))


def test_compiled_density_takes_an_alpha_that_changes():
    def value(alpha: float, t: Tensor) -> Tensor:
        density = BetaLaplace(torch.zeros(1, dtype=F64), B, alpha)
        return density.log_prob(t) + density.entropy()

    compiled = torch.compile(value, backend="eager", fullgraph=True)
    for alpha in (1.5, 1.3, 1.0, 0.7):
        assert torch.equal(compiled(alpha, column(0.1)), value(alpha, column(0.1)))


def test_errors_name_the_argument():
    zero = torch.zeros(1)
    with pytest.raises(ValueError, match="BetaLaplace: alpha must be > 0, got 0"):
        BetaLaplace(zero, 1.0, 0.0)
    with pytest.raises(ValueError, match="alpha must be finite"):
        BetaLaplace(zero, 1.0, math.inf)
    with pytest.raises(ValueError, match=r"BetaLaplace: loc must have shape \[\*, 1\], got \(3,\)"):
        BetaLaplace(torch.zeros(3), 1.0)
    with pytest.raises(ValueError, match=r"Triangular: scale must have shape \[\*, 1\], got \(5,\)"):
        Triangular(torch.zeros(5, 1), torch.ones(5))
    with pytest.raises(TypeError, match=r"Laplace: loc must be a torch\.Tensor, got float"):
        Laplace(0.0, 1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="do not broadcast"):
        BetaLaplace(torch.zeros(3, 1), torch.ones(2, 1))
    with pytest.raises(ValueError, match="scale"):
        Laplace(zero, -1.0, validate_args=True)
    with pytest.raises(ValueError, match=r"from_moments: alpha must be > 0\.66"):
        BetaLaplace.from_moments(zero, 1.0, 0.6)
    with pytest.raises(ValueError, match="covariance must be a number"):
        Triangular.from_moments(zero, torch.ones(1))
