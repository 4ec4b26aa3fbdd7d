"""The chord rule against the contour rule, adaptive quadrature and finite differences.

Errors are in units of the largest value possible, the smaller of the peaks of density and bump.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from scipy.integrate import quad
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian
from omegamax.densities.expectations._chord import _SHORT, integrate_chords
from omegamax.densities.expectations._windows import find_order

F64 = torch.float64
every_m = pytest.mark.parametrize("m", [1, 2, 3, 4])


def random_pairs(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Location and factor of the support, centre and covariance of ``count`` pairs; half the bumps are at the edge."""
    g = torch.Generator().manual_seed(seed)

    def rand(*size: int) -> Tensor:
        return torch.rand(*size, generator=g, dtype=F64)

    def rotation() -> Tensor:
        angle = 2 * math.pi * rand(count)
        return torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).reshape(count, 2, 2)

    # Semi-axes of all sizes, with Sigma's condition number up to 1e8; stds from 1e-3 to 100 of the long one.
    long = 10 ** (4 * rand(count) - 2)
    axes = rotation() * torch.stack([long, long * 10 ** (-4 * rand(count))], -1).unsqueeze(-2)
    std = long.unsqueeze(-1) * 10 ** (5 * rand(count, 1) - 3) * torch.stack([1 + 0 * long, 10 ** rand(count)], -1)
    std[::3, 1] = std[::3, 0]
    turn = rotation() * std.unsqueeze(-2)
    loc = torch.randn(count, 2, generator=g, dtype=F64)
    place = rotation()[..., :1] * torch.where(rand(count, 1, 1) < 0.5, 1.0, rand(count, 1, 1))
    center = loc + (axes @ place + turn @ (6 * rand(count, 2, 1) - 3)).squeeze(-1)
    covariance = turn @ turn.mT
    return loc, torch.linalg.cholesky(axes @ axes.mT), center, (covariance + covariance.mT) / 2


def density_of(loc: Tensor, root: Tensor, m: int) -> BetaGaussian:
    """The one whose support is the image of the unit disk under ``root``."""
    alpha = 1 + 1 / m
    # The support of k^2 Sigma is k^(2m / (2m + 2)) times that of Sigma.
    radius = BetaGaussian(loc, scale_tril=root, alpha=alpha).support_radius
    return BetaGaussian(loc, scale_tril=root * radius[..., None, None] ** (-(m + 1) / m), alpha=alpha)


def peak(density: BetaGaussian, covariance: Tensor) -> Tensor:
    bump = 1 / (2 * math.pi * torch.linalg.det(covariance).sqrt())
    return torch.minimum(density.log_peak.exp(), bump)


def by_quadrature(m: int, center: tuple[float, float], std: tuple[float, float]) -> float:
    """``int (1 - |v|^2)^m N(v)`` over the unit disk, with breaks around the bump and where it meets the edge."""

    def normal(v: float, i: int) -> float:
        return math.exp(-0.5 * ((v - center[i]) / std[i]) ** 2) / (std[i] * math.sqrt(2 * math.pi))

    def integral(f, low: float, high: float, breaks: list[float]) -> float:
        cuts = [low, *sorted(b for b in breaks if low < b < high), high]
        return sum(quad(f, a, b, epsabs=1e-13, epsrel=1e-12, limit=100)[0] for a, b in itertools.pairwise(cuts))

    def around(i: int, ks=(-9, -4, 0, 4, 9)) -> list[float]:
        return [center[i] + k * std[i] for k in ks]

    def over_chord(phi: float) -> float:
        c, v1 = math.cos(phi), math.sin(phi)
        low, high = max(-c, around(1)[0]), min(c, around(1)[-1])
        if low >= high:
            return 0.0
        inner = integral(lambda v: (c * c - v * v) ** m * normal(v, 1), low, high, around(1))
        return c * normal(v1, 0) * inner

    low, high = (math.asin(min(1.0, max(-1.0, v))) for v in (around(0)[0], around(0)[-1]))
    meets = [math.acos(abs(v)) for v in around(1) if abs(v) < 1]
    breaks = [math.asin(v) for v in around(0) if abs(v) < 1] + meets + [-v for v in meets]
    return integral(over_chord, low, high, breaks)


@every_m
def test_agrees_with_the_contour(m):
    loc, root, center, covariance = random_pairs(300, m)
    density = density_of(loc, root, m)
    torch.testing.assert_close(density.support_tril, root, rtol=1e-12, atol=0)
    worst = 0.0
    for part in torch.arange(300).split(10):
        some = BetaGaussian(loc[part], scale_tril=density.scale_tril[part], alpha=1 + 1 / m)
        basis = GaussianRBF(center[part], covariance[part])
        error = (integrate_chords(some, basis) - some.expect(basis)).diagonal() / peak(some, covariance[part])
        worst = max(worst, float(error.abs().max()))
    assert worst < 1e-9


@every_m
def test_is_exact_on_the_disk(m):
    """Without the rounding of long and thin shapes."""
    g = torch.Generator().manual_seed(m)
    std = 10 ** (5 * torch.rand(2000, 2, generator=g, dtype=F64) - 3)
    angle = math.pi * torch.rand(2000, generator=g, dtype=F64)
    edge = torch.stack([angle.cos(), angle.sin()], -1)
    center = edge + 3 * std * torch.randn(2000, 2, generator=g, dtype=F64)
    center[::2] = edge[::2] * torch.rand(1000, 1, generator=g, dtype=F64)
    density = density_of(torch.zeros(2, dtype=F64), torch.eye(2, dtype=F64), m)
    basis = GaussianRBF(center, std.square())
    error = (integrate_chords(density, basis) - density.expect(basis)) / peak(density, basis.covariance)
    assert error.abs().max() < 1e-12


@pytest.mark.parametrize(
    ("center", "std"),
    [
        ((0.0, 0.0), (0.3, 0.3)),
        ((0.7, 0.7), (0.05, 0.02)),
        ((0.999, 0.03), (2e-3, 3e-3)),
        ((0.37305, 0.9278), (1.1e-4, 5.8e-5)),  # narrow, and at the edge
        ((0.02, 0.9999), (1e-5, 1e-4)),
        ((1.0, 0.0), (1e-6, 0.5)),
        ((3.0, -20.0), (2.0, 8.0)),
        ((-1.5, 0.2), (0.1, 100.0)),
    ],
)
@pytest.mark.parametrize("m", [1, 3])
def test_agrees_with_quadrature(m, center, std):
    density = density_of(torch.zeros(2, dtype=F64), torch.eye(2, dtype=F64), m)
    basis = GaussianRBF(torch.tensor([center], dtype=F64), torch.tensor([std], dtype=F64).square())
    value = integrate_chords(density, basis) / density.log_peak.exp()
    unit = min(1.0, 1 / (2 * math.pi * std[0] * std[1]))
    assert abs(float(value) - by_quadrature(m, center, std)) < 1e-12 * unit


def test_closed_form_and_nodes_meet():
    """On both sides of the half-chord at which one takes over from the other."""
    for m, (least, _) in _SHORT.items():
        density = density_of(torch.zeros(2, dtype=F64), torch.eye(2, dtype=F64), m)
        std = torch.tensor([(1 - 1e-13) / least, (1 + 1e-13) / least], dtype=F64)
        for distance in torch.linspace(0, 8, 17, dtype=F64):
            center = torch.stack([0 * std, distance * std], -1)
            below, above = integrate_chords(density, GaussianRBF(center, std.square()))
            assert abs(below - above) < 3e-12 * density.log_peak.exp()


def test_many_densities_with_many_bumps():
    g = torch.Generator().manual_seed(0)
    loc = torch.rand(3, 4, 2, generator=g, dtype=F64)
    scale = torch.rand(4, 1, 1, generator=g, dtype=F64)
    density = BetaGaussian(loc, scale, alpha=1.5)
    for variance in (0.001, [0.01, 0.25]):
        basis = GaussianRBF.grid(5, 2, variance=variance)
        value = integrate_chords(density, basis)
        assert value.shape == (3, 4, len(basis)) and value.dtype == F64
        torch.testing.assert_close(value, density.expect(basis), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("scale", [[[0.5, 0.0], [0.0, 0.5]], [[0.7, 0.3], [0.3, 0.4]]], ids=["round", "long"])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_gradients(m, scale):
    # Inside, at the edge, narrow, wide, and neither round nor along an axis.
    centers = torch.tensor([[0.1, -0.2], [1.0, 0.3], [0.4, 0.5], [3.0, -4.0], [0.3, 0.9]], dtype=F64)
    covariance = torch.tensor([0.04, 0.04, 1e-3, 9.0, 0.3], dtype=F64)[:, None, None] * torch.eye(2, dtype=F64)
    covariance[-1] += torch.tensor([[0.2, 0.2], [0.2, -0.2]], dtype=F64)
    basis = GaussianRBF(centers, covariance)
    loc = torch.tensor([0.05, 0.1], dtype=F64, requires_grad=True)
    sigma = torch.tensor(scale, dtype=F64, requires_grad=True)

    def value(loc: Tensor, sigma: Tensor) -> Tensor:
        return integrate_chords(BetaGaussian(loc, sigma, alpha=1 + 1 / m), basis)

    assert gradcheck(value, (loc, sigma), eps=1e-6, atol=1e-6, rtol=1e-5)
    assert gradgradcheck(value, (loc, sigma), eps=1e-6, atol=1e-5, rtol=1e-5)


@every_m
def test_gradients_agree_with_the_contour(m):
    loc, root, center, covariance = random_pairs(40, 20 + m)
    root = density_of(loc, root, m).scale_tril.clone()
    for mu, factor, c, s in zip(loc.requires_grad_(), root.requires_grad_(), center, covariance, strict=True):
        density = BetaGaussian(mu, scale_tril=factor, alpha=1 + 1 / m)
        basis = GaussianRBF(c.unsqueeze(0), s.unsqueeze(0))
        # Moves in units of the support change the value by its unit, or by more where the bump is narrow.
        support = density.support_tril.detach()
        half = torch.linalg.solve_triangular(support, s, upper=False)
        narrowest = torch.linalg.eigvalsh(torch.linalg.solve_triangular(support, half.mT, upper=False))[0].sqrt()
        unit = peak(density, s).detach() / narrowest.clamp(max=1)
        ours, theirs = (
            torch.autograd.grad(f(density, basis).sum(), (mu, factor)) for f in (integrate_chords, BetaGaussian.expect)
        )
        assert (support.mT @ (ours[0] - theirs[0])).abs().max() < 1e-9 * unit
        assert (factor.detach().mT @ (ours[1] - theirs[1]).tril()).abs().max() < 1e-9 * unit


def test_narrow_functions_read_the_density():
    """``E[(1 - |v|^2)] = 1 - |a|^2 - s1^2 - s2^2``, for all that is well inside."""
    density = density_of(torch.zeros(2, dtype=F64), torch.eye(2, dtype=F64), 1)
    center = torch.tensor([0.3, 0.1], dtype=F64)
    for std in ([1e-3, 1e-3], [1e-7, 1e-3], [1e-2, 1e-7], [1e-9, 1e-10]):
        variance = torch.tensor(std, dtype=F64).square()
        value = (
            integrate_chords(density, GaussianRBF(center.unsqueeze(0), variance.unsqueeze(0))) / density.log_peak.exp()
        )
        torch.testing.assert_close(value, (1 - center.square().sum() - variance.sum()).reshape(1), rtol=1e-13, atol=0)


def test_out_of_reach_is_exactly_zero():
    loc = torch.zeros(2, dtype=F64, requires_grad=True)
    root = torch.eye(2, dtype=F64, requires_grad=True)
    centers = torch.tensor([[5.0, 0.0], [-3.0, 3.0], [0.0, 1e6], [1e200, -1e200]], dtype=F64)
    for variance in (1e-2, 1e-6, 1e-12):
        value = integrate_chords(BetaGaussian(loc, scale_tril=root, alpha=1.5), GaussianRBF(centers, variance))
        assert torch.equal(value, torch.zeros(4, dtype=F64))
        first = torch.autograd.grad(value.sum(), (loc, root), create_graph=True)
        second = torch.autograd.grad(sum(t.sum() for t in first), (loc, root))
        for t in (*first, *second):
            assert torch.equal(t, torch.zeros_like(t))


def test_extreme_widths_are_finite():
    loc = torch.zeros(2, dtype=F64, requires_grad=True)
    for scale in (1e-12, 1.0, 1e12):
        root = (scale * torch.eye(2, dtype=F64)).requires_grad_()
        density = BetaGaussian(loc, scale_tril=root, alpha=4 / 3)
        basis = GaussianRBF(torch.tensor([[0.0, 0.0], [0.3, 0.2]], dtype=F64), torch.tensor([1e-16, 1e16], dtype=F64))
        value = integrate_chords(density, basis)
        assert value.isfinite().all()
        assert all(t.isfinite().all() for t in torch.autograd.grad(value.sum(), (loc, root)))
        # What is narrow reads the density, or what is wide is read by it.
        if scale == 1.0:
            torch.testing.assert_close(value[0], density.log_peak.exp(), rtol=1e-9, atol=0)
            torch.testing.assert_close(value[1], torch.tensor(1 / (2 * math.pi * 1e16), dtype=F64), rtol=1e-9, atol=0)


def test_vmap_and_compile():
    basis = GaussianRBF.grid(4, 2, variance=0.01, dtype=F64)
    g = torch.Generator().manual_seed(0)
    loc = torch.rand(5, 2, generator=g, dtype=F64)
    root = torch.eye(2, dtype=F64) + 0.3 * torch.rand(5, 2, 2, generator=g, dtype=F64).tril()

    def value(loc: Tensor, root: Tensor) -> Tensor:
        return integrate_chords(BetaGaussian(loc, scale_tril=root, alpha=1.5, validate_args=False), basis)

    expected = value(loc, root)
    torch.testing.assert_close(torch.func.vmap(value)(loc, root), expected, rtol=1e-12, atol=1e-14)
    slopes = torch.func.vmap(torch.func.jacrev(value))(loc, root)
    forward = torch.func.vmap(torch.func.jacfwd(value))(loc, root)
    torch.testing.assert_close(slopes, forward, rtol=1e-10, atol=1e-12)
    compiled = torch.compile(value, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(loc, root), expected, rtol=1e-12, atol=1e-14)


def test_refuses_what_it_cannot():
    basis = GaussianRBF(torch.zeros(1, 2), 1.0)
    assert all(find_order(1 + 1 / m) == m for m in _SHORT)
    assert find_order(1.9) is None and find_order(1.0) is None and find_order(0.5) is None and find_order(3.0) is None
    with pytest.raises(ValueError, match="integrate_chords: needs 2 dimensions"):
        integrate_chords(BetaGaussian(torch.zeros(2), 1.0, alpha=1.9), basis)
    with pytest.raises(ValueError, match="integrate_chords: needs 2 dimensions"):
        integrate_chords(BetaGaussian(torch.zeros(3), 1.0, alpha=2.0), GaussianRBF(torch.zeros(1, 3), 1.0))
