"""Entmax under a measure: against root finding, plain entmax and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import omegamax
from omegamax.densities._weighted_entmax import weighted_entmax

F64 = torch.float64
ALPHAS = [0.2, 0.7, 0.999, 1 - 1e-9, 1.0, 1 + 1e-9, 1.001, 1.25, 1.5, 1.8, 2.0, 2.5, 4.0]
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)


def solved(f: Tensor, w: Tensor, alpha: float) -> Tensor:
    """The defining equation ``sum w exp_{2-alpha}(f - A) = 1`` by bracketing, in logarithms."""
    scores, weights, e = f.numpy(), w.numpy(), alpha - 1

    def density(normaliser: float) -> np.ndarray:
        y = e * (scores - normaliser)
        inside = y > -1
        with np.errstate(over="ignore"):
            log_p = np.log1p(np.where(inside, y, 0)) / e if e else scores - normaliser
            return np.where(inside, np.exp(np.minimum(log_p, 600)), 0.0 if e > 0 else np.exp(600))

    def excess(normaliser: float) -> float:
        return math.log((weights * density(normaliser)).sum() + 1e-300)

    low = high = scores.max()
    step = 1.0
    while excess(low) < 0:
        low, step = low - step, 2 * step
    step = 1.0
    while excess(high) > 0:
        high, step = high + step, 2 * step
    return torch.tensor(density(brentq(excess, low, high, xtol=1e-15, rtol=1e-15, maxiter=1000)))


@every_alpha
@pytest.mark.parametrize("spread, volume", [(1.0, 1.0), (5.0, 0.05), (0.01, 1.0)])
def test_weighted_entmax_solves_its_defining_equation(alpha: float, spread: float, volume: float):
    f, w = spread * torch.randn(30, dtype=F64), volume * (0.05 + torch.rand(30, dtype=F64))
    truth = solved(f, w, alpha)
    for a in (alpha, torch.tensor([alpha], dtype=F64)):
        p = weighted_entmax(f, a, w)
        assert (p - truth).abs().max() <= 1e-11 * truth.max()
        assert (w * p).sum().item() == pytest.approx(1, abs=1e-14)


@every_alpha
def test_weights_of_one_are_entmax(alpha: float):
    z = torch.randn(4, 12, dtype=F64)
    assert (weighted_entmax(z, alpha, torch.ones(12, dtype=F64)) - omegamax.entmax(z, alpha)).abs().max() <= 1e-14


def test_alphas_of_every_regime_share_a_batch():
    z, w = torch.randn(len(ALPHAS), 9, dtype=F64), torch.rand(9, dtype=F64) + 0.1
    together = weighted_entmax(z, torch.tensor(ALPHAS, dtype=F64).unsqueeze(-1), w)
    for i, alpha in enumerate(ALPHAS):
        assert (together[i] - weighted_entmax(z[i], alpha, w)).abs().max() <= 1e-13


def test_splitting_a_node_changes_nothing():
    z, w = torch.randn(6, dtype=F64), torch.rand(6, dtype=F64) + 0.1
    for alpha in ALPHAS:
        whole = weighted_entmax(z, alpha, w)
        parts = weighted_entmax(torch.cat([z, z[:1]]), alpha, torch.cat([w[:1] / 3, w[1:], w[:1] * 2 / 3]))
        assert (parts[:6] - whole).abs().max() <= 1e-13 and (parts[6] - whole[0]).abs() <= 1e-13


@pytest.mark.parametrize("alpha", [0.6, 1.0, 1.3, 1.5, 2.0, 3.0])
def test_gradients_match_finite_differences(alpha: float, generic_scores):
    w = (torch.rand(5, dtype=F64) + 0.2).requires_grad_()
    z = generic_scores(lambda z: weighted_entmax(z, alpha, w.detach()), 2, 5).requires_grad_()
    a = torch.full((2, 1), alpha, dtype=F64, requires_grad=True)
    assert gradcheck(weighted_entmax, (z, a, w), atol=1e-7, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(weighted_entmax, (z, a, w), atol=1e-6)


def test_edge_case_rows_do_not_touch_others():
    inf, nan = math.inf, math.nan
    z = torch.tensor([[0.0, -inf, 1.0], [-inf] * 3, [0.0, nan, 1.0], [0.0, inf, 1.0], [0.0, 1.0, 2.0]], dtype=F64)
    w = torch.tensor([0.5, 0.3, 0.2], dtype=F64)
    for alpha in (0.5, 1.0, 1.3, 1.5, 2.0, 3.0):
        leaf = z.clone().requires_grad_()
        p = weighted_entmax(leaf, alpha, w)
        assert torch.allclose(p[0, [0, 2]], weighted_entmax(z[0, [0, 2]], alpha, w[[0, 2]])) and p[0, 1] == 0
        assert (p[1] == 0).all() and p[2:4].isnan().all() and p[4].isfinite().all()
        grad = torch.autograd.grad(p[[0, 1, 4]].square().sum(), leaf)[0]
        assert grad.isfinite().all() and (grad[1] == 0).all() and grad[0, 1] == 0


def test_steep_gradients_survive_a_node_about_to_leave():
    # Two nodes of equal weight: with p1^e - p2^e = e gap and p1 + p2 = 2, dp1/dgap = 1 / (p1^(e-1) + p2^(e-1)).
    alpha, w = 4.0, torch.tensor([0.5, 0.5], dtype=F64)
    gap = torch.tensor([8 / 3 - 1e-6, 8 / 3 - 1e-3, 1.0], dtype=F64)
    z = torch.stack([torch.zeros(3, dtype=F64), -gap], -1).requires_grad_()
    p = weighted_entmax(z, alpha, w)
    slope = torch.autograd.grad(p[:, 0].sum(), z)[0][:, 0]
    assert torch.allclose(slope, 1 / (p.detach().pow(alpha - 2)).sum(-1), rtol=1e-10)


@pytest.mark.parametrize("volume", [1e-30, 1e-6, 1e6, 1e30])
def test_any_scale_of_scores_and_weights_sums_to_one(volume: float):
    for spread in (1e-30, 1.0, 1e30, 1e300):
        for alpha in (0.05, 0.9, 1.0, 1.01, 1.5, 2.0, 2.1, 5.0, 50.0):
            z = (spread * torch.randn(8, dtype=F64)).requires_grad_()
            w = volume * (torch.rand(8, dtype=F64) + 0.1)
            p = weighted_entmax(z, alpha, w)
            assert (w * p).sum().item() == pytest.approx(1, abs=1e-12)
            assert torch.autograd.grad((w * p).square().sum(), z)[0].isfinite().all()


def test_traced_and_mapped_calls_agree():
    z, w, a = torch.randn(5, 7, dtype=F64), torch.rand(7, dtype=F64) + 0.1, 1 + torch.rand(5, 1, dtype=F64)
    expected = weighted_entmax(z, a, w)
    assert (torch.func.vmap(lambda z, a: weighted_entmax(z, a, w))(z, a) - expected).abs().max() <= 1e-14
    compiled = torch.compile(weighted_entmax, backend="eager", fullgraph=True)
    assert (compiled(z, a, w) - expected).abs().max() <= 1e-14
