"""Expectations of Gaussian bumps under beta-Gaussians of every alpha, width and shape, against adaptive quadrature.

Errors are in units of the largest value possible, the smaller of the peaks of density and bump.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import mpmath as mp
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import omegamax
from densities.expectations import oracles
from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian, Biweight, Gaussian, Triweight, TruncatedParaboloid

F64 = torch.float64
ALPHAS = [-0.5, 0.5, 0.8, 0.99, 1.0, 1.0001, 1.05, 4 / 3, 1.5, 1.75, 2.0, 2.5, 4.0, 10.0]
STDS = [1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0]
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)
every_alpha_above_half = pytest.mark.parametrize("alpha", ALPHAS[1:])
EPS = torch.finfo(F64).eps
TOLERANCE = 5e-12


@pytest.fixture(params=["auto", "reference"])
def backend(request):
    with omegamax.backend(request.param):
        yield request.param


def tensor(values, dtype: torch.dtype = F64) -> Tensor:
    return torch.tensor(np.asarray(values, dtype=float), dtype=dtype)


def axes_of(alpha: float, semi: Sequence[float]) -> NDArray:
    """The diagonal of a Sigma whose support has these semi-axes; near and below alpha = 1, whose density is so wide."""
    n, e = len(semi), alpha - 1
    if e == 0:
        return np.square(semi)
    unit = np.square(semi) * (e / 2 if e > 0.1 else 1.0)
    h = oracles.shape(alpha, n, sum(mp.log(u) for u in unit)).h
    return unit * (abs(e) * h) ** -(1 + n * e / 2)


@functools.cache
def rotation(n: int, seed: int = 0) -> NDArray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


@functools.cache
def direction(n: int, seed: int = 0) -> NDArray:
    u = np.random.default_rng(100 + seed).normal(size=n)
    return u / np.linalg.norm(u)


def places(semi: Sequence[float], std: float) -> list[NDArray]:
    """Centres of bumps: at the location, inside, about the edge of the support, outside and far away."""
    u = direction(len(semi)) * semi
    outward = u / np.linalg.norm(u) * std
    return [0 * u, 0.6 * u, u - 1.5 * outward, u, u + 0.7 * outward, 1.6 * u, 1.2 * u + 40 * outward]


@functools.cache
def exact(alpha: float, loc: tuple, sigma: tuple, center: tuple, cov: tuple) -> oracles.Expectation:
    return oracles.expectation(alpha, np.array(loc), [list(r) for r in sigma], np.array(center), np.array(cov))


@functools.cache
def exact_gradient(alpha: float, loc: tuple, sigma: tuple, center: tuple, cov: tuple) -> oracles.Gradient:
    return oracles.gradient(alpha, np.array(loc), [list(r) for r in sigma], np.array(center), np.array(cov))


def frozen(t) -> tuple:
    """As nested tuples of numbers."""
    values = t.double().tolist() if isinstance(t, Tensor) else t
    return tuple(frozen(v) if isinstance(v, list | tuple) else v for v in values)


def worst(density: BetaGaussian, basis: GaussianRBF, sigma=None) -> float:
    """The largest error of an expectation, in units of the smaller peak and beyond what inputs to 1e-16 leave open."""
    sigma = frozen(density.scale if sigma is None else sigma)
    found = density.expect(basis)
    assert found.shape == (len(basis),) and found.dtype == density.loc.dtype
    errors = []
    for value, center, cov in zip(found.tolist(), basis.centers, basis.covariance, strict=True):
        wanted = exact(float(density.alpha), frozen(density.loc), sigma, frozen(center), frozen(cov))
        # Centre and edge moved by their rounding errors, in standard deviations of the bump; the edge goes by a power
        # of |Sigma|, and its logarithm may be large.
        stretch = float(density.dilation.log().abs() * (density.dilation * density.scale_diag.max()).sqrt())
        moved = float(torch.maximum(center.abs(), density.loc.abs()).max()) + stretch
        play = EPS * moved / float(cov.double().diagonal().min().sqrt())
        errors.append(abs(value - wanted.value) / wanted.unit - play)
    return max(errors) if not any(map(math.isnan, errors)) else math.nan


# --- The oracle itself


@pytest.mark.parametrize(("center", "std"), [(0.3, 0.2), (1.4, 0.3), (-0.9, 0.05), (0.0, 5.0)])
def test_oracle_agrees_with_the_closed_form_of_the_parabola(center: float, std: float):
    sigma = 0.7
    a, s, c = mp.mpf(1.5 * sigma) ** (mp.mpf(1) / 3), mp.mpf(std), mp.mpf(center)
    mass = mp.ncdf((a - c) / s) - mp.ncdf((-a - c) / s)
    left, right = mp.npdf(-a, c, s), mp.npdf(a, c, s)
    first = c * mass + s**2 * (left - right)
    second = c * first + s**2 * mass - s**2 * (a * right + a * left)
    wanted = 3 / (4 * a) * (mass - second / a**2)
    found = oracles.expectation(2.0, np.zeros(1), [[sigma]], np.array([center]), np.array([[std * std]]))
    assert abs(found.value - wanted) <= 1e-15


@pytest.mark.parametrize("alpha", [0.8, 1.5, 3.0])
def test_oracle_agrees_with_polar_coordinates_in_the_plane(alpha: float):
    sigma, cov = np.array([[1.0, 0.4], [0.4, 0.6]]), np.array([[0.3, -0.1], [-0.1, 0.5]])
    loc, center = np.array([0.2, -0.1]), np.array([0.7, 0.3])
    form = oracles.shape(alpha, 2, mp.log(mp.mpf("0.44")))
    y = np.polynomial.legendre.leggauss(400)
    v, w = (1 + y[0]) / 2, y[1] / 2
    if form.sign > 0:  # (1 - v^6)^power dv flattens the end
        radius, w = np.sqrt(1 - v**6), w * 3 * v**5
        rest = v**6
    else:  # 1 + r^2 = v^-2
        radius, w = np.sqrt(v**-2 - 1), w * v**-3
        rest = v**-2
    angle = 2 * np.pi * np.arange(400) / 400
    disk = np.stack([np.cos(angle), np.sin(angle)], -1)[:, None] * radius[:, None]
    x = loc + math.sqrt(2 * form.h) * disk @ np.linalg.cholesky(sigma).T - center
    q = np.einsum("...i,ij,...j", x, np.linalg.inv(cov), x)
    bump = np.exp(-q / 2) / (2 * np.pi * math.sqrt(np.linalg.det(cov)))
    weights = w * rest**form.power
    wanted = (bump.mean(0) * weights).sum() / weights.sum()
    assert abs(oracles.expectation(alpha, loc, sigma.tolist(), center, cov).value - wanted) <= 1e-13
    assert abs(weights.sum() * 2 * np.pi * form.h * math.sqrt(0.44) * 2 * math.exp(form.log_peak) - 1) <= 1e-12


# --- Values


@every_alpha
@pytest.mark.parametrize("semi", [1e-3, 0.05, 1.0, 100.0])
def test_value_on_the_line(backend: str, alpha: float, semi: float):
    loc = np.array([0.3])
    density = BetaGaussian(tensor(loc), scale_diag=tensor(axes_of(alpha, [semi])), alpha=alpha)
    centers = [loc + c for std in STDS for c in places([semi], std)]
    variances = [std**2 for std in STDS for _ in places([semi], std)]
    assert worst(density, GaussianRBF(tensor(centers), tensor(variances))) <= TOLERANCE


@every_alpha_above_half
@pytest.mark.parametrize("semi", [(1e-3, 3e-3), (0.05, 1.0), (1e-2, 100.0), (1.0, 1.0), (100.0, 30.0)], ids=str)
def test_value_in_the_plane(backend: str, alpha: float, semi: tuple[float, ...]):
    density = BetaGaussian(torch.zeros(2, dtype=F64), scale_diag=tensor(axes_of(alpha, semi)), alpha=alpha)
    stds = [1e-3, 0.1, 10.0]
    centers = [c for std in stds for c in places(semi, std)[:5]]
    variances = [std**2 for std in stds for _ in range(5)]
    assert worst(density, GaussianRBF(tensor(centers), tensor(variances))) <= TOLERANCE


SPACES = [((0.3, 1.0, 2.0), 0.2), ((1e-2, 5.0, 0.4), 1.5), ((20.0, 0.1, 1.0), 0.02)]


@pytest.mark.parametrize(
    ("alpha", "case"), [(0.8, 0), (1.0, 1), (1.05, 1), (4 / 3, 2), (1.5, 2), (2.0, 0), (4.0, 1), (10.0, 0)]
)
def test_value_in_space(backend: str, alpha: float, case: int):
    semi, std = SPACES[case]
    density = BetaGaussian(torch.zeros(3, dtype=F64), scale_diag=tensor(axes_of(alpha, semi)), alpha=alpha)
    assert worst(density, GaussianRBF(tensor(places(semi, std)[1:4:2]), std**2)) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.0001, 1.05, 4 / 3, 1.5, 1.75, 2.0, 2.5, 4.0, 10.0])
@pytest.mark.parametrize("case", range(3))
def test_value_everywhere_in_space(alpha: float, case: int):
    semi, std = SPACES[case]
    density = BetaGaussian(torch.zeros(3, dtype=F64), scale_diag=tensor(axes_of(alpha, semi)), alpha=alpha)
    for factor in (0.02, 1.0, 30.0):
        bumps = GaussianRBF(tensor(places(semi, factor * std)[:5]), (factor * std) ** 2)
        assert worst(density, bumps) <= TOLERANCE


@every_alpha_above_half
@pytest.mark.parametrize("n", [5, 8])
def test_value_of_round_bumps_under_round_densities(backend: str, alpha: float, n: int):
    if alpha <= 1 - 2 / n:
        alpha = 1 - 1 / n
    for semi in (1e-3, 0.2, 50.0):
        density = BetaGaussian(torch.zeros(n, dtype=F64), float(axes_of(alpha, [semi] * n)[0]), alpha=alpha)
        for std in (1e-3, 0.1, 10.0):
            assert worst(density, GaussianRBF(tensor(places([semi] * n, std)[:5]), std**2)) <= TOLERANCE


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 2.5])
@pytest.mark.parametrize("condition", [1.0, 1e2, 1e4, 1e6, 1e8])
def test_value_of_rotated_ellipses(backend: str, alpha: float, condition: float):
    check_rotated(alpha, [1.0, condition**-0.5])


@pytest.mark.parametrize(("alpha", "condition"), [(0.8, 10.0), (1.0, 1e8), (1.5, 1e8), (4.0, 1e4)])
def test_value_of_rotated_ellipsoids(backend: str, alpha: float, condition: float):
    check_rotated(alpha, [1.0, condition**-0.2, condition**-0.5])


def check_rotated(alpha: float, semi: list[float]) -> None:
    n, thin = len(semi), semi[0] / semi[-1]
    turn, other = rotation(n), rotation(n, seed=1)
    axes = axes_of(alpha, semi)
    full = (turn * axes) @ turn.T
    covs = np.stack([(other * 0.3 ** np.arange(2, 2 + n)) @ other.T, (turn * 0.09 * np.array(semi)) @ turn.T])
    centers = [turn @ (semi * direction(n, seed=k)) * r for k, r in enumerate((0.4, 0.9))]
    bumps = GaussianRBF(tensor(centers), tensor((covs + covs.swapaxes(-1, -2)) / 2))
    round_bumps = GaussianRBF(bumps.centers[1:], 0.04)
    loc = torch.zeros(n, dtype=F64)
    density = BetaGaussian(loc, tensor((full + full.T) / 2), alpha=alpha)
    for basis in (bumps, round_bumps):  # the rounding of its entries moves the smallest eigenvalue of Sigma by so much
        assert worst(density, basis) <= TOLERANCE + 4 * EPS * thin**2
    root = np.linalg.qr((turn * np.sqrt(axes)).T)[1].T
    root = mp.matrix((root * np.sign(np.diag(root))).tolist())
    density = BetaGaussian(loc, scale_tril=tensor(root.tolist()), alpha=alpha)
    for basis in (bumps, round_bumps):  # and that of the entries of its root by the square root of it
        assert worst(density, basis, (root * root.T).tolist()) <= TOLERANCE + 4 * EPS * thin


@pytest.mark.parametrize("alpha", [1.05, 1.5, 2.0, 2.5, 4.0, 10.0])
@pytest.mark.parametrize("n", [1, 2, 8])
def test_value_of_narrow_bumps_at_the_edge(backend: str, alpha: float, n: int):
    semi = float(BetaGaussian(torch.zeros(n, dtype=F64), 1.0, alpha=alpha).support_radius)
    density = BetaGaussian(torch.zeros(n, dtype=F64), 1.0, alpha=alpha)
    for ratio in (1e-3, 1e-4, 1e-5, 1e-6):
        centers = np.zeros((9, n))
        centers[:, 0] = semi * (1 + ratio * np.linspace(-4, 4, 9))
        assert worst(density, GaussianRBF(tensor(centers), (semi * ratio) ** 2)) <= TOLERANCE


@pytest.mark.parametrize(
    ("n", "alpha"), [(1, -0.95), (1, -0.8), (2, 0.05), (3, 0.35), (3, 0.5), (5, 0.62), (8, 0.76), (8, 0.8)]
)
def test_value_under_the_heaviest_tails(backend: str, n: int, alpha: float):
    density = BetaGaussian(torch.zeros(n, dtype=F64), float(axes_of(alpha, [1.0] * n)[0]), alpha=alpha)
    for std in (1e-2, 1.0, 1e2, 1e4, 1e6):
        centers = np.zeros((3, n))
        centers[:, 0] = [0.0, 1.0, 1e3]
        assert worst(density, GaussianRBF(tensor(centers), std**2)) <= TOLERANCE


@every_alpha
def test_value_far_away_is_nothing_with_no_gradient(backend: str, alpha: float):
    loc = torch.zeros(1, dtype=F64, requires_grad=True)
    sigma = torch.ones(1, dtype=F64, requires_grad=True)
    order = torch.tensor(alpha, dtype=F64, requires_grad=True)
    centers = tensor([[s * 10.0**k] for k in range(2, 9) for s in (-1, 1)])
    for std in (1e-6, 1e-3, 1.0):
        density = BetaGaussian(loc, scale_diag=sigma, alpha=order)
        value = density.expect(GaussianRBF(centers, std**2, normalised=False))
        gradients = torch.autograd.grad(value.sum(), (loc, sigma, order))
        assert value.isfinite().all() and all(g.isfinite().all() for g in gradients)
        if alpha >= 1:
            assert (value == 0).all() and all(g == 0 for g in gradients)
        else:  # a bump this narrow reads the density
            wanted = density.prob(centers) * std * math.sqrt(2 * math.pi)
            assert (value >= 0).all()
            assert (value - wanted).abs().max() <= 1e-3 * std**2 * wanted.max() + 1e-12 * std


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 2.0, 2.5, 4.0])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_value_tends_to_the_density_and_to_the_bump(backend: str, alpha: float, n: int):
    sigma = tensor((rotation(n) * np.geomspace(0.5, 2.0, n)) @ rotation(n).T)
    density = BetaGaussian(torch.full((n,), 0.25, dtype=F64), sigma, alpha=alpha)
    points = density.loc + tensor(np.stack([0.2 * direction(n, seed=k) for k in range(4)]))
    assert (density.expect(GaussianRBF(points, 1e-14)) - density.prob(points)).abs().max() <= 1e-12
    assert (density.expect(GaussianRBF(points, 1e14, normalised=False)) - 1).abs().max() <= 1e-12


# --- Derivatives


def gradients(alpha: float, loc: NDArray, sigma: NDArray, basis: GaussianRBF) -> list[oracles.Gradient]:
    """Of each expectation in turn, as the library has them."""
    inputs = [tensor(loc), tensor(sigma), torch.tensor(alpha, dtype=F64)]
    value = lambda loc, sigma, alpha: BetaGaussian(loc, sigma, alpha=alpha).expect(basis)  # noqa: E731
    parts = torch.autograd.functional.jacobian(value, tuple(inputs))
    return [oracles.Gradient(*(p[j].numpy() for p in parts)) for j in range(len(basis))]


def check_gradients(alpha: float, loc: NDArray, sigma: NDArray, basis: GaussianRBF, tolerance: float) -> None:
    """For a move by the width of the density and for a relative change of Sigma, in units of gradient or peak."""
    e = alpha - 1
    c = abs(e) * oracles.shape(alpha, len(loc), mp.log(np.linalg.det(sigma))).h if e else 1.0
    root = np.linalg.cholesky(sigma)
    relative = {"loc": lambda g: math.sqrt(c) * root.T @ g, "sigma": lambda g: root.T @ g @ root, "alpha": np.asarray}
    for j, found in enumerate(gradients(alpha, loc, sigma, basis)):
        pair = frozen([loc.tolist(), sigma.tolist(), basis.centers[j].tolist(), basis.covariance[j].tolist()])
        wanted, unit = exact_gradient(alpha, *pair), exact(alpha, *pair).unit
        for key, scaled in relative.items():
            ours, theirs = (scaled(getattr(g, key)) for g in (found, wanted))
            allowed = max(tolerance, 1e-8) if key == "alpha" and alpha == 1 else tolerance
            assert np.abs(ours - theirs).max() <= allowed * max(unit, np.abs(theirs).max()), key


@pytest.mark.parametrize("alpha", [-0.5, 0.5, 1.0, 1.2, 4 / 3, 1.5, 2.0, 2.5, 10.0])
@pytest.mark.parametrize("semi", [0.05, 1.0, 100.0])
def test_gradient_on_the_line_is_the_covariance_under_the_escort(backend: str, alpha: float, semi: float):
    centers = np.concatenate([places([semi], std)[:5] for std in (0.01, 0.3, 10.0)])
    basis = GaussianRBF(tensor(centers), tensor(np.repeat([0.01, 0.3, 10.0], 5) ** 2))
    check_gradients(alpha, np.zeros(1), np.diag(axes_of(alpha, [semi])), basis, 1e-10)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 4 / 3, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("semi", [(1.0, 1.0), (0.3, 2.0), (1e-2, 1.0)], ids=str)
def test_gradient_in_the_plane_is_the_covariance_under_the_escort(backend: str, alpha: float, semi: tuple[float, ...]):
    turn = rotation(2)
    sigma = (turn * axes_of(alpha, semi)) @ turn.T
    sigma = (sigma + sigma.T) / 2
    centers = np.array([turn @ c for c in (places(semi, 0.3)[0], places(semi, 0.3)[1], places(semi, 0.1)[3])])
    round_basis = GaussianRBF(tensor(centers), tensor([0.09, 0.25, 0.01]))
    tolerance = 1e-11 + 4 * EPS * (max(semi) / min(semi)) ** 2
    check_gradients(alpha, np.zeros(2), sigma, round_basis, tolerance)
    covs = [(rotation(2, k) * 0.1 * np.array([1.0, 0.2 * k])) @ rotation(2, k).T for k in (1, 2, 3)]
    basis = GaussianRBF(tensor(centers), tensor([(c + c.T) / 2 for c in covs]))
    check_gradients(alpha, np.zeros(2), sigma, basis, tolerance)


@pytest.mark.parametrize(("alpha", "semi"), [(1.0, (0.5, 0.5, 2.0)), (1.5, (1.0, 1.0, 1.0)), (2.5, (0.5, 0.5, 2.0))])
def test_gradient_in_space_is_the_covariance_under_the_escort(backend: str, alpha: float, semi: tuple[float, ...]):
    turn = rotation(3)
    sigma = (turn * axes_of(alpha, semi)) @ turn.T if min(semi) != max(semi) else np.diag(axes_of(alpha, semi))
    center = turn @ places(semi, 0.3)[1]
    check_gradients(alpha, np.zeros(3), (sigma + sigma.T) / 2, GaussianRBF(tensor([center]), 0.2), 1e-10)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("alpha", [0.9, 1.5])
def test_gradient_where_eigenvalues_meet(backend: str, n: int, alpha: float):
    """There the axes turn freely; what the value sees of it is smooth."""
    basis = GaussianRBF(tensor([0.4 * direction(n), 0 * direction(n)]), 0.3)
    loc = torch.zeros(n, dtype=F64)

    def value(sigma: Tensor) -> Tensor:
        return BetaGaussian(loc, sigma, alpha=alpha).expect(basis)

    equal = torch.eye(n, dtype=F64, requires_grad=True)
    jacobian = torch.autograd.functional.jacobian(value, equal)
    assert jacobian.isfinite().all()
    nearly = equal.detach() + 1e-9 * tensor(rotation(n) + rotation(n).T)
    assert (torch.autograd.functional.jacobian(value, nearly) - jacobian).abs().max() <= 1e-7
    assert (value(nearly) - value(equal)).abs().max() <= 1e-8
    assert gradcheck(value, equal, atol=1e-8, fast_mode=True)
    assert gradgradcheck(value, equal, atol=1e-7, fast_mode=True)


def slope(value, at: float, step: float = 2e-3) -> float:
    """The derivative by differences, of order six."""
    d = [(value(at + h) - value(at - h)) / (2 * h) for h in (step, step / 2, step / 4)]
    return (64 * d[2] - 20 * d[1] + d[0]) / 45


OFFSETS = [0.0, 1e-12, 1e-8, -1e-5, 9.99e-5, -9.99e-5, 1.01e-4, -1.01e-4, 1e-3, -1e-3]


@pytest.mark.parametrize(("n", "scale"), [(1, 1.0), (1, 100.0), (2, 0.01)])
@pytest.mark.parametrize("place", [0.0, 1.3])
def test_value_and_derivative_run_smoothly_through_alpha_one(backend: str, n: int, scale: float, place: float):
    """Wherever the library changes from one integral to another."""
    loc, sigma = np.zeros(n), scale**2 * np.diag(np.linspace(1, 1.7, n))
    basis = GaussianRBF(tensor([place * scale * direction(n)]), 0.2 * scale**2)
    pair = frozen([loc.tolist(), sigma.tolist(), basis.centers[0].tolist(), basis.covariance[0].tolist()])

    def wanted(alpha: float) -> float:
        return exact(alpha, *pair).value

    unit = exact(1.0, *pair).unit
    assert abs(slope(wanted, 1.0) - exact_gradient(1.0, *pair).alpha) <= 1e-10 * max(unit, abs(slope(wanted, 1.0)))
    for offset in OFFSETS:
        alpha = torch.tensor(1 + offset, dtype=F64, requires_grad=True)
        value = BetaGaussian(tensor(loc), tensor(sigma), alpha=alpha).expect(basis)[0]
        number = BetaGaussian(tensor(loc), tensor(sigma), alpha=1 + offset).expect(basis)[0]
        assert abs(value.item() - wanted(1 + offset)) <= 1e-11 * unit, offset
        assert abs(number.item() - value.item()) <= 1e-12 * unit, offset
        (found,) = torch.autograd.grad(value, alpha)
        right = slope(wanted, 1 + offset)
        assert abs(found.item() - right) <= 1e-8 * max(unit, abs(right)), offset


MIXED = [0.7, 0.99995, 1.0, 1.00003, 1.3, 2.0, 3.5]


def mixed_inputs(n: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(3)
    loc = 0.3 * torch.randn(len(MIXED), n, dtype=F64)
    root = 0.2 * torch.randn(len(MIXED), n, n, dtype=F64)
    sigma = root @ root.mT + 0.5 * torch.eye(n, dtype=F64)
    return loc.requires_grad_(), sigma.requires_grad_(), tensor(MIXED).requires_grad_()


@pytest.mark.parametrize(
    ("backend", "n", "bumps"),
    [("auto", 1, "round"), ("reference", 1, "round"), ("auto", 2, "round"), ("auto", 2, "full"), ("auto", 3, "full")],
    indirect=["backend"],
)
def test_first_and_second_derivatives_match_finite_differences(backend: str, n: int, bumps: str):
    full = tensor([(rotation(n, 1) * np.linspace(0.1, 0.4, n)) @ rotation(n, 1).T])
    basis = GaussianRBF(tensor([0.5 * direction(n)]), 0.2 if bumps == "round" else (full + full.mT) / 2)
    inputs = mixed_inputs(n)

    def value(loc: Tensor, sigma: Tensor, alpha: Tensor) -> Tensor:
        return BetaGaussian(loc, sigma, alpha=alpha).expect(basis)

    assert gradcheck(value, inputs, atol=1e-8, rtol=1e-6, fast_mode=True)
    # Near alpha = 1, where the slope in alpha is a difference over 1e-4, a smaller step would see its rounding.
    assert gradgradcheck(value, inputs, eps=1e-5, atol=1e-6, rtol=1e-5, fast_mode=True)


@pytest.mark.parametrize("alpha", [0.6, 1.0, 1.5, 3.0])
def test_derivatives_for_a_scalar_alpha_match_finite_differences(backend: str, alpha: float):
    basis = GaussianRBF(tensor([[0.3, 0.1]]), 0.05)
    loc, sigma, _ = (t[:1].detach() for t in mixed_inputs(2))

    def value(loc: Tensor, root: Tensor) -> Tensor:
        return BetaGaussian(loc, scale_tril=root.tril(), alpha=alpha).expect(basis)

    inputs = (loc.requires_grad_(), torch.linalg.cholesky(sigma).requires_grad_())
    assert gradcheck(value, inputs, atol=1e-8, rtol=1e-6, check_batched_grad=True)
    assert gradgradcheck(value, inputs, atol=1e-7, rtol=1e-5, fast_mode=True)


# --- Calls


@pytest.mark.parametrize("alpha", [-0.5, 0.8, 1.0, 1.00003, 4 / 3, 2.0, 4.0])
@pytest.mark.parametrize("n", [1, 2])
def test_single_precision_is_right_to_single_precision(backend: str, alpha: float, n: int):
    if n == 2 and alpha < 0:
        return
    for semi in ([0.01, 0.03], [1.0, 0.1], [30.0, 50.0]):
        axes = axes_of(alpha, semi[:n])
        if min(axes) < 1e-30:
            continue
        density = BetaGaussian(torch.full((n,), 0.5), scale_diag=tensor(axes, torch.float32), alpha=alpha)
        for std in (0.01, 0.3, 10.0):
            centers = 0.5 + tensor(places(semi[:n], std)[:5], torch.float32)
            sigma = torch.diag(density._root.values.double().square())  # the root of what was given is rounded again
            assert worst(density, GaussianRBF(centers, std**2), sigma) <= 1e-5


def test_single_precision_survives_a_thin_ellipse():
    turn = rotation(2)
    sigma = tensor((turn * np.array([1.0, 1e-3])) @ turn.T, torch.float32)
    basis = GaussianRBF(tensor([[0.1, 0.2]], torch.float32), 0.05)
    for alpha in (0.8, 1.0, 1.5, 2.0):
        assert worst(BetaGaussian(torch.zeros(2), sigma, alpha=alpha), basis, (sigma + sigma.T) / 2) <= 1e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype: torch.dtype):
    loc, sigma = torch.tensor([0.25, 0.5], dtype=dtype), torch.tensor([[1.0, 0.5], [0.5, 2.0]], dtype=dtype)
    basis = GaussianRBF.grid(3, 2, variance=0.125)
    for alpha in (0.75, 1.0, 1.5, torch.tensor(2.0, dtype=dtype)):
        value = BetaGaussian(loc, sigma, alpha=alpha).expect(basis)
        wanted = BetaGaussian(loc.double(), sigma.double(), alpha=float(alpha)).expect(basis)
        assert value.dtype == torch.float32
        assert (value - wanted).abs().max() <= 1e-6


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 2.0])
def test_batches_are_one_call_for_each(backend: str, alpha: float):
    basis = GaussianRBF.grid(2, 2, variance=[0.02, 0.3], dtype=F64)
    torch.manual_seed(1)
    for batch in ((), (3,), (2, 3), (0,), (2, 0)):
        loc = torch.rand(*batch, 2, dtype=F64)
        root = torch.randn(*batch, 2, 2, dtype=F64)
        sigma = root @ root.mT + torch.eye(2, dtype=F64)
        value = BetaGaussian(loc, sigma, alpha=alpha).expect(basis)
        assert value.shape == (*batch, 8)
        rows = zip(loc.reshape(-1, 2), sigma.reshape(-1, 2, 2), strict=True)
        singly = [BetaGaussian(m, s, alpha=alpha).expect(basis) for m, s in rows]
        if singly:
            assert (value.reshape(-1, 8) - torch.stack(singly)).abs().max() <= 1e-14


def test_parameters_broadcast(backend: str):
    basis = GaussianRBF.grid(2, 2, variance=0.1, dtype=F64)
    loc, sigma = torch.rand(4, 1, 1, 2, dtype=F64), torch.rand(3, 1, 1, 1, dtype=F64) + 0.2
    alpha = tensor([0.7, 1.0, 1.00001, 1.5, 2.5])
    value = BetaGaussian(loc, sigma, alpha=alpha).expect(basis)
    assert value.shape == (4, 3, 5, 4)
    for i, j, k in ((0, 0, 0), (3, 2, 1), (1, 1, 2), (2, 0, 3), (0, 2, 4)):
        single = BetaGaussian(loc[i, 0, 0], float(sigma[j]), alpha=float(alpha[k])).expect(basis)
        assert (value[i, j, k] - single).abs().max() <= 1e-14
    expanded = BetaGaussian(loc[0, 0, 0], 0.5, alpha=1.5).expand([2, 3])
    assert torch.equal(expanded.expect(basis), BetaGaussian(loc[0, 0, 0], 0.5, alpha=1.5).expect(basis).expand(2, 3, 4))


def test_members_are_beta_gaussians(backend: str):
    loc, sigma = tensor([0.2, 0.6]), tensor([[0.3, 0.1], [0.1, 0.2]])
    basis = GaussianRBF.grid(3, 2, variance=0.02, dtype=F64)
    for member, alpha in ((Gaussian, 1.0), (Triweight, 4 / 3), (Biweight, 1.5), (TruncatedParaboloid, 2.0)):
        assert torch.equal(member(loc, sigma).expect(basis), BetaGaussian(loc, sigma, alpha=alpha).expect(basis))


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_unnormalised_bumps_have_peak_one(backend: str, alpha: float, n: int):
    covs = tensor(np.stack([(rotation(n, k) * np.linspace(0.1, 0.4, n)) @ rotation(n, k).T for k in range(2)]))
    centers = tensor([0.3 * direction(n), 0.8 * direction(n, 1)])
    density = BetaGaussian(torch.zeros(n, dtype=F64), 0.7, alpha=alpha)
    for scale in (0.3, (covs + covs.mT) / 2):
        plain, peaked = (density.expect(GaussianRBF(centers, scale, normalised)) for normalised in (True, False))
        covariance = GaussianRBF(centers, scale).covariance
        assert (peaked - plain * torch.linalg.det(2 * math.pi * covariance).sqrt()).abs().max() <= 1e-14


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.00003, 1.5, 4.0])
@pytest.mark.parametrize("n", [2, 3])
def test_forms_of_the_covariance_agree(backend: str, alpha: float, n: int):
    sigma = tensor((rotation(n) * np.geomspace(0.2, 3.0, n)) @ rotation(n).T)
    density = BetaGaussian(torch.zeros(n, dtype=F64), (sigma + sigma.T) / 2, alpha=alpha)
    centers = tensor([0.3 * direction(n), 0.9 * direction(n, 1), 0 * direction(n)])
    diagonal = tensor([[0.3] * n, [0.05] * n, np.linspace(0.1, 0.4, n)])
    nearly = torch.diag_embed(diagonal) + 1e-30 * (1 - torch.eye(n, dtype=F64))  # diagonal, but not to be seen as such
    value = density.expect(GaussianRBF(centers, diagonal))
    assert GaussianRBF(centers, nearly).covariance.shape == (3, n, n)
    assert (density.expect(GaussianRBF(centers, nearly)) - value).abs().max() <= 1e-14
    round_value = density.expect(GaussianRBF(centers[:2], tensor([0.3, 0.05])))
    assert (round_value - value[:2]).abs().max() <= 1e-14
    one = density.expect(GaussianRBF(centers, 0.3))
    assert (one[0] - value[0]).abs() <= 1e-14
    turned = BetaGaussian(density.loc, scale_tril=density.scale_tril, alpha=alpha)
    assert (turned.expect(GaussianRBF(centers, diagonal)) - value).abs().max() <= 1e-14


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 2.0])
def test_two_calls_before_one_backward(backend: str, alpha: float):
    basis, other = GaussianRBF.grid(3, 1, variance=0.02, dtype=F64), GaussianRBF.grid(4, 1, variance=0.1, dtype=F64)

    def leaves() -> tuple[Tensor, Tensor]:
        return tensor([0.4]).requires_grad_(), tensor([0.3]).requires_grad_()

    alone = []
    for b, factor in ((basis, 1.0), (other, 2.0)):
        loc, sigma = leaves()
        (factor * BetaGaussian(loc, scale_diag=sigma, alpha=alpha).expect(b)).sum().backward()
        alone.append((loc.grad, sigma.grad))
    loc, sigma = leaves()
    first = BetaGaussian(loc, scale_diag=sigma, alpha=alpha).expect(basis)
    second = BetaGaussian(loc, scale_diag=sigma, alpha=alpha).expect(other)
    (first.sum() + 2 * second.sum()).backward()
    assert (loc.grad - alone[0][0] - alone[1][0]).abs().max() <= 1e-14
    assert (sigma.grad - alone[0][1] - alone[1][1]).abs().max() <= 1e-14
    density = BetaGaussian(loc, scale_diag=sigma, alpha=alpha)
    assert torch.equal(density.expect(basis), density.expect(basis))


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.00003, 1.75, 2.0])
def test_function_transforms(backend: str, alpha: float):
    basis = GaussianRBF.grid(2, 2, variance=0.1, dtype=F64)
    locs = torch.rand(5, 2, dtype=F64)
    sigma = tensor([[0.4, 0.1], [0.1, 0.2]])

    def value(loc: Tensor) -> Tensor:
        return BetaGaussian(loc, sigma, alpha=alpha).expect(basis)

    mapped = torch.func.vmap(value)(locs)
    assert (mapped - value(locs)).abs().max() <= 1e-14
    jacobian = torch.func.vmap(torch.func.jacrev(value))(locs)
    wanted = torch.stack([torch.autograd.functional.jacobian(value, loc) for loc in locs])
    assert (jacobian - wanted).abs().max() <= 1e-14
    gradient = torch.func.grad(lambda loc: value(loc).sum())(locs[0])
    assert (gradient - wanted[0].sum(0)).abs().max() <= 1e-14
    assert (torch.func.jacfwd(value)(locs[0]) - wanted[0]).abs().max() <= 1e-13
    hessian = torch.func.hessian(lambda loc: value(loc).sum())(locs[0])
    assert (hessian - torch.autograd.functional.hessian(lambda loc: value(loc).sum(), locs[0])).abs().max() <= 1e-12


def test_alpha_can_be_mapped_over(backend: str):
    basis = GaussianRBF.grid(2, 1, variance=0.1, dtype=F64)
    alphas = tensor(MIXED)
    loc = tensor([0.3])

    def value(alpha: Tensor) -> Tensor:
        return BetaGaussian(loc, 0.5, alpha=alpha).expect(basis)

    one_by_one = torch.stack([value(float(a)) for a in alphas])
    assert (torch.func.vmap(value)(alphas) - one_by_one).abs().max() <= 1e-13
    slopes = torch.func.vmap(torch.func.jacrev(value))(alphas)
    leaf = alphas.clone().requires_grad_()
    # Next to alpha = 1 slopes are differences over 1e-4.
    assert (slopes.sum(-1) - torch.autograd.grad(value(leaf).sum(), leaf)[0]).abs().max() <= 1e-10


# --- Compilers

WARNINGS = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")


@pytest.fixture
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def check_compiled(alphas: list[float | list[float]], tolerance: float, **options) -> None:
    basis = GaussianRBF.grid(3, 2, variance=0.05, dtype=F64)
    orders = [alpha if isinstance(alpha, float) else tensor(alpha) for alpha in alphas]

    def value(loc: Tensor, sigma: Tensor) -> Tensor:
        return 2 * torch.stack([BetaGaussian(loc, sigma, alpha=order).expect(basis) for order in orders])

    compiled = torch.compile(value, fullgraph=True, **options)
    results = []
    for f in (value, compiled):
        torch.manual_seed(0)
        loc = torch.rand(3, 2, dtype=F64, requires_grad=True)
        sigma = (0.2 * torch.eye(2, dtype=F64) + 0.1).expand(3, 2, 2).clone().requires_grad_()
        found = f(loc, sigma)
        gradients = [torch.autograd.grad(x.square().sum(), (loc, sigma), retain_graph=True) for x in found]
        results.append((found, *(torch.stack(each) for each in zip(*gradients, strict=True))))
    for eager, other in zip(*results, strict=True):
        assert (eager - other).abs().max() <= tolerance


@WARNINGS
@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 1.75, [0.8, 1.0, 1.5]], ids=str)
def test_compiled_call_equals_eager(fresh_compiler, alpha: float | list[float]):
    check_compiled([alpha], 1e-12, backend="eager" if alpha in (0.8, 1.5) else "aot_eager")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.inductor
@WARNINGS
def test_inductor_code_equals_eager(fresh_compiler):
    """All alphas in one graph: one after another they would be much the same C++, compiled again for a minute."""
    check_compiled([0.8, 1.0, 1.5, 2.0, [0.8, 1.0, 1.5]], 1e-11)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_expectations_may_be_changed_in_place(n, alpha):
    loc, scale = torch.rand(2, n, requires_grad=True), (0.1 * torch.eye(n).expand(2, n, n)).requires_grad_()
    basis = GaussianRBF.grid(3, n, 0.1)
    wanted = torch.autograd.grad(2 * BetaGaussian(loc, scale, alpha=alpha).expect(basis).sum(), (loc, scale))
    found = torch.autograd.grad(BetaGaussian(loc, scale, alpha=alpha).expect(basis).mul_(2).sum(), (loc, scale))
    torch.testing.assert_close(found, wanted)
