"""Constrained softmax and sparsemax against a convex solver, with gradients in their bounds."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import omegamax
from omegamax import constrained_softmax, constrained_sparsemax, softmax, sparsemax

F64 = torch.float64


def solve(z: Tensor, upper: Tensor, lower: Tensor | None, base: str) -> tuple[Tensor, float]:
    """The map by an interior-point solver, and the value of its objective."""
    import cvxpy as cp

    p = cp.Variable(len(z))
    penalty = -cp.sum(cp.entr(p)) if base == "softmax" else cp.sum_squares(p) / 2
    floor = torch.zeros_like(z) if lower is None else lower
    constraints = [cp.sum(p) == 1, p <= upper.numpy(), p >= floor.numpy()]
    problem = cp.Problem(cp.Maximize(z.numpy() @ p - penalty), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return torch.from_numpy(p.value), problem.value


def bounds(size: int, seed: int) -> tuple[Tensor, Tensor]:
    """Ceilings that bind, and floors below them."""
    generator = torch.Generator().manual_seed(seed)
    upper = torch.rand(size, dtype=F64, generator=generator)
    upper = upper * (1.5 / upper.sum())
    return upper, upper * torch.rand(size, dtype=F64, generator=generator) / 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_ceilings_agree_with_a_convex_solver(seed: int, scale: float):
    z = scale * torch.randn(6, dtype=F64, generator=torch.Generator().manual_seed(seed))
    upper, _ = bounds(6, seed)
    soft, _ = solve(z, upper, None, "softmax")
    sparse, _ = solve(z, upper, None, "sparsemax")
    assert (constrained_softmax(z, upper) - soft).abs().max() <= 1e-6
    assert (constrained_sparsemax(z, upper) - sparse).abs().max() <= 1e-6


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_floors_agree_with_a_convex_solver(seed: int, scale: float):
    z = scale * torch.randn(6, dtype=F64, generator=torch.Generator().manual_seed(seed))
    upper, lower = bounds(6, seed)
    p = constrained_sparsemax(z, upper, lower=lower)
    truth, value = solve(z, upper, lower, "sparsemax")
    assert (p - truth).abs().max() <= 1e-6
    assert (p >= lower).all() and (p <= upper).all() and p.sum().item() == pytest.approx(1, abs=1e-15)
    assert ((p * z).sum() - p.square().sum() / 2).item() == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_constrained_softmax_is_a_scaled_exponential_below_its_ceilings(seed: int):
    z = 2 * torch.randn(8, dtype=F64, generator=torch.Generator().manual_seed(seed))
    upper, _ = bounds(8, seed)
    p = constrained_softmax(z, upper)
    free = p < upper
    scale = p[free] / z[free].exp()
    assert (p <= upper).all() and p.sum().item() == pytest.approx(1, abs=1e-15)
    assert free.any() and (scale / scale[0] - 1).abs().max() <= 1e-13
    assert (z[~free].exp() * scale[0] >= upper[~free] * (1 - 1e-13)).all()


def test_loose_bounds_change_nothing():
    z = torch.randn(20, 7, dtype=F64)
    assert (constrained_softmax(z, 1.0) - softmax(z)).abs().max() <= 1e-15
    assert (constrained_sparsemax(z, 1.0) - sparsemax(z)).abs().max() <= 1e-15
    assert (constrained_sparsemax(z, 5.0, lower=0.0) - sparsemax(z)).abs().max() <= 1e-15
    assert (constrained_softmax(z, math.inf) - softmax(z)).abs().max() <= 1e-15
    assert (constrained_sparsemax(z, math.inf) - sparsemax(z)).abs().max() <= 1e-15


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_ceilings_may_be_infinite_beside_floors(backend: str):
    z = torch.tensor([0.0099, -0.0036, 0.0008, 0.0079, -0.0133], dtype=F64)
    lower = torch.tensor([0.09, 0.13, 0.08, 0.07, 0.16], dtype=F64)
    upper = torch.tensor([8.0, math.inf, math.inf, 0.7, math.inf], dtype=F64)
    with omegamax.backend(backend):
        p = constrained_sparsemax(z, upper, lower=lower)
        assert (p - constrained_sparsemax(z, upper.clamp(max=1), lower=lower)).abs().max() <= 1e-15
    assert p.sum().item() == pytest.approx(1, abs=1e-15)


def test_bounds_that_leave_one_point_give_it():
    z = torch.randn(5, 4, dtype=F64, requires_grad=True)
    quarter = torch.full((4,), 0.25, dtype=F64, requires_grad=True)
    for p in (
        constrained_softmax(z, quarter),
        constrained_sparsemax(z, quarter),
        constrained_sparsemax(z, 1.0, lower=quarter),
    ):
        assert torch.equal(p.detach(), torch.full((5, 4), 0.25, dtype=F64))
        for grad in torch.autograd.grad(p, (z, quarter), torch.randn(5, 4, dtype=F64)):
            assert (grad == 0).all()


def test_ceiling_of_zero_is_a_mask():
    z = torch.randn(10, 5, dtype=F64)
    upper = torch.tensor([0.6, 0.0, 0.6, 0.6, 0.0], dtype=F64)
    mask = upper > 0
    for apply in (constrained_softmax, constrained_sparsemax):
        assert (apply(z, upper) - apply(z, 0.6, mask=mask)).abs().max() <= 1e-15


def test_floor_of_a_masked_entry_counts_for_nothing():
    z = torch.tensor([[0.5, -math.inf, 0.0], [-math.inf] * 3], dtype=F64, requires_grad=True)
    lower = torch.tensor([0.1, 0.9, 0.05], dtype=F64, requires_grad=True)
    p = constrained_sparsemax(z, 1.0, lower=lower)
    assert (p[0, [0, 2]] - sparsemax(torch.tensor([0.5, 0.0], dtype=F64))).abs().max() <= 1e-15
    assert p[0, 1] == 0 and (p[1] == 0).all()
    grads = torch.autograd.grad(p, (z, lower), torch.randn(2, 3, dtype=F64))
    assert grads[0].isfinite().all() and grads[1][1] == 0 and (grads[0][1] == 0).all()


def test_masked_entries_leave_the_others_alone():
    z = torch.randn(10, 6, dtype=F64)
    upper, lower = bounds(6, 3)
    upper = 1.5 * upper
    mask = torch.tensor([True, True, False, True, True, True])
    p = constrained_sparsemax(z, upper, lower=lower, mask=mask)
    assert (p[:, mask] - constrained_sparsemax(z[:, mask], upper[mask], lower=lower[mask])).abs().max() <= 1e-15
    q = constrained_softmax(z, upper, mask=mask)
    assert (q[:, mask] - constrained_softmax(z[:, mask], upper[mask])).abs().max() <= 1e-15


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_bounds_follow_the_axis(dim: int):
    z = torch.randn(4, 5, 6, dtype=F64)
    upper = 0.4 + torch.rand(4, 5, 6, dtype=F64)
    lower = 0.1 * torch.rand(4, 5, 6, dtype=F64)
    p = constrained_sparsemax(z, upper, dim, lower=lower)
    rows = [t.movedim(dim, -1) for t in (z, upper, lower, p)]
    assert (constrained_sparsemax(rows[0], rows[1], lower=rows[2]) - rows[3]).abs().max() <= 1e-15
    q = constrained_softmax(z, upper, dim)
    assert (constrained_softmax(rows[0], rows[1]) - q.movedim(dim, -1)).abs().max() <= 1e-15


def generic(base: str, size: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    """Scores and bounds for which entries are free, at the ceiling and at the floor, all with room to spare."""
    z = torch.tensor([[2.0, 1.2, 0.5, 0.4, -0.8, -2.0], [0.1, 1.5, -0.2, 0.3, 0.0, 0.6]], dtype=F64)
    upper = torch.tensor([0.35, 0.3, 0.4, 0.5, 0.6, 0.7], dtype=F64)
    lower = torch.tensor([0.02, 0.01, 0.05, 0.03, 0.04, 0.06], dtype=F64)
    return z[:, :size], upper[:size], lower[:size]


def test_gradient_of_constrained_softmax_reaches_scores_and_ceilings():
    z, upper, _ = generic("softmax")
    p = constrained_softmax(z, upper)
    assert ((p == upper).any(-1) & (p < upper).any(-1)).all()
    inputs = (z.requires_grad_(), upper.requires_grad_())
    assert gradcheck(constrained_softmax, inputs, atol=1e-7, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(constrained_softmax, inputs, atol=1e-7)


def test_gradient_of_constrained_sparsemax_reaches_scores_and_bounds():
    z, upper, lower = generic("sparsemax")
    p = constrained_sparsemax(z, upper, lower=lower)
    assert ((p == upper).any(-1) & (p == lower).any(-1) & ((p < upper) & (p > lower)).any(-1)).all()
    inputs = tuple(t.requires_grad_() for t in (z, upper, lower))

    def apply(z, upper, lower):
        return constrained_sparsemax(z, upper, lower=lower)

    assert gradcheck(apply, inputs, atol=1e-7, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(apply, inputs, atol=1e-7)


@pytest.mark.parametrize("shape", [(), (1,), (2, 1), (6,), (1, 6), (2, 6)])
def test_bounds_broadcast_and_their_gradients_are_summed(shape: tuple[int, ...]):
    z = torch.randn(2, 6, dtype=F64)
    upper = torch.full(shape, 0.3, dtype=F64, requires_grad=True)
    g = torch.randn(2, 6, dtype=F64)
    for apply in (constrained_softmax, constrained_sparsemax):
        grad = torch.autograd.grad(apply(z, upper), upper, g)[0]
        full = upper.detach().expand(2, 6).clone().requires_grad_()
        each = torch.autograd.grad(apply(z, full), full, g)[0]
        assert grad.shape == shape
        assert (grad - each.sum_to_size(shape)).abs().max() <= 1e-14


@pytest.mark.parametrize("apply", [constrained_softmax, constrained_sparsemax])
@pytest.mark.parametrize("level", [0.3, 0.35, 0.4, 0.7])
def test_bounds_in_another_dtype_give_the_same_gradient(apply, level: float):
    z = torch.tensor([[2.0, 1.5, 0.5, 0.4, -0.8, -2.0]])
    g = torch.tensor([[1.0, -2.0, 0.5, 0.25, 3.0, -1.0]])
    results = []
    for kind in (torch.float32, F64):
        leaf, upper = z.clone().requires_grad_(), torch.full((6,), level, dtype=kind, requires_grad=True)
        p = apply(leaf, upper)
        assert p.dtype == torch.float32
        dz, du = torch.autograd.grad(p, (leaf, upper), g)
        assert dz.dtype == torch.float32 and du.dtype == kind
        results.append((p, dz, du.float()))
    for a, b in zip(*results, strict=True):
        assert (a - b).abs().max() <= 1e-6


@pytest.mark.parametrize("apply", [constrained_softmax, constrained_sparsemax])
def test_half_scores_keep_full_bounds(apply):
    z = torch.randn(4, 6).bfloat16()
    upper = torch.full((6,), 0.3)
    assert torch.equal(apply(z, upper), apply(z.float(), upper).bfloat16())
    assert torch.equal(apply(z, 0.3), apply(z.float(), 0.3).bfloat16())


@pytest.mark.parametrize("size", [10, 1000])
def test_ceilings_bind_on_long_rows(size: int):
    z = torch.randn(3, size, dtype=F64)
    upper = 2 / size
    for apply in (constrained_softmax, constrained_sparsemax):
        p = apply(z, upper)
        assert (p <= upper).all() and (p.sum(-1) - 1).abs().max() <= 1e-13
        capped = (p == upper).sum(-1)
        assert (capped > 0).all()
