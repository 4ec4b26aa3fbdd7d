"""A factor as an Omega: its map, its conjugate, its loss and its margin."""

from __future__ import annotations

import math

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from omegamax import attention, fenchel_young_loss
from omegamax.structured import (
    DependencyTree,
    Matching,
    Sequence,
    SequentialSubsets,
    SpanningTree,
    StructuredOmega,
    Subsets,
    sparsemap,
    sparsemap_loss,
)
from structured.cases import COMPLETE, F64, Case, every_case
from structured.test_loss import targets, value


def omega_of(case: Case) -> StructuredOmega:
    return StructuredOmega(case.factor, case.event)


@every_case
def test_map_is_sparsemap_and_conjugate_its_value(case: Case):
    scores, _ = case.draw(6)
    omega = omega_of(case)
    z = scores.flatten(1)
    torch.testing.assert_close(omega.argmax(z), sparsemap(scores, case.factor).flatten(1), rtol=0, atol=0)
    extra = case.factor.additional_scores(scores)
    y = case.structures[:1].expand(6, *case.event)
    at = (y * scores - y.square() / 2).flatten(1).sum(-1)
    if extra is not None:
        at = at + (case.factor.additional_features(y) * extra).sum(-1)
    wanted = value(case, scores, extra, y) + at
    torch.testing.assert_close(omega.conjugate(z), wanted, rtol=0, atol=1e-12)


@every_case
def test_conjugate_has_the_marginals_as_gradient_and_their_jacobian_as_the_next(case: Case):
    scores, _ = case.draw(1)
    z, omega = scores.flatten(1).requires_grad_(), omega_of(case)
    (slope,) = torch.autograd.grad(omega.conjugate(z).sum(), z)
    torch.testing.assert_close(slope, omega.argmax(z.detach()), rtol=0, atol=1e-14)
    assert gradcheck(omega.conjugate, z, fast_mode=True) and gradgradcheck(omega.conjugate, z, fast_mode=True)


def test_gradients_of_the_conjugate_reach_the_factor():
    transition = torch.randn(2, 2, dtype=F64, requires_grad=True)
    z = torch.randn(3, 8, dtype=F64, requires_grad=True)

    def conjugate(z, transition):
        return StructuredOmega(Sequence(transition=transition), (4, 2)).conjugate(z)

    assert gradcheck(conjugate, (z, transition))


@every_case
def test_loss_is_that_of_sparsemap_where_the_value_is_known(case: Case):
    scores, _ = case.draw(6)
    y = targets(case, 6)
    wanted = sparsemap_loss(scores, y, case.factor, reduction="none")
    loss = fenchel_young_loss(scores.flatten(1), y.flatten(1), omega_of(case), "none")
    torch.testing.assert_close(loss, wanted, rtol=0, atol=1e-12)


def test_value_of_marginals_with_additional_scores_is_refused():
    omega = StructuredOmega(SequentialSubsets(2, 0.5))
    y = torch.tensor([1.0, 1.0, 0.0])
    assert omega(y) == 1.0 - 0.5
    with pytest.raises(NotImplementedError, match="known of 0/1 structures only"):
        omega(torch.tensor([1.0, 0.5, 0.5]))


@pytest.mark.parametrize(
    "omega",
    [
        StructuredOmega(Subsets(2)),
        StructuredOmega(DependencyTree(), (3, 3)),
        StructuredOmega(Matching(), (3, 4)),
        StructuredOmega(Sequence(), (3, 2)),
        StructuredOmega(SpanningTree(COMPLETE)),
    ],
    ids=repr,
)
def test_margin_is_enough(omega: StructuredOmega):
    size = math.prod(omega.shape) if omega.shape else 10
    y = omega.argmax(1e6 * torch.randn(20, size, dtype=F64)).round()
    assert omega.margin == 1.0 and (y.sum(-1) == omega.total).all()
    noise = torch.rand(20, size, dtype=F64)
    inside, outside = 2 + noise, 1 - noise  # the least lead is at least 1
    assert (fenchel_young_loss(torch.where(y == 1, inside, outside), y, omega, "none") == 0).all()
    less = fenchel_young_loss(0.9 * y, y, omega, "none")
    assert (less > 0).all()


def test_margin_is_unknown_where_more_than_leads_counts():
    for omega in (
        StructuredOmega(Subsets(2, at_most=True)),
        StructuredOmega(SequentialSubsets(2, 0.5)),
        StructuredOmega(Sequence(transition=torch.eye(2)), (3, 2)),
    ):
        assert omega.margin == math.inf


def test_masks_half_precision_and_attention():
    omega = StructuredOmega(Matching(), (3, 3))
    q, k = torch.randn(2, 4, 5), torch.randn(2, 9, 5)
    out, weights = attention(q, k, k, omega, return_weights=True)
    assert out.shape == (2, 4, 5)
    torch.testing.assert_close(weights.unflatten(-1, (3, 3)).sum(-1), torch.ones(2, 4, 3))
    mask = torch.ones(9, dtype=torch.bool)
    mask[0] = False
    assert omega.argmax(torch.randn(9), mask=mask)[0] == 0
    assert omega.argmax(torch.randn(9).half()).dtype == torch.float16


def test_misuse_is_refused_by_name():
    with pytest.raises(ValueError, match=r"StructuredOmega: shape of the 2 axes of DependencyTree\(\) is needed"):
        StructuredOmega(DependencyTree())
    with pytest.raises(ValueError, match=r"StructuredOmega: shape for Subsets\(k=2\) must have 1 axes, got \(2, 3\)"):
        StructuredOmega(Subsets(2), (2, 3))
    with pytest.raises(TypeError, match="StructuredOmega: factor must be"):
        StructuredOmega("trees")
    with pytest.raises(ValueError, match=r"StructuredOmega: scores must be \[\*, 9\]"):
        StructuredOmega(DependencyTree(), (3, 3)).argmax(torch.zeros(8))
