"""Basis functions under the beta-Laplace family and location-scale densities, against quadrature."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from densities.expectations import line_oracle
from omegamax.basis import Fourier, GaussianRBF, Polynomial
from omegamax.densities import BetaGaussian, BetaLaplace, Laplace, LocationScale, Triangular

F64 = torch.float64
ALPHAS = [0.2, 0.5, 0.9, 1.0, 1.01, 1.5, 2.0, 2.5, 10.0]
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)


def scale_of(alpha: float, unit: float) -> float:
    """b for the density whose logarithm has, on each side of the peak, the slope 1 / unit."""
    return (unit * (2 / alpha) ** ((alpha - 1) / alpha)) ** alpha


def places(reach: float, std: float) -> list[float]:
    inside = [x * reach for x in (0.0, 0.3, -0.9, 1.0, 1.1)]
    return inside + [reach + k * std for k in (-9.0, -2.0, 5.0, 9.0)] + [-0.9 * std, 8.0 * std]


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e3])
@every_alpha
def test_gaussian_functions(alpha: float, unit: float):
    scale = torch.tensor([scale_of(alpha, unit)], dtype=F64, requires_grad=True)
    loc, index = torch.zeros(1, dtype=F64, requires_grad=True), torch.tensor(alpha, dtype=F64)
    line = line_oracle.beta_laplace(alpha, 0.0, scale.item())
    reach = min(line.radius, 5 * unit)
    for std in (1e-3, 0.1, 1e2):
        centers = places(reach, std)
        basis = GaussianRBF(torch.tensor(centers, dtype=F64)[:, None], std**2)
        value = BetaLaplace(loc, scale, alpha).expect(basis)
        assert (BetaLaplace(loc, scale, index).expect(basis) - value).abs().max() <= 1e-11 * max(1.0, 1 / std)
        for j, center in enumerate(centers):
            exact, moved, grown = line.expect(line_oracle.gaussian(center, std))
            assert abs(value[j].item() - exact) <= 1e-10
            dloc, dscale = torch.autograd.grad(value[j], (loc, scale), retain_graph=True)
            # Relative to the largest that these can be; distances grow as b^(1 / alpha).
            assert abs(dloc.item() - moved) * std * max(std, reach) <= 1e-10
            assert abs((dscale * scale).item() - grown / alpha) * std <= 1e-10


@pytest.mark.parametrize("alpha", [0.3, 0.8, 0.999, 1.0, 1.001, 1.3, 2.0, 3.0])
def test_gradient_in_alpha(alpha: float):
    index = torch.tensor(alpha, dtype=F64, requires_grad=True)
    for center, std in ((0.0, 0.05), (0.4, 0.1), (1.0, 0.01), (0.7, 2.0), (-6.0, 0.8)):
        basis = GaussianRBF(torch.tensor([[center]], dtype=F64), std**2)
        value = BetaLaplace(torch.zeros(1, dtype=F64), 0.8, index).expect(basis)

        def exact(a: float) -> float:
            return line_oracle.beta_laplace(a, 0.0, 0.8).expect(line_oracle.gaussian(center, std))[0]  # noqa: B023

        step = 2e-3 if abs(alpha - 1) > 0.1 else 0.0123  # the textbook's form is inaccurate close to 1
        slope = line_oracle.derivative(exact, alpha, step)
        assert abs(torch.autograd.grad(value.sum(), index)[0].item() - slope) <= (1e-8 if step > 2e-3 else 1e-9)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0, 5.0])
def test_gradcheck(alpha: float):
    loc = torch.tensor([[0.0], [0.4], [1.3]], dtype=F64, requires_grad=True)
    scale = torch.tensor([[0.5], [1.3], [0.03]], dtype=F64, requires_grad=True)
    index = torch.full((3,), alpha, dtype=F64, requires_grad=True)
    centers = torch.tensor([[0.0], [0.4], [0.5]], dtype=F64)
    basis = GaussianRBF(centers, torch.tensor([0.3, 2.0, 1e-3]))
    assert gradcheck(lambda *p: BetaLaplace(*p).expect(basis), (loc, scale, index))
    assert gradgradcheck(lambda *p: BetaLaplace(*p).expect(basis), (loc, scale, index))
    if alpha in (1.0, 2.0):  # the closed forms
        assert gradcheck(lambda *p: BetaLaplace(*p, alpha).expect(basis), (loc, scale))
        assert gradgradcheck(lambda *p: BetaLaplace(*p, alpha).expect(basis), (loc, scale))


def test_mixed_alphas_are_each_alone():
    alpha = torch.tensor([0.4, 1.0, 1.5, 3.0], dtype=F64)
    loc, scale = torch.randn(2, 4, 1, dtype=F64), torch.rand(4, 1, dtype=F64) + 0.1
    basis = GaussianRBF(torch.tensor([[0.0], [5.0], [-0.5]], dtype=F64), torch.tensor([0.01, 4.0, 1e-4]))
    value = BetaLaplace(loc, scale, alpha).expect(basis)
    assert value.shape == (2, 4, 3)
    for i, a in enumerate(alpha.tolist()):
        assert torch.allclose(value[:, i], BetaLaplace(loc[:, i], scale[i], a).expect(basis), rtol=0, atol=1e-12)


def test_named_members_single_precision_and_hostile_input():
    loc, scale = torch.tensor([[0.2]]), torch.tensor([[0.3]])
    basis = GaussianRBF(torch.linspace(-1, 1, 9)[:, None], 0.01, normalised=False)
    wide = GaussianRBF(basis.centers.double(), 0.01, normalised=False)
    for cls in (Laplace, Triangular):
        value = cls(loc, scale).expect(basis)
        assert value.dtype == torch.float32
        assert (value - cls(loc.double(), scale.double()).expect(wide)).abs().max() <= 1e-5
    loc = torch.tensor([0.0, 1e8, 0.0, 0.0], dtype=F64)[:, None].requires_grad_()
    scale = torch.tensor([1e-8, 1.0, 1e8, 1.0], dtype=F64)[:, None].requires_grad_()
    basis = GaussianRBF(torch.tensor([[0.0], [1e9], [1.0]], dtype=F64), torch.tensor([1e-12, 1e12, 1e-2]))
    for alpha in (0.4, 1.0, 1.5, 2.0, 7.0):
        value = BetaLaplace(loc, scale, alpha).expect(basis)
        grads = torch.autograd.grad(value.sum(), (loc, scale))
        assert all(bool(t.isfinite().all()) for t in (value, *grads)) and (value >= -1e-12).all()
    far = BetaLaplace(torch.zeros(1), 1.0, 1.5).expect(GaussianRBF(torch.tensor([[50.0]]), 0.01))
    assert torch.equal(far, torch.zeros(1))


def test_vmap_compile_and_two_forwards():
    basis = GaussianRBF(torch.tensor([[0.0], [0.7], [3.0]], dtype=F64), torch.tensor([0.01, 1.0, 0.1]))
    loc, scale = torch.randn(4, 1, dtype=F64), torch.rand(4, 1, dtype=F64) + 0.2
    for alpha in (torch.tensor([0.5, 1.0, 1.5, 2.0], dtype=F64), 1.0, 2.0):
        each = isinstance(alpha, Tensor) and alpha.dim() == 1

        def value(loc: Tensor, scale: Tensor, alpha: float | Tensor = alpha) -> Tensor:
            return BetaLaplace(loc, scale, alpha, validate_args=False).expect(basis)

        exact = value(loc, scale)
        mapped = torch.vmap(value)(loc, scale, alpha) if each else torch.vmap(value)(loc, scale)
        assert torch.allclose(mapped, exact, rtol=0, atol=1e-12)
        torch._dynamo.reset()
        compiled = torch.compile(value, backend="eager", fullgraph=True)
        assert torch.allclose(compiled(loc, scale), exact, rtol=0, atol=1e-12)
    a, b = loc.clone().requires_grad_(), loc.clone().requires_grad_()
    first, second = value(a, scale), value(b, 3 * scale)
    second.sum().backward()
    first.sum().backward()
    alone = loc.clone().requires_grad_()
    value(alone, scale).sum().backward()
    assert torch.equal(a.grad, alone.grad) and not torch.equal(b.grad, alone.grad)


FAMILIES = {
    "cosh": (lambda s: s.cosh(), np.cosh, np.sinh),
    "parabola": (lambda s: s**3 / 6, lambda s: s**3 / 6, lambda s: s**2 / 2),
    "root": (lambda s: s**1.5, lambda s: s**1.5, lambda s: 1.5 * s**0.5),
    "exp": (lambda s: s.exp(), np.exp, np.exp),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [1e-3, 0.5, 300.0])
def test_location_scale(family: str, scale: float):
    g, exact_g, slope = FAMILIES[family]
    loc = torch.tensor([0.25], dtype=F64, requires_grad=True)
    sigma = torch.tensor([scale], dtype=F64, requires_grad=True)
    line = line_oracle.location_scale(exact_g, slope, 0.25, scale)
    for std in (1e-3, 0.1, 1e2):
        centers = [0.25 + c for c in places(line.radius, std)]
        basis = GaussianRBF(torch.tensor(centers, dtype=F64)[:, None], std**2)
        value = LocationScale(g, loc, sigma).expect(basis)
        for j, center in enumerate(centers):
            exact, moved, grown = line.expect(line_oracle.gaussian(center, std))
            assert abs(value[j].item() - exact) <= 1e-10
            dloc, dscale = torch.autograd.grad(value[j], (loc, sigma), retain_graph=True)
            assert abs(dloc.item() - moved) * std * max(std, scale) <= 1e-11
            assert abs((dscale * sigma).item() - grown) * std <= 1e-11


def test_location_scale_members_and_what_g_holds():
    loc, scale = torch.randn(3, 1, dtype=F64), torch.rand(3, 1, dtype=F64) + 0.1
    basis = GaussianRBF(torch.tensor([[0.0], [0.5], [3.0]], dtype=F64), torch.tensor([0.01, 1.0, 0.1]))
    cubic, square = LocationScale(lambda s: s**3 / 6, loc, scale), LocationScale(lambda s: s**2 / 2, loc, scale)
    parabola = BetaGaussian(loc, scale.pow(3).unsqueeze(-1))
    assert (cubic.expect(basis) - parabola.expect(basis)).abs().max() <= 1e-13
    assert (square.expect(basis) - Triangular(loc, scale**2).expect(basis)).abs().max() <= 1e-13
    steep = torch.tensor([[1.0], [0.7], [2.0]], dtype=F64, requires_grad=True)
    loc.requires_grad_(), scale.requires_grad_()

    def value(loc: Tensor, scale: Tensor, steep: Tensor) -> Tensor:
        return LocationScale(lambda s: (steep * s).cosh(), loc, scale).expect(basis)

    assert gradcheck(value, (loc, scale, steep))
    assert gradgradcheck(value, (loc, scale, steep))


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.2, 2.0, 5.0])
def test_slow_waves(alpha: float):
    loc, scale = torch.tensor([[0.3]], dtype=F64), torch.tensor([[scale_of(alpha, 0.1)]], dtype=F64)
    value = BetaLaplace(loc, scale, alpha).expect(Fourier(torch.tensor([[0.0], [1.0], [6.0]], dtype=F64)))
    assert abs(value[0, 0].item() - 1) <= 1e-13 and abs(value[0, 3].item()) <= 1e-13
    if alpha >= 1:  # the tails of the others are too long for this oracle
        line = line_oracle.beta_laplace(alpha, 0.3, scale.item())
        exact = [line.mean(lambda t: np.cos(w * t), -20.0, 20.0) for w in (1, 6)]  # noqa: B023
        assert (value[0, 1:3] - torch.tensor(exact, dtype=F64)).abs().max() <= 1e-10


@pytest.mark.parametrize("alpha", [1.0, 1.02, 1.5, 2.0, 5.0])
def test_waves_of_any_speed(alpha: float):
    # With e = alpha - 1, the mean of the cosine is the real part of Kummer's function 1F1(1; 2 + 1/e; i omega / e).
    omega = [0.1, 1.4, 1.6, 5.0, 14.0, 300.0]
    e = alpha - 1
    exact = [float(mpmath.hyp1f1(1, 2 + 1 / e, 1j * w / e).real) if e else 1 / (1 + w * w) for w in omega]
    waves = Fourier(torch.tensor(omega, dtype=F64)[:, None])
    scale = torch.tensor([scale_of(alpha, 1.0)], dtype=F64, requires_grad=True)
    loc, index = torch.zeros(1, dtype=F64, requires_grad=True), torch.tensor(alpha, dtype=F64, requires_grad=True)
    for given in (alpha, index.detach()):
        value = BetaLaplace(loc, scale, given).expect(waves)
        assert (value[:6] - torch.tensor(exact, dtype=F64)).abs().max() <= 1e-11 and (value[6:] == 0).all()
    few = Fourier(torch.tensor([[1.0], [7.0]], dtype=F64))
    assert gradcheck(lambda *given: BetaLaplace(*given).expect(few), (loc, scale, index))


def test_general_rule_of_location_scale():
    density = LocationScale(lambda s: s.cosh(), torch.tensor([[0.3], [0.1]], dtype=F64), 0.4)
    value = density.expect(Fourier(torch.tensor([[0.0], [3.0]], dtype=F64)))
    line = line_oracle.location_scale(np.cosh, np.sinh, 0.3, 0.4)
    exact = [line.mean(f, -9.0, 9.0) for f in (np.ones_like, lambda t: np.cos(3 * t), lambda t: np.sin(3 * t))]
    assert (value[0, [0, 1, 3]] - torch.tensor(exact, dtype=F64)).abs().max() <= 1e-12


def test_moments():
    alpha = torch.tensor([0.6, 0.9, 1.0, 2.0, 3.0], dtype=F64, requires_grad=True)
    loc, scale = torch.randn(5, 1, dtype=F64), torch.rand(5, 1, dtype=F64) + 0.5
    density = BetaLaplace(loc, scale, alpha)
    value = density.expect(Polynomial(torch.arange(5)[:, None]))
    assert torch.equal(value[:, 0], torch.ones(5, dtype=F64))
    assert torch.equal(value[:, 1:2], loc)
    assert value[0, 2] == math.inf and value[0, 3].isnan() and value[0, 4] == math.inf
    assert torch.allclose(value[1:, 2:3] - loc[1:] ** 2, density.variance[1:], rtol=1e-12)
    for i, a in enumerate((1.0, 2.0, 3.0), start=2):
        line = line_oracle.beta_laplace(a, loc[i].item(), scale[i].item())
        for q in (3, 4):
            exact = line.mean(lambda t: t**q, -300.0, 300.0)  # noqa: B023
            assert math.isclose(value[i, q].item(), exact, rel_tol=1e-11, abs_tol=1e-11)
    assert gradcheck(
        lambda a: BetaLaplace(loc[1:], scale[1:], a).expect(Polynomial(torch.arange(4)[:, None])), alpha[1:]
    )
