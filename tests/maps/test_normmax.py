"""Normmax against its closed forms, its limits and 50-digit solutions."""

from __future__ import annotations

import math

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from maps import exact
from omegamax import entmax15, normmax, sparsemax

F64 = torch.float64
ROWS = {
    "spread": [0.3, -1.2, 2.1, 0.9, -0.4, 1.7],
    "close": [0.01, 0.02, -0.015, 0.005],
    "tied": [1.0, 1.0, 0.5, 0.5, -2.0],
    "flat": [0.25, 0.25, 0.25],
    "alone": [3.0, 1.0, 0.0],
}
every_row = pytest.mark.parametrize("row", ROWS)


@every_row
@pytest.mark.parametrize("alpha", [1.02, 1.1, 1.5, 2.0, 2.5, 3.0, 5.0, 20.0])
def test_normmax_solves_its_defining_equation(row: str, alpha: float):
    z = torch.tensor(ROWS[row], dtype=F64)
    assert (normmax(z, alpha) - exact.as_tensor(exact.normmax(z, alpha))).abs().max() <= 1e-12


@every_row
def test_euclidean_norm_has_a_closed_form(row: str):
    z = torch.tensor(ROWS[row], dtype=F64)
    ordered = z.sort(descending=True).values
    for size in range(len(z), 0, -1):  # the largest set whose threshold lies below all of it
        mean = ordered[:size].mean()
        spread = (ordered[:size] - mean).square().sum()
        tau = mean - ((1 - spread).clamp(min=0) / size).sqrt()
        if spread <= 1 and tau < ordered[size - 1]:
            break
    t = (z - tau).clamp(min=0)
    assert (normmax(z) - t / t.sum()).abs().max() <= 1e-14
    # The same threshold as that of 1.5-entmax on twice the scores.
    assert (normmax(z) - entmax15(2 * z).sqrt() / entmax15(2 * z).sqrt().sum()).abs().max() <= 1e-12


def test_alpha_near_one_tends_to_argmax():
    z = torch.tensor([0.3, 0.0, -0.5, 0.25], dtype=F64)
    assert (normmax(z, 1.0005) - torch.tensor([1.0, 0, 0, 0], dtype=F64)).abs().max() <= 1e-12
    tied = torch.tensor([0.3, 0.3, -0.5], dtype=F64)
    assert (normmax(tied, 1.0005) - torch.tensor([0.5, 0.5, 0], dtype=F64)).abs().max() <= 1e-12


def test_large_alpha_tends_to_equal_shares_of_the_sparsemax_support():
    z = torch.tensor([[0.3, -1.2, 2.1, 0.9, 1.6, 1.7], [0.1, 0.2, 0.15, 0.0, -3.0, 0.05]], dtype=F64)
    support = (sparsemax(z) > 0).to(F64)
    uniform = support / support.sum(-1, keepdim=True)
    assert torch.equal(normmax(z, math.inf), uniform)
    assert torch.equal(normmax(z, torch.tensor(math.inf, dtype=F64)), uniform)
    for alpha, distance in ((1e3, 2e-3), (1e6, 2e-6)):
        assert ((normmax(z, alpha) > 0) == (support > 0)).all()
        assert (normmax(z, alpha) - uniform).abs().max() <= distance


def test_infinite_alpha_is_flat():
    z = torch.randn(3, 6, dtype=F64, requires_grad=True)
    alpha = torch.tensor([[2.0], [math.inf], [3.0]], dtype=F64, requires_grad=True)
    normmax(z, alpha).backward(torch.randn(3, 6, dtype=F64))
    assert (z.grad[1] == 0).all() and alpha.grad[1] == 0
    assert z.grad.isfinite().all() and alpha.grad.isfinite().all()


@every_row
@pytest.mark.parametrize("alpha", [1.1, 1.5, 2.0, 3.0, 10.0])
def test_gradient_in_alpha_is_exact(row: str, alpha: float):
    z = torch.tensor(ROWS[row], dtype=F64)
    a = torch.tensor(alpha, dtype=F64, requires_grad=True)
    ours = torch.stack([torch.autograd.grad(p, a, retain_graph=True)[0] for p in normmax(z, a)])
    assert (ours - exact.slope(exact.normmax, z, alpha)).abs().max() <= 1e-9


@pytest.mark.parametrize("alpha", [1.2, 2.0, 3.5])
def test_gradient_in_scores_and_alpha_matches_finite_differences(alpha: float, generic_scores):
    z = generic_scores(lambda z: normmax(z, alpha), 3, 4).requires_grad_()
    a = torch.full((3, 1), alpha, dtype=F64, requires_grad=True)
    assert gradcheck(normmax, (z, a), atol=1e-6, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(normmax, (z, a), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("alpha", [50.0, 1000.0])
def test_gradient_at_large_alpha_is_finite(dtype: torch.dtype, alpha: float):
    z = torch.tensor([[0.3, -1.2, 2.1, 0.9, 1.6, 1.7], [0.1, 0.2, 0.15, 0.0, -3.0, 0.05]], dtype=dtype)
    z.requires_grad_()
    a = torch.tensor(alpha, dtype=dtype, requires_grad=True)
    normmax(z, a).backward(torch.randn(2, 6, dtype=dtype))
    assert z.grad.isfinite().all() and a.grad.isfinite()
    assert z.grad.abs().max() <= 1


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (2, 1, 1), (2, 3, 1)])
def test_alpha_broadcasts_over_rows_and_heads(shape: tuple[int, ...]):
    z = torch.randn(2, 3, 5, dtype=F64)
    alpha = (1.2 + 3 * torch.rand(shape, dtype=F64)).requires_grad_()
    p = normmax(z, alpha)
    full = alpha.detach().expand(2, 3, 1)
    for i in range(2):
        for j in range(3):
            assert (p[i, j] - normmax(z[i, j], full[i, j].item())).abs().max() <= 1e-13
    p[..., 0].sum().backward()
    assert alpha.grad.shape == shape
