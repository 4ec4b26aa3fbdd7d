"""Expectations over the line in one operation against the integrals that autograd differentiates."""

from __future__ import annotations

import math

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian
from omegamax.densities.expectations import _gaussian_rbf

F64 = torch.float64
CENTERS = torch.linspace(-0.5, 1.5, 9, dtype=F64)[:, None]
both = pytest.mark.parametrize("alpha", [1.0, 2.0])


def make_basis(normalised: bool = True) -> GaussianRBF:
    return GaussianRBF(CENTERS, torch.tensor([0.1, 0.5, 0.03] * 3, dtype=F64).square(), normalised)


def make_parameters() -> tuple[torch.Tensor, torch.Tensor]:
    """Return locations ``[4, 1]`` and variances ``[4, 1, 1]``, from narrow to wide."""
    return torch.tensor([[0.2], [0.5], [0.51], [0.9]], dtype=F64), torch.tensor(
        [1e-6, 1e-3, 0.04, 2.0], dtype=F64
    ).reshape(4, 1, 1)


def expect_in_parts(density: BetaGaussian, basis: GaussianRBF, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    with monkeypatch.context() as patch:
        patch.setattr(_gaussian_rbf, "_is_usual", lambda *unused: False)
        return density.expect(basis)


@both
@pytest.mark.parametrize("normalised", [True, False])
def test_value_and_gradients_are_those_of_the_integral(alpha, normalised, monkeypatch):
    basis, found = make_basis(normalised), []
    weight = torch.randn(4, 9, dtype=F64, generator=torch.Generator().manual_seed(0))
    for expect in (lambda p: p.expect(basis), lambda p: expect_in_parts(p, basis, monkeypatch)):
        loc, variance = (t.requires_grad_() for t in make_parameters())
        value = expect(BetaGaussian.from_moments(loc, variance, alpha))
        found.append([value, *torch.autograd.grad((value * weight).sum(), (loc, variance))])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-9)


@both
def test_one_node_of_the_graph_holds_it_all(alpha):
    loc, variance = (t.requires_grad_() for t in make_parameters())
    value = BetaGaussian(loc, variance, alpha).expect(make_basis())
    assert type(value.grad_fn).__name__ == "FirstOrderBackward"


@both
def test_first_and_second_derivatives(alpha):
    def expect(loc, root):
        return BetaGaussian(loc, scale_tril=root, alpha=alpha).expect(make_basis())

    loc = torch.tensor([[0.3], [0.8]], dtype=F64, requires_grad=True)
    root = torch.tensor([0.25, 0.6], dtype=F64).reshape(2, 1, 1).requires_grad_()
    assert gradcheck(expect, (loc, root), atol=1e-6)
    assert gradgradcheck(expect, (loc, root), atol=1e-5)
    assert gradgradcheck(lambda x: expect(x, root.detach()), (loc,), atol=1e-5)
    # A scale that is made of the location: nothing is counted twice.
    assert gradgradcheck(lambda x: expect(x, x.square().unsqueeze(-1) + 0.1), (loc,), atol=1e-5)


@both
def test_one_scale_serves_many_locations(alpha, monkeypatch):
    basis, loc = make_basis(), torch.linspace(0, 1, 6, dtype=F64).reshape(3, 2, 1)
    found = []
    for expect in (lambda p: p.expect(basis), lambda p: expect_in_parts(p, basis, monkeypatch)):
        scale = torch.tensor([[0.05]], dtype=F64, requires_grad=True)
        value = expect(BetaGaussian(loc, scale, alpha))
        found.append((value, torch.autograd.grad(value.square().sum(), scale)[0]))
    assert found[0][0].shape == (3, 2, 9) and found[0][1].shape == (1, 1)
    assert all(torch.allclose(a, b, rtol=0, atol=1e-9) for a, b in zip(*found, strict=True))


@both
def test_half_precision_and_no_gradient(alpha):
    loc, variance = make_parameters()
    exact = BetaGaussian.from_moments(loc, variance, alpha).expect(make_basis())
    coarse = BetaGaussian.from_moments(loc.float(), variance.float(), alpha).expect(make_basis().float())
    assert coarse.dtype == torch.float32 and torch.allclose(coarse.double(), exact, rtol=1e-5, atol=1e-5)
    half = BetaGaussian.from_moments(loc.half(), variance[2:].half().mean(0, keepdim=True), alpha).expect(make_basis())
    assert half.dtype == torch.float32 and bool(half.isfinite().all())
    with torch.inference_mode():
        assert torch.equal(BetaGaussian.from_moments(loc, variance, alpha).expect(make_basis()), exact)


@both
def test_batches_of_gradients_and_forward_mode(alpha):
    basis, (loc, variance) = make_basis(), make_parameters()
    loc.requires_grad_()
    value = BetaGaussian(loc, variance[2], alpha).expect(basis)
    every = torch.eye(value.numel(), dtype=F64).reshape(-1, *value.shape)
    batched = torch.autograd.grad(value, loc, every, is_grads_batched=True, retain_graph=True)[0]
    single = torch.stack([torch.autograd.grad(value, loc, g, retain_graph=True)[0] for g in every])
    assert torch.allclose(batched, single, rtol=0, atol=1e-12)
    moved = torch.func.jvp(
        lambda x: BetaGaussian(x, variance[2], alpha).expect(basis), (loc.detach(),), (torch.ones_like(loc),)
    )[1]
    assert torch.allclose(moved, single.sum(1).reshape_as(moved), rtol=0, atol=1e-9)


def test_nan_stays_in_its_row():
    loc = torch.tensor([[0.5], [math.nan]], dtype=F64)
    for alpha in (1.0, 2.0):
        value = BetaGaussian(loc, 0.1, alpha, validate_args=False).expect(make_basis())
        assert value[0].isfinite().all() and value[1].isnan().all()
