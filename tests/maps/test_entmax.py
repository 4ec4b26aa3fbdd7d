"""Entmax over the whole range of alpha, against 50-digit solutions of its defining equation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import omegamax
from maps import exact
from omegamax import entmax, entmax15, softmax, sparsemax

F64 = torch.float64
ALPHAS = [0.1, 0.5, 0.9, 0.999, 1.0, 1.001, 1.1, 1.25, 4 / 3, 1.5, 1.75, 1.999, 2.0, 2.001, 2.5, 3.0, 5.0, 10.0, 20.0]
ROWS = {
    "spread": [0.3, -1.2, 2.1, 0.9, -0.4, 1.7],
    "close": [0.01, 0.02, -0.015, 0.005],
    "far": [12.0, -3.0, 11.5, 0.0],
    "tied": [1.0, 1.0, 0.5, 0.5, -2.0],
    "flat": [0.25, 0.25, 0.25],
    "pair": [0.0, -0.04],
}
every_row = pytest.mark.parametrize("row", ROWS)
every_alpha = pytest.mark.parametrize("alpha", ALPHAS)


def scores(row: str) -> Tensor:
    return torch.tensor(ROWS[row], dtype=F64)


@every_row
@every_alpha
def test_entmax_solves_its_defining_equation(row: str, alpha: float):
    z = scores(row)
    assert (entmax(z, alpha) - exact.as_tensor(exact.entmax(z, alpha))).abs().max() <= 1e-12


@every_row
def test_named_members_are_entmax_at_their_alpha(row: str):
    z = scores(row)
    for named, alpha in ((softmax, 1.0), (entmax15, 1.5), (sparsemax, 2.0)):
        assert (named(z) - exact.as_tensor(exact.entmax(z, alpha))).abs().max() <= 1e-14
        assert torch.equal(named(z), entmax(z, alpha))
        assert (named(z) - entmax(z, torch.tensor(alpha, dtype=F64))).abs().max() <= 1e-14
    assert (softmax(z) - torch.softmax(z, -1)).abs().max() <= 1e-15


@pytest.mark.parametrize("alpha", [1 - 1e-9, 1 + 1e-9, 1 - 1e-12, 1 + 1e-12, 1 + 1e-15])
def test_alpha_near_one_is_softmax(alpha: float):
    z = 3 * torch.randn(20, 8, dtype=F64)
    assert (entmax(z, alpha) - softmax(z)).abs().max() <= 1e-8


def test_alpha_near_two_is_sparsemax():
    z = torch.randn(20, 8, dtype=F64)
    for alpha in (2 - 1e-9, 2 + 1e-9):
        assert (entmax(z, alpha) - sparsemax(z)).abs().max() <= 1e-7


def test_infinite_alpha_shares_the_mass_among_the_maxima():
    z = torch.tensor([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [0.0, 0.0, 1e-12, 0.0]], dtype=F64)
    expected = torch.tensor([[0, 0.5, 0.5, 0], [0.25, 0.25, 0.25, 0.25], [0, 0, 1, 0]], dtype=F64)
    assert torch.equal(entmax(z, math.inf), expected)
    assert torch.equal(entmax(z, torch.tensor(math.inf, dtype=F64)), expected)
    leaf, alpha = z.clone().requires_grad_(), torch.tensor(math.inf, dtype=F64, requires_grad=True)
    entmax(leaf, alpha).backward(torch.randn(3, 4, dtype=F64))
    assert (leaf.grad == 0).all() and alpha.grad == 0


def test_huge_alpha_tends_to_argmax():
    z = torch.tensor([0.0, -0.01, 1.0, 0.99], dtype=F64)
    for alpha in (200.0, 1e4, 1e8):
        assert torch.equal(entmax(z, alpha), torch.tensor([0.0, 0, 1, 0], dtype=F64))


def test_support_shrinks_as_alpha_grows():
    z = 0.5 * torch.randn(50, 20, dtype=F64)
    sizes = torch.stack([(entmax(z, a) > 0).sum(-1) for a in (1.1, 1.5, 2.0, 3.0, 6.0, math.inf)])
    assert (sizes.diff(dim=0) <= 0).all() and (sizes[-1] == 1).all()


def test_heavy_tails_below_one_leave_nothing_at_zero():
    z = torch.tensor([0.0, -10.0, -1e3, -1e6], dtype=F64)
    p = entmax(z, 0.5)
    assert (p > 0).all()
    # With e = -1/2, p = (1 + (l - z) / 2)^-2: quadratic decay.
    assert (p[3] / p[2]).item() == pytest.approx(1e-6, rel=0.05)


@every_row
@pytest.mark.parametrize("alpha", [0.5, 0.9, 1 - 1e-3, 1 - 1e-7, 1.0, 1 + 1e-10, 1 + 1e-5, 1.01, 1.5, 2.0, 3.0])
def test_gradient_in_alpha_is_exact_through_one(row: str, alpha: float):
    z = scores(row)
    z = z + torch.linspace(0, 0.01, len(z), dtype=F64)  # off changes of support, where there are two answers
    truth = exact.slope(exact.entmax, z, alpha)
    a = torch.tensor(alpha, dtype=F64, requires_grad=True)
    ours = torch.stack([torch.autograd.grad(p, a, retain_graph=True)[0] for p in entmax(z, a)])
    assert (ours - truth).abs().max() <= 1e-9
    tangent = torch.func.jvp(lambda a: entmax(z, a), (a.detach(),), (torch.ones((), dtype=F64),))[1]
    assert (tangent - truth).abs().max() <= 1e-9


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.3, 1.5, 2.0, 2.5])
def test_gradient_in_scores_and_alpha_matches_finite_differences(alpha: float, generic_scores):
    z = generic_scores(lambda z: entmax(z, alpha), 3, 4).requires_grad_()
    a = torch.full((3, 1), alpha, dtype=F64, requires_grad=True)
    assert gradcheck(entmax, (z, a), atol=1e-7, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(entmax, (z, a), atol=1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3, 1, 1), (1, 4, 1), (2, 1, 1, 1), (2, 3, 4, 1)])
def test_alpha_broadcasts_over_rows_and_heads(shape: tuple[int, ...]):
    z = torch.randn(2, 3, 4, 5, dtype=F64)
    alpha = (1 + torch.rand(shape, dtype=F64)).requires_grad_()
    p = entmax(z, alpha)
    full = alpha.detach().expand(2, 3, 4, 1)
    for i, j, k in ((0, 0, 0), (1, 2, 3), (0, 1, 2)):
        assert (p[i, j, k] - entmax(z[i, j, k], full[i, j, k].item())).abs().max() <= 1e-13
    g = torch.randn_like(z)
    p.backward(g)
    assert alpha.grad.shape == shape
    each = full.clone().requires_grad_()
    entmax(z, each).backward(g)
    assert (alpha.grad - each.grad.sum_to_size(shape)).abs().max() <= 1e-12


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_alpha_follows_the_axis(dim: int):
    z = torch.randn(4, 5, 6, dtype=F64)
    alpha = 1 + torch.rand(z.select(dim, 0).shape, dtype=F64).unsqueeze(dim)
    p = entmax(z, alpha, dim)
    assert (p.movedim(dim, -1) - entmax(z.movedim(dim, -1), alpha.movedim(dim, -1))).abs().max() <= 1e-14


def test_alphas_of_every_regime_share_a_batch():
    alphas = [0.3, 1.0, 1 + 1e-8, 1.2, 1.5, 2.0, 3.5, 12.0, math.inf]
    z = torch.randn(len(alphas), 7, dtype=F64, requires_grad=True)
    alpha = torch.tensor(alphas, dtype=F64)[:, None].requires_grad_()
    p = entmax(z, alpha)
    g = torch.randn_like(z)
    dz, dalpha = torch.autograd.grad(p, (z, alpha), g)
    for i, a in enumerate(alphas):
        row, one = z[i].detach().requires_grad_(), torch.tensor(a, dtype=F64, requires_grad=True)
        q = entmax(row, one)
        alone = torch.autograd.grad(q, (row, one), g[i])
        assert (p[i] - q).abs().max() <= 1e-13
        assert (dz[i] - alone[0]).abs().max() <= 1e-9 * (1 + alone[0].abs().max())
        assert (dalpha[i] - alone[1]).abs() <= 1e-9 * (1 + alone[1].abs())


def test_alpha_in_another_dtype_leaves_the_dtype_of_the_scores():
    z = torch.randn(3, 5)
    for kind in (F64, torch.float16, torch.bfloat16):
        alpha = torch.full((3, 1), 1.5, dtype=kind, requires_grad=True)
        leaf = z.clone().requires_grad_()
        p = entmax(leaf, alpha)
        p.backward(torch.randn(3, 5))
        assert p.dtype == leaf.grad.dtype == torch.float32 and alpha.grad.dtype == kind
        assert (p - entmax15(z)).abs().max() <= 1e-6
    tangent = torch.func.jvp(lambda z: entmax(z, torch.full((3, 1), 1.5, dtype=F64)), (z,), (z,))[1]
    assert tangent.dtype == torch.float32


def test_half_scores_take_a_full_alpha():
    z, alpha = torch.randn(3, 5).bfloat16(), torch.tensor([[1.1], [1.5], [1.9]], requires_grad=True)
    p = entmax(z, alpha)
    assert p.dtype == torch.bfloat16
    assert torch.equal(p, entmax(z.float(), alpha).bfloat16())
    p.float().sum(-1).sum().backward()
    assert alpha.grad.dtype == torch.float32


@pytest.mark.parametrize("alpha", [2.5, 3.0, 5.0, 20.0])
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_steep_gradient_of_two_entries_has_its_closed_form(alpha: float, backend: str, dtype: torch.dtype):
    # The smaller probability makes p^(2 - alpha) huge, though the gradient itself is not.
    gaps = torch.tensor([0.2, 0.9, 0.99, 0.999, 0.9999], dtype=F64) / (alpha - 1)
    z = torch.stack([torch.zeros(5, dtype=F64), -gaps, torch.full((5,), -5.0, dtype=F64)], -1).to(dtype)
    leaf = z.clone().requires_grad_()
    with omegamax.backend(backend):
        p = entmax(leaf, alpha)
        grad = torch.autograd.grad(p, leaf, torch.tensor([1.0, -2.0, 0.5], dtype=dtype).expand(5, 3))[0]
    curvature = p.detach()[:, :2].double().pow(alpha - 2).sum(-1)
    truth = 3 / curvature[:, None] * torch.tensor([1.0, -1.0, 0.0], dtype=F64)
    assert ((p > 0).sum(-1) == 2).all()
    assert (grad - truth).abs().max() <= (1e-5 if dtype == torch.float32 else 1e-12) * truth.abs().max()


def test_vmap_maps_over_alpha():
    z = torch.randn(5, 6, dtype=F64)
    alpha = 1 + torch.rand(5, 1, dtype=F64)
    over_both = torch.func.vmap(lambda x, a: entmax(x, a))(z, alpha)
    assert (over_both - entmax(z, alpha)).abs().max() <= 1e-14
    over_alpha = torch.func.vmap(lambda a: entmax(z[0], a))(alpha)
    assert (over_alpha - entmax(z[:1].expand(5, 6), alpha)).abs().max() <= 1e-14
    scalar = torch.func.vmap(lambda a: entmax(z, a))(alpha[:, 0])
    assert (scalar[3] - entmax(z, alpha[3, 0].item())).abs().max() <= 1e-13


@pytest.mark.parametrize("size", [2, 50, 2000])
def test_entmax15_support_test_survives_nearly_equal_scores(size: int):
    z = 1e-7 * torch.randn(size, dtype=F64)
    p = entmax15(z)
    assert p.sum().item() == pytest.approx(1, abs=1e-13)
    assert (p - 1 / size).abs().max() <= 1e-6
