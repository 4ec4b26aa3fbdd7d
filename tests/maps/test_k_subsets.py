"""k-subsets against the vertices it stands for, and its own corners: fractions, at most k, too few entries."""

from __future__ import annotations

import itertools
import math
import warnings

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import omegamax
from omegamax import k_subsets, sparsemax

F64 = torch.float64


def sparsemap(z: Tensor, k: int, at_most: bool = False) -> Tensor:
    """Marginals of the distribution over k-hot vectors that maximises <M w, z> - 1/2 ||M w||^2."""
    import cvxpy as cp

    sizes = range(k + 1) if at_most else [k]
    vertices = [c for size in sizes for c in itertools.combinations(range(len(z)), size)]
    hot = torch.zeros(len(z), len(vertices), dtype=F64)
    for column, chosen in enumerate(vertices):
        hot[list(chosen), column] = 1
    weights = cp.Variable(len(vertices), nonneg=True)
    marginals = hot.numpy() @ weights
    problem = cp.Problem(cp.Maximize(z.numpy() @ marginals - cp.sum_squares(marginals) / 2), [cp.sum(weights) == 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return hot @ torch.from_numpy(weights.value)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("at_most", [False, True])
@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_k_subsets_is_sparsemap_over_the_vertices(k: int, at_most: bool, scale: float):
    z = scale * torch.randn(5, dtype=F64)
    assert (k_subsets(z, k, at_most=at_most) - sparsemap(z, k, at_most)).abs().max() <= 1e-6


def bisection(z: Tensor, k: float) -> Tensor:
    """clip(z - tau, 0, 1) with sum k, by bisection to the last bit."""
    low, high = z.min() - 1, z.max()
    for _ in range(200):
        tau = (low + high) / 2
        low, high = (tau, high) if (z - tau).clamp(0, 1).sum() > k else (low, tau)
    return (z - (low + high) / 2).clamp(0, 1)


@pytest.mark.parametrize("k", [0.0, 0.01, 0.5, 1.0, 1.5, 2.0, 3.99, 6.0, 11.5, 12.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_k_subsets_solves_its_defining_equation(k: float, scale: float):
    for seed in range(5):
        z = scale * torch.randn(12, dtype=F64, generator=torch.Generator().manual_seed(seed))
        p = k_subsets(z, k)
        assert p.sum().item() == pytest.approx(k, abs=1e-14 * 12)
        assert (p - bisection(z, k)).abs().max() <= 1e-13 * (1 + scale)


def test_one_subset_is_sparsemax():
    z = 2 * torch.randn(50, 9, dtype=F64)
    assert (k_subsets(z, 1) - sparsemax(z)).abs().max() <= 1e-15


def test_budget_of_all_or_nothing_is_constant():
    z = torch.randn(4, 6, dtype=F64, requires_grad=True)
    for k in (0, 6):
        p = k_subsets(z, k)
        assert (p == (k > 0)).all()
        assert (torch.autograd.grad(p, z, torch.randn(4, 6, dtype=F64))[0] == 0).all()


def test_complement_of_a_subset_is_the_subset_of_the_complement():
    z = torch.randn(50, 7, dtype=F64)
    assert (k_subsets(z, 3) - (1 - k_subsets(-z, 4))).abs().max() <= 1e-15


def test_gaps_of_one_give_the_indicator_of_the_largest():
    z = torch.tensor([3.0, 1.0, 0.0, 2.0, -1.0], dtype=F64)
    assert k_subsets(z, 3).tolist() == [1, 1, 0, 1, 0]


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_row_left_with_fewer_than_k_entries_takes_them_all(dtype: torch.dtype):
    z = torch.tensor([[1.0, -math.inf, 0.5, -math.inf], [0.0, 0.5, -math.inf, 3.0], [-math.inf] * 4], dtype=dtype)
    z.requires_grad_()
    p = k_subsets(z, 3)
    assert p.tolist() == [[1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0]]
    assert (torch.autograd.grad(p, z, torch.randn(3, 4, dtype=dtype))[0] == 0).all()
    mask = z.detach() > -math.inf
    assert torch.equal(k_subsets(torch.where(mask, z, 0.0), 3, mask=mask), p)
    assert torch.equal(k_subsets(z, torch.full((3, 1), 3.0, dtype=dtype)), p)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_at_most_k_leaves_room_unused(dtype: torch.dtype):
    z = torch.tensor([[0.5, -1.0, 0.25, 0.0], [2.0, 1.5, 0.75, -3.0], [-1.0, -2.0, -0.5, -4.0]], dtype=dtype)
    p = k_subsets(z, 2, at_most=True)
    assert p[0].tolist() == [0.5, 0, 0.25, 0]
    assert torch.equal(p[1], k_subsets(z[1], 2))
    assert p[2].tolist() == [0, 0, 0, 0]


def test_at_most_more_than_there_are_is_a_clip():
    z = 2 * torch.randn(10, 6, dtype=F64)
    for k in (6, 6.5, 100, math.inf):
        assert torch.equal(k_subsets(z, k, at_most=True), z.clamp(0, 1))


def test_at_most_k_keeps_the_rules_for_edge_case_rows():
    inf, nan = math.inf, math.nan
    z = torch.tensor([[inf, 0, 0], [nan, 0, 0], [-inf, 0.5, 0.25], [-inf, -inf, -inf], [-5.0, inf, -5.0]], dtype=F64)
    p = k_subsets(z, 2, at_most=True)
    assert p[[0, 1, 4]].isnan().all()
    assert p[2].tolist() == [0, 0.5, 0.25] and p[3].tolist() == [0, 0, 0]
    leaf = z.requires_grad_()
    grad = torch.autograd.grad(k_subsets(leaf, 2, at_most=True)[2:4].sum(), leaf)[0]
    assert grad[2].tolist() == [0, 1, 1] and grad[3].tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_at_most_k_in_half_precision_is_one_rounding_of_float32(dtype: torch.dtype):
    # The clipped entries sum to 2.004, which bfloat16 rounds to 2.
    z = torch.cat([torch.full((1, 16), 0.125) + 2**-12, torch.rand(200, 16) / 4]).to(dtype)
    assert torch.equal(k_subsets(z, 2, at_most=True), k_subsets(z.float(), 2, at_most=True).to(dtype))


def test_at_most_k_agrees_between_half_and_autocast():
    z = torch.randn(20, 8).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        p = k_subsets(z, 2, at_most=True)
    assert p.dtype == torch.float32
    assert torch.equal(p, k_subsets(z.float(), 2, at_most=True))


@pytest.mark.parametrize("at_most", [False, True])
def test_gradient_in_scores_and_k_matches_finite_differences(at_most: bool, generic_scores):
    z = generic_scores(lambda z: k_subsets(z, 1.75, at_most=at_most), 4, 5).requires_grad_()
    k = torch.full((4, 1), 1.75, dtype=F64, requires_grad=True)

    def apply(z, k):
        return k_subsets(z, k, at_most=at_most)

    assert gradcheck(apply, (z, k), atol=1e-7, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(apply, (z, k), atol=1e-7)


def test_at_most_k_with_room_has_the_gradient_of_a_clip_and_none_in_k():
    z = torch.tensor([0.5, -1.0, 0.25, 1.5], dtype=F64, requires_grad=True)
    k = torch.tensor(3.0, dtype=F64, requires_grad=True)
    dz, dk = torch.autograd.grad(k_subsets(z, k, at_most=True).sum(), (z, k))
    assert dz.tolist() == [1, 0, 1, 0] and dk == 0


@pytest.mark.parametrize("shape", [(), (1,), (4, 1), (3, 1, 1), (3, 4, 1)])
def test_k_broadcasts_over_rows(shape: tuple[int, ...]):
    z = torch.randn(3, 4, 6, dtype=F64)
    k = (0.5 + 4 * torch.rand(shape, dtype=F64)).requires_grad_()
    p = k_subsets(z, k)
    full = k.detach().expand(3, 4, 1)
    assert (p.sum(-1, keepdim=True) - full).abs().max() <= 1e-14
    assert (p[2, 1] - k_subsets(z[2, 1], full[2, 1].item())).abs().max() <= 1e-14
    p[..., 0].sum().backward()
    assert k.grad.shape == shape


def test_whole_k_may_be_an_integer_tensor():
    z = torch.randn(3, 6, dtype=F64, requires_grad=True)
    k = torch.tensor([[1], [2], [3]])
    p = k_subsets(z, k)
    assert (p - k_subsets(z, k.to(F64))).abs().max() == 0
    p[:, 0].sum().backward()
    assert z.grad.isfinite().all()


def test_k_of_any_dtype_leaves_the_dtype_of_the_scores():
    z = torch.randn(3, 6)
    for kind in (torch.float16, torch.float32, F64, torch.int64):
        assert k_subsets(z, torch.tensor([[1], [2], [3]]).to(kind)).dtype == torch.float32
        half = k_subsets(z.bfloat16(), torch.tensor([[1], [2], [3]]).to(kind))
        assert half.dtype == torch.bfloat16


def test_backends_are_interchangeable_at_ties():
    z = torch.tensor([[1.0, 1, 1, 0, 0], [0.5, 0.5, -0.5, -0.5, -0.5], [2.0, 1, 1, 1, 0]], dtype=F64)
    with omegamax.backend("reference"):
        truth = k_subsets(z, 2)
    assert (k_subsets(z, 2) - truth).abs().max() <= 1e-15
    assert truth[0].tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 0, 0], abs=1e-15)
    assert truth[2].tolist() == pytest.approx([1, 1 / 3, 1 / 3, 1 / 3, 0], abs=1e-15)
