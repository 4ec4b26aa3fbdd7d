"""Triton's kernels of Gaussian functions under densities over the line, against torch: on a GPU, or interpreted."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", minversion="3.4")

import omegamax
from omegamax import kernels
from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian
from omegamax.densities.expectations._line import _nodes
from omegamax.kernels.gaussian import reference
from omegamax.kernels.gaussian.triton import launcher

F64 = torch.float64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def densities(dtype=F64) -> tuple[torch.Tensor, torch.Tensor]:
    """Narrow, usual and wide ones, two of them far from most functions."""
    loc = torch.tensor([[0.3], [0.5], [-4.0], [0.9], [2.0]], dtype=dtype)
    scale = torch.tensor([[1e-6], [0.04], [0.5], [1e4], [1e-3]], dtype=dtype)
    return loc.to(DEVICE), scale.to(DEVICE)


def functions(count: int, dtype=F64) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    centers = torch.rand(count, dtype=dtype)
    centers[-1] = 40.0  # of which nothing is left
    return centers.to(DEVICE), (torch.rand(count, dtype=dtype) * 0.2 + 1e-4).to(DEVICE)


def integrate(form: str, of, loc, scale, centers, variance) -> torch.Tensor:
    """Return ``[*, 3, J]`` from the kernel or from torch."""
    more = _nodes(loc.device) if form == "parabola" else ()
    given = (loc, scale.sqrt() if form == "parabola" else scale, centers, variance)
    return getattr(of, f"{form}_on_line")(*given, *more)


both_forms = pytest.mark.parametrize("form", ["gaussian", "parabola"])


@both_forms
@pytest.mark.parametrize("count", [1, 7, 130])  # one block, one that is not full, and two
def test_values_and_slopes(form, count):
    given = *densities(), *functions(count)
    found, wanted = (integrate(form, of, *given) for of in (launcher, reference))
    assert found.shape == (5, 3, count)
    assert ((found - wanted).abs() <= rounding(form, *given, wanted)).all()


def rounding(form, loc, scale, centers, variance, wanted) -> torch.Tensor:
    """Return what rounded products may change, ``[N, 3, J]``.

    An exponential loses the digits of its argument. Slopes are sums of terms of either sign, and what is under a
    parabola is a difference from what the functions have there, by which they are measured.
    """
    value = wanted[:, 0]
    if form == "gaussian":
        argument = (centers - loc).square() / (variance + scale)
        sizes = value, value / (variance + scale).sqrt(), value / (variance + scale)
    else:
        argument = (centers - loc).square() / variance
        root = scale.sqrt()
        value = 1.5 * value + 0.75 * root * wanted[:, 2].abs()  # what the function has of the support
        sizes = value, value / variance.sqrt(), value / root
    digits = 1 + argument.clamp(max=700)
    return 16 * torch.finfo(F64).eps * (digits * digits.sqrt()).unsqueeze(1) * torch.stack(sizes, 1) + 1e-300


@both_forms
def test_single_precision_is_rounded_once(form):
    single = *densities(torch.float32), *functions(7, torch.float32)
    found = integrate(form, launcher, *single)
    assert found.dtype == torch.float32
    double = [t.double() for t in single]
    if form == "parabola":  # whose root is taken before, in single precision
        double[1] = single[1].sqrt().double().square()
    torch.testing.assert_close(found, integrate(form, reference, *double).float(), rtol=2e-7, atol=1e-30)


@both_forms
def test_batches_and_what_is_not_a_number(form):
    (loc, scale), (centers, variance) = densities(), functions(7)
    loc[1] = torch.nan
    found = integrate(form, launcher, loc.unsqueeze(0), scale.unsqueeze(0), centers, variance)
    assert found.shape == (1, 5, 3, 7)
    assert found[0, 1].isnan().all() and found[0, [0, 2, 3, 4]].isfinite().all()
    assert integrate(form, launcher, loc[:0], scale[:0], centers, variance).shape == (0, 3, 7)


@pytest.mark.parametrize("dtype, within", [(torch.float32, 1e-5), (F64, 1e-14)])
@pytest.mark.parametrize("count", [1, 7, 300])  # a function, a block that is not full, and three blocks
@pytest.mark.usefixtures("run_time_loops")
def test_the_way_back_to_one_density(count, dtype, within):
    torch.manual_seed(0)
    both, g = torch.randn(2, 3, 3, count, dtype=dtype).to(DEVICE), torch.randn(count, 2, 3, dtype=dtype).to(DEVICE)
    g = g.movedim(0, -1)  # no row of which is in one piece
    found, wanted = launcher.line_vjp(both, g), reference.line_vjp(both.double(), g.double())
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == dtype and ours.shape == theirs.shape == (2, 3, 1)
        torch.testing.assert_close(ours.double(), theirs, rtol=within, atol=within * count)
    assert [t.shape for t in launcher.line_vjp(both[:0], g[:0])] == [(0, 3, 1), (0, 3, 1)]


@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.usefixtures("run_time_loops")
def test_expectations_run_these_kernels(alpha, monkeypatch):
    ran: list[str] = []
    load, solve = kernels.load, kernels.solve
    on_triton = ("gaussian_on_line", "parabola_on_line", "line_vjp")

    def note(op: str, *given):
        ran.append(op)
        return load(op, "triton")(*given) if op in on_triton else solve(op, *given)

    basis = GaussianRBF(torch.rand(6, 1, dtype=F64), torch.tensor(0.01, dtype=F64)).to(DEVICE)

    def expect(loc, scale):
        return BetaGaussian(loc, scale, alpha=alpha).expect(basis)

    def gradients():
        loc = torch.tensor([[0.3], [0.6]], dtype=F64, device=DEVICE, requires_grad=True)
        scale = torch.tensor([[[0.04]]], dtype=F64, device=DEVICE, requires_grad=True)  # which all densities share
        value = expect(loc, scale)
        torch.manual_seed(1)
        return value, *torch.autograd.grad(value, (loc, scale), torch.randn_like(value))

    with omegamax.backend("reference"):
        wanted = gradients()
    monkeypatch.setattr(kernels, "solve", note)
    for ours, theirs in zip(gradients(), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    assert ran == ["gaussian_on_line" if alpha == 1 else "parabola_on_line", "line_vjp"]
