"""The SparseMAP loss: its value, its margin of zero, its gradients."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from omegamax import fenchel_young_loss
from omegamax.structured import DependencyTree, Sequence, SequentialSubsets, Subsets, sparsemap, sparsemap_loss
from structured.cases import CASES, F64, Case, every_case, some_cases
from structured.test_derivatives import generic


def targets(case: Case, rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return case.structures[torch.randint(len(case.structures), (rows,), generator=generator)]


def value(case: Case, scores: Tensor, additional: Tensor | None, y: Tensor) -> Tensor:
    """The definition, with the maximum taken at SparseMAP's answer."""
    u, found = sparsemap(scores, case.factor, additional, return_structures=True)
    top = (u * scores - u.square() / 2).flatten(1).sum(-1)
    at = (y * scores - y.square() / 2).flatten(1).sum(-1)
    if additional is not None:
        top = top + (found.additional_marginals * additional).sum(-1)
        at = at + (case.factor.additional_features(y) * additional).sum(-1)
    return top - at


@every_case
def test_loss_is_its_definition(case: Case):
    scores, additional = case.draw(12)
    y = targets(case, 12)
    loss = sparsemap_loss(scores, y, case.factor, additional, reduction="none")
    assert (loss - value(case, scores, additional, y)).abs().max() <= 1e-13
    assert (loss >= 0).all()
    assert sparsemap_loss(scores, y, case.factor, additional) == pytest.approx(loss.mean().item(), rel=1e-14, abs=1e-15)
    total = sparsemap_loss(scores, y, case.factor, additional, reduction="sum")
    assert total == pytest.approx(loss.sum().item(), rel=1e-14, abs=1e-15)


@every_case
def test_gradient_is_marginals_minus_target(case: Case):
    scores, additional = case.draw(8)
    scores.requires_grad_()
    if additional is not None:
        additional.requires_grad_()
    y = targets(case, 8)
    u, found = sparsemap(scores, case.factor, additional, return_structures=True)
    sparsemap_loss(scores, y, case.factor, additional, reduction="sum").backward()
    assert torch.equal(scores.grad, (u - y).detach())
    if additional is not None:
        expected = found.additional_marginals - case.factor.additional_features(y)
        assert torch.allclose(additional.grad, expected, rtol=0, atol=1e-15)


@some_cases
def test_derivatives_match_finite_differences(case: Case):
    scores, additional = generic(case, 1)
    y = targets(case, 1)
    inputs = [scores.requires_grad_()] + ([] if additional is None else [additional.requires_grad_()])

    def f(*inputs: Tensor) -> Tensor:
        return sparsemap_loss(inputs[0], y, case.factor, *inputs[1:])

    assert gradcheck(f, inputs, atol=1e-8, check_forward_ad=True)
    assert gradgradcheck(f, inputs, atol=1e-8)


@some_cases
def test_loss_vanishes_where_the_target_is_the_answer(case: Case):
    scores, additional = case.draw(10)
    u, found = sparsemap(scores, case.factor, additional, return_structures=True)
    loss = sparsemap_loss(scores, u, case.factor, additional, found.additional_marginals, reduction="none")
    assert (loss >= 0).all() and loss.max() <= 1e-14
    y = targets(case, 10)
    # Far enough ahead of all others, a structure is the answer itself.
    ahead = sparsemap_loss(50 * (2 * y - 1), y, case.factor, None if additional is None else 0 * additional)
    assert ahead.item() == 0


def test_loss_over_subsets_is_that_of_their_omega():
    import omegamax

    z, y = torch.randn(9, 6, dtype=F64), omegamax.k_subsets(torch.randn(9, 6, dtype=F64), 2)
    ours = sparsemap_loss(z, y, Subsets(2), reduction="none")
    theirs = fenchel_young_loss(z, y, omegamax.KSubsets(2), reduction="none")
    assert (ours - theirs).abs().max() <= 1e-14


def test_gradients_reach_the_target_and_the_factor():
    z = torch.tensor([[0.3, -0.2, 0.9, 0.1, 0.55]], dtype=F64)
    y = torch.tensor([[0.5, 0.5, 0.25, 0.5, 0.25]], dtype=F64, requires_grad=True)
    v = torch.tensor([[0.25, 0.0, 0.25, 0.0]], dtype=F64, requires_grad=True)
    t = torch.tensor(0.35, dtype=F64, requires_grad=True)

    def f(y: Tensor, v: Tensor, t: Tensor) -> Tensor:
        return sparsemap_loss(z, y, SequentialSubsets(2, t), target_additional=v)

    assert gradcheck(f, (y, v, t), atol=1e-8)


def test_absent_positions_cost_nothing():
    scores, y = torch.randn(3, 6, 3, dtype=F64), torch.nn.functional.one_hot(torch.randint(3, (3, 6)), 3).to(F64)
    factor = Sequence(*(torch.randn(*s, dtype=F64) for s in ((3,), (3, 3), (3,))))
    for keep in ([0, 1, 2, 3], [2, 3, 4, 5]):
        mask = torch.zeros(6, 1, dtype=torch.bool)
        mask[keep] = True
        loss = sparsemap_loss(scores, y * mask, factor, mask=mask, reduction="none")
        assert (loss - sparsemap_loss(scores[:, keep], y[:, keep], factor, reduction="none")).abs().max() <= 1e-12
    tree, heads = torch.randn(3, 4, 4, dtype=F64), torch.eye(4, dtype=F64).expand(3, 4, 4)
    mask = torch.tensor([True, True, False, False])[:, None]
    loss = sparsemap_loss(tree, heads * mask, DependencyTree(), mask=mask, reduction="none")
    expected = sparsemap_loss(tree[:, :2, :2], heads[:, :2, :2], DependencyTree(), reduction="none")
    assert (loss - expected).abs().max() <= 1e-13


def test_target_with_a_forbidden_part_costs_infinity():
    scores = torch.tensor([[-math.inf, 1.0, 0.0, 0.5]], dtype=F64, requires_grad=True)
    loss = sparsemap_loss(scores, torch.tensor([[1.0, 1.0, 0.0, 0.0]], dtype=F64), Subsets(2))
    assert loss.item() == math.inf
    fine = sparsemap_loss(scores, torch.tensor([[0.0, 1.0, 0.0, 1.0]], dtype=F64), Subsets(2))
    fine.backward()
    assert fine.isfinite() and scores.grad.isfinite().all()


def test_dtype_is_that_of_the_scores():
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        scores = torch.randn(3, 5).to(dtype).requires_grad_()
        loss = sparsemap_loss(scores, torch.tensor([1.0, 1, 0, 0, 0], dtype=dtype).expand(3, 5), Subsets(2))
        loss.backward()
        assert loss.dtype == dtype and scores.grad.dtype == dtype


def test_arguments_of_the_wrong_kind_are_refused():
    z, y = torch.randn(2, 5), torch.zeros(2, 5)
    with pytest.raises(ValueError, match=r"sparsemap_loss: target must have the shape \(2, 5\) .* \(2, 4\)"):
        sparsemap_loss(z, y[:, :4], Subsets(0))
    with pytest.raises(TypeError, match=r"sparsemap_loss: target must be a floating-point tensor"):
        sparsemap_loss(z, y.long(), Subsets(0))
    with pytest.raises(ValueError, match=r"sparsemap_loss: reduction must be one of"):
        sparsemap_loss(z, y, Subsets(0), reduction="median")
    with pytest.raises(ValueError, match=r"sparsemap_loss: target_additional \[\*, 4\] is needed"):
        sparsemap_loss(z, y + 0.2, SequentialSubsets(1, 0.5))
    with pytest.raises(ValueError, match=r"sparsemap_loss: target_additional must have shape \(2, 4\), got \(2, 3\)"):
        sparsemap_loss(z, y + 0.2, SequentialSubsets(1, 0.5), target_additional=torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"sparsemap_loss: k=6 is more than"):
        sparsemap_loss(z, y, Subsets(6))


def test_loss_is_convex_in_both_scores():
    case = next(c for c in CASES if c.name == "Sequence")
    (a, av), (b, bv) = case.draw(20), case.draw(20, 4.0, seed=1)
    y = targets(case, 20)

    def loss(scores: Tensor, additional: Tensor) -> Tensor:
        return sparsemap_loss(scores, y, case.factor, additional, reduction="none")

    assert (loss((a + b) / 2, (av + bv) / 2) <= (loss(a, av) + loss(b, bv)) / 2 + 1e-13).all()
