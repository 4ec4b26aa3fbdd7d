"""Location-scale families against closed-form members, the paper's threshold equation and quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import scipy.stats
import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from densities.line import integral
from omegamax.densities import LocationScale, Triangular, TruncatedParaboloid, fenchel_young_loss

F64 = torch.float64
MU, SIGMA = 0.3, 0.7
FAMILIES: dict[str, Callable[[Tensor], Tensor]] = {
    "square": lambda s: s.square() / 2,
    "cube": lambda s: s**3 / 6,
    "quartic": lambda s: s**4,
    "root": lambda s: s.pow(1.5),
    "cosh": torch.cosh,
    "exp": torch.exp,
    "steep": lambda s: (10 * s).exp(),
    "hyperbola": lambda s: (1 + s.square()).sqrt(),
    "large": lambda s: 1e6 * s.square(),
    "small": lambda s: 1e-6 * s.square(),
}
every_family = pytest.mark.parametrize("name", FAMILIES)


def make(name: str, mu: float = MU, sigma: float = SIGMA) -> LocationScale:
    return LocationScale(FAMILIES[name], torch.tensor([mu], dtype=F64), sigma)


def over(density: LocationScale, f: Callable[[Tensor, Tensor], Tensor]) -> float:
    mu, radius = density.loc.item(), density.support_radius.item()
    return integral(lambda t: f(t, density.prob(t.unsqueeze(-1))), mu - radius, mu, mu + radius)


def slope(g: Callable[[Tensor], Tensor], s: float) -> float:
    x = torch.tensor(s, dtype=F64, requires_grad=True)
    return torch.autograd.grad(g(x), x)[0].item()


def line(low: float, high: float, count: int) -> Tensor:
    return torch.linspace(low, high, count, dtype=F64).unsqueeze(-1)


@every_family
def test_edge_solves_the_threshold_equation(name: str):
    g = FAMILIES[name]

    def excess(a: float) -> float:
        zero = g(torch.zeros((), dtype=F64)).item()
        return a * slope(g, a) - g(torch.tensor(a, dtype=F64)).item() + zero - 0.5

    a = make(name).support_radius.item() / SIGMA
    assert a == pytest.approx(brentq(excess, a / 2, a * 1.5, xtol=1e-16), rel=1e-13)


@every_family
def test_density_is_that_of_the_paper(name: str):
    density, g = make(name), FAMILIES[name]
    radius = density.support_radius.item()
    for u in (0.0, 1e-3, 0.3, -0.8, 0.999, 1.001, -5.0):
        t = MU + u * radius
        # [NeurIPS] Eq. 13: [-lambda - g'(|t - mu| / sigma) / sigma]_+ with lambda = -g'(a) / sigma.
        expected = max(0.0, (slope(g, radius / SIGMA) - slope(g, abs(t - MU) / SIGMA)) / SIGMA)
        assert density.prob(torch.tensor([t], dtype=F64)).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert over(density, lambda t, p: p) == pytest.approx(1, abs=1e-12)


@every_family
def test_moments_and_entropies_are_integrals(name: str):
    density = make(name)
    variance = over(density, lambda t, p: p * (t - MU).square())
    assert density.covariance_matrix.shape == (1, 1) and density.mean.item() == MU
    assert density.variance.item() == pytest.approx(variance, rel=1e-11)
    shannon = over(density, lambda t, p: -p * torch.where(p > 0, p, 1.0).log())
    assert density.entropy().item() == pytest.approx(shannon, abs=1e-11)
    square = over(density, lambda t, p: p.square())
    assert density.tsallis_entropy().item() == pytest.approx((1 - square) / 2, rel=1e-11)


def test_cube_is_the_truncated_parabola_with_the_cube_of_the_scale():
    density = make("cube")
    other = TruncatedParaboloid(torch.tensor([MU], dtype=F64), SIGMA**3)
    t = line(-1, 2, 101)
    assert (density.prob(t) - other.prob(t)).abs().max() <= 1e-14
    assert (density.covariance_matrix - other.covariance_matrix).abs().max() <= 1e-15
    assert (density.entropy() - other.entropy()).abs() <= 1e-13
    assert (density.tsallis_entropy() - other.tsallis_entropy()).abs() <= 1e-14
    assert density.support_radius.item() / SIGMA == pytest.approx(1.5 ** (1 / 3), rel=1e-14)
    points = line(-2, 2, 9)
    assert (fenchel_young_loss(density, points) - fenchel_young_loss(other, points)).abs().max() <= 1e-13


def test_square_is_the_triangular_density_with_the_square_of_the_scale():
    density, other = make("square"), Triangular(torch.tensor([MU], dtype=F64), SIGMA**2)
    t, q = line(-1, 2, 101), torch.linspace(0, 1, 21, dtype=F64)
    assert (density.prob(t) - other.prob(t)).abs().max() <= 1e-14
    assert (density.cdf(t) - other.cdf(t)).abs().max() <= 1e-15
    assert (density.icdf(q) - other.icdf(q)).abs().max() <= 1e-13
    assert (density.variance - other.variance).abs() <= 1e-15
    assert (density.entropy() - other.entropy()).abs() <= 1e-14
    assert (fenchel_young_loss(density, t) - fenchel_young_loss(other, t)).abs().max() <= 1e-14


@every_family
def test_cdf_integrates_the_density_and_icdf_inverts_it(name: str):
    density = make(name)
    radius = density.support_radius.item()
    q = torch.tensor([0.0, 1e-9, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9, 1.0], dtype=F64)
    t = density.icdf(q)
    assert t.shape == (8, 1) and (density.cdf(t) - q).abs().max() <= 1e-13
    assert t[0].item() == pytest.approx(MU - radius) and t[-1].item() == pytest.approx(MU + radius)
    left = integral(lambda t: density.prob(t.unsqueeze(-1)), MU - radius, t[3].item())
    assert left == pytest.approx(0.3, abs=1e-12)
    assert density.cdf(torch.tensor([[-1e9], [1e9]], dtype=F64)).tolist() == [0, 1]


@pytest.mark.parametrize("name", ["root", "cosh", "quartic"])
def test_samples_follow_the_density(name: str):
    density = make(name)
    draws = density.rsample((4000,))
    assert draws.shape == (4000, 1) and density.support_contains(draws).all()
    assert scipy.stats.kstest(density.cdf(draws).numpy(), "uniform").pvalue > 1e-3


def learnt(k: Tensor, loc: Tensor, scale: Tensor) -> LocationScale:
    return LocationScale(lambda s: k * s**2 + 0.4 * s**3 + s.cosh(), loc, scale)


OUTPUTS: dict[str, Callable[[LocationScale, Tensor], Tensor]] = {
    "log_prob": lambda p, t: p.log_prob(t),
    "cdf": lambda p, t: p.cdf(t),
    "icdf": lambda p, t: p.icdf(0.5 + t.squeeze(-1)),
    "covariance": lambda p, t: p.covariance_matrix,
    "entropies": lambda p, t: p.entropy() + p.tsallis_entropy(),
    "radius": lambda p, t: p.support_radius,
    "points": lambda p, t: fenchel_young_loss(p, t),
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_gradients_reach_what_g_holds(output: str):
    k = torch.tensor([[0.5], [1.0]], dtype=F64, requires_grad=True)
    loc, scale = torch.zeros(2, 1, dtype=F64, requires_grad=True), torch.tensor([0.7], dtype=F64, requires_grad=True)
    t = torch.tensor([[0.1], [-0.2]], dtype=F64, requires_grad=True)

    def apply(k: Tensor, loc: Tensor, scale: Tensor, t: Tensor) -> Tensor:
        return OUTPUTS[output](learnt(k, loc, scale), t)

    assert gradcheck(apply, (k, loc, scale, t), atol=1e-7)
    assert gradgradcheck(apply, (k, loc, scale, t), atol=1e-6)


def test_sample_moves_along_its_quantile():
    leaves = [torch.tensor([x], dtype=F64, requires_grad=True) for x in (0.5, MU, SIGMA)]
    density = learnt(*leaves)
    for point in density.rsample((5,)):
        pathwise = torch.autograd.grad(point.sum(), leaves, retain_graph=True)
        implicit = torch.autograd.grad(density.cdf(point.detach()), leaves, retain_graph=True)
        p = density.prob(point.detach()).item()
        for one, two in zip(pathwise, implicit, strict=True):
            assert one.item() == pytest.approx(-two.item() / p, rel=1e-8, abs=1e-9)


@every_family
def test_outside_the_support_and_at_the_peak_gradients_are_zero(name: str):
    loc, scale = torch.tensor([MU], dtype=F64, requires_grad=True), torch.ones(1, dtype=F64, requires_grad=True)
    density = LocationScale(FAMILIES[name], loc, scale)
    t = torch.tensor([[-1e200], [-2e3], [2e3], [1e8]], dtype=F64, requires_grad=True)
    assert (density.log_prob(t) == -math.inf).all() and not density.support_contains(t).any()
    for value in (density.prob(t).sum(), density.cdf(t).sum()):
        assert all((g == 0).all() for g in torch.autograd.grad(value, (loc, scale, t)))
    peak = loc.detach().requires_grad_()
    assert torch.autograd.grad(density.prob(peak), (loc, peak))[1] == 0


def test_nan_stays_nan():
    density, t = make("cosh").expand(()), torch.tensor([[math.nan], [0.1]], dtype=F64)
    density._validate_args = False
    for value in (density.log_prob(t), density.prob(t), density.cdf(t)):
        assert value.isnan().tolist() == [True, False]


def test_points_are_scored_by_the_definition():
    # Omega_2* (f) - f(x), with f = -g'(|x - mu| / sigma) / sigma.
    density = make("cosh")

    def score(t: Tensor) -> Tensor:
        return -((t - MU).abs() / SIGMA).sinh() / SIGMA

    omega = (over(density, lambda t, p: p.square()) - 1) / 2
    conjugate = over(density, lambda t, p: p * score(t)) - omega
    points = line(-1, 1.5, 7)
    expected = conjugate - score(points).squeeze(-1)
    assert (fenchel_young_loss(density, points) - expected).abs().max() <= 1e-11
    with pytest.raises(TypeError, match="compared with points, got a LocationScale"):
        fenchel_young_loss(density, density)


def test_parameters_broadcast_and_expand():
    k = torch.tensor([[[0.5]], [[2.0]]])
    density = LocationScale(lambda s: k * s.square(), torch.zeros(2, 3, 1), 1.0)
    assert density.batch_shape == (2, 3) and density.support_radius.shape == (2, 3)
    assert torch.allclose(density.support_radius[:, 0], (0.5 / k.flatten()).sqrt())
    t = torch.randn(5, 2, 3, 1)
    assert density.log_prob(t).shape == (5, 2, 3) and density.rsample((4,)).shape == (4, 2, 3, 1)
    wide = make("cosh").expand((4, 2))
    assert wide.batch_shape == (4, 2) and wide.rsample((3,)).shape == (3, 4, 2, 1)
    assert torch.allclose(wide.variance, make("cosh").variance.expand(4, 2, 1))
    assert torch.allclose(
        wide.icdf(torch.full((4, 2), 0.3, dtype=F64))[0, 0], make("cosh").icdf(torch.tensor(0.3, dtype=F64))
    )


def test_single_precision():
    for name in FAMILIES:
        single = LocationScale(FAMILIES[name], torch.tensor([MU]), SIGMA)
        double = make(name)
        assert single.support_radius.dtype == single.rsample().dtype == torch.float32
        assert single.support_radius.item() == pytest.approx(double.support_radius.item(), rel=1e-6)
        assert single.variance.item() == pytest.approx(double.variance.item(), rel=1e-4)
        draws = single.rsample((500,))
        assert draws.isfinite().all() and ((draws - MU).abs().squeeze(-1) <= single.support_radius * 1.0001).all()


def test_functional_derivatives_and_vmap():
    k = torch.tensor([0.5, 1.0, 2.0], dtype=F64)

    def radius(k: Tensor) -> Tensor:
        return LocationScale(lambda s: k * s.square(), torch.zeros(1, dtype=F64), 1.0).support_radius

    assert torch.allclose(torch.func.vmap(radius)(k), (0.5 / k).sqrt(), rtol=1e-13)
    slope = torch.func.vmap(torch.func.grad(radius))(k)
    assert torch.allclose(slope, -0.5 * (0.5 / k).sqrt() / k, rtol=1e-12)


def test_errors_name_the_argument():
    zero = torch.zeros(1)
    with pytest.raises(TypeError, match="LocationScale: g must be a function"):
        LocationScale(2.0, zero, 1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="so convex that"):
        LocationScale(lambda s: s, zero, 1.0)
    with pytest.raises(ValueError, match=r"g must keep the shape \(1,\)"):
        LocationScale(lambda s: torch.ones(3, 1) * s.square(), zero, 1.0)
    with pytest.raises(ValueError, match="scale"):
        LocationScale(torch.cosh, zero, -1.0, validate_args=True)
    with pytest.raises(ValueError, match=r"loc must have shape \[\*, 1\]"):
        LocationScale(torch.cosh, torch.zeros(2), 1.0)
