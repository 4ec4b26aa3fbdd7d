"""Gaussian functions over the plane as one operation: the same as the plain form, also where axes are not defined."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian
from omegamax.densities.expectations import _gaussian_rbf as rule

F64 = torch.float64
ROUND = GaussianRBF.grid(3, 2, 0.02, dtype=F64)
SLANTED = GaussianRBF(ROUND.centers, torch.tensor([[[0.03, 0.01], [0.01, 0.02]]], dtype=F64))
# A circle, for which the axes may be any, next to one, diagonal, slanted, thin.
COVARIANCES = torch.tensor(
    [[0.05, 0.0, 0.05], [0.05, 1e-9, 0.05], [0.05, 0.0, 0.03], [0.05, 0.02, 0.03], [0.05, 0.0499, 0.05]], dtype=F64
)
ALPHAS = [1.0, 4 / 3, 1.5, 2.0]


def inputs() -> tuple[Tensor, Tensor]:
    a, b, c = COVARIANCES.unbind(-1)
    torch.manual_seed(0)
    covariance = torch.stack([a, b, b, c], -1).unflatten(-1, (2, 2))
    return torch.rand(5, 2, dtype=F64, requires_grad=True), covariance.requires_grad_()


def by_moments(alpha: float, basis: GaussianRBF, loc: Tensor, covariance: Tensor) -> Tensor:
    return BetaGaussian.from_moments(loc, covariance, alpha, validate_args=False).expect(basis)


def by_factor(alpha: float, basis: GaussianRBF, loc: Tensor, covariance: Tensor) -> Tensor:
    tril = torch.linalg.cholesky((covariance + covariance.mT) / 2)
    return BetaGaussian(loc, scale_tril=tril, alpha=alpha, validate_args=False).expect(basis)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("make", [by_moments, by_factor])
@pytest.mark.parametrize("basis", [ROUND, SLANTED], ids=["round", "slanted"])
def test_equals_the_plain_form(alpha, make, basis, monkeypatch):
    found = []
    for usual in (True, False):
        if not usual:
            monkeypatch.setattr(rule, "_is_usual", lambda *unused: False)
        loc, covariance = inputs()
        value = make(alpha, basis, loc, covariance)
        found.append((value, *torch.autograd.grad(value.square().sum(), (loc, covariance))))
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("make", [by_moments, by_factor])
def test_first_and_second_derivatives(alpha, make):
    loc, covariance = (t.detach()[:4].requires_grad_() for t in inputs())
    basis = GaussianRBF(ROUND.centers[::4], 0.02)

    def value(loc: Tensor, covariance: Tensor) -> Tensor:
        return make(alpha, basis, loc, (covariance + covariance.mT) / 2)

    assert gradcheck(value, (loc, covariance))
    assert gradgradcheck(value, (loc, covariance))


@pytest.mark.parametrize("alpha", ALPHAS[1:])
def test_scale_is_made_from_the_covariance_when_it_is_asked_for(alpha):
    """Without arguments to validate no expectation over the plane needs it; it has its gradient all the same."""
    loc, covariance = inputs()
    eager = BetaGaussian.from_moments(loc, covariance, alpha, validate_args=True)

    def expect_with_another_alpha(p: BetaGaussian) -> Tensor:
        return BetaGaussian._from_root(p.loc, p._root, 1.25, False).expect(ROUND)

    for make in (lambda p: p.scale, lambda p: p.expand((2, 5)).scale_tril[0], expect_with_another_alpha):
        lazy = BetaGaussian.from_moments(loc, covariance, alpha, validate_args=False)
        torch.testing.assert_close(make(lazy), make(eager), rtol=1e-12, atol=1e-300)
        totals = [make(p).square().sum() for p in (lazy, eager)]
        found, wanted = (torch.autograd.grad(t, covariance, retain_graph=True)[0] for t in totals)
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-14)
    lazy = BetaGaussian.from_moments(loc, covariance, alpha, validate_args=False)
    assert "scale" in eager.__dict__ and "scale" not in lazy.__dict__
    with torch.no_grad():
        assert lazy.scale.isfinite().all()
    assert lazy.scale.requires_grad


def test_functions_with_peak_one_and_single_precision():
    basis = GaussianRBF.grid(3, 2, 0.02, normalised=False)
    loc, covariance = (t.detach() for t in inputs())
    for alpha in ALPHAS:
        single = by_moments(alpha, basis, loc.float(), covariance.float())
        assert single.dtype == torch.float32
        exact = by_moments(alpha, GaussianRBF.grid(3, 2, 0.02, normalised=False, dtype=F64), loc, covariance)
        torch.testing.assert_close(single[:4].double(), exact[:4], rtol=1e-5, atol=1e-7)
