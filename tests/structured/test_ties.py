"""Scores at which many structures tie, such as the zeros of a fresh layer: the gradient must see them all."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

import omegamax
from omegamax.structured import DependencyTree, Factor, Sequence, SpanningTree, sparsemap

F64 = torch.float64
EDGES = torch.combinations(torch.arange(5)).T
HALVES = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.5], [0.5, 0.5, 0.5, 0.5], [0.5, 0.0, 0.5, 0.0]])
# Scores at which ties are many and the marginals still smooth.
CASES = {
    "flat sequence": (Sequence(), torch.zeros(4, 3)),
    "flat sequence with transitions": (Sequence(transition=0.2 * torch.eye(3, dtype=F64)), torch.zeros(4, 3)),
    "flat spanning tree": (SpanningTree(EDGES), torch.zeros(10)),
    "spanning tree of two scores": (SpanningTree(EDGES), torch.arange(10) % 2 / 2),
    "tree": (DependencyTree(), HALVES),
    "projective tree": (DependencyTree(projective=True), HALVES),
}


class OneOfEach(Factor):
    """One entry of every pair."""

    def maximize(self, scores: Tensor, additional: Tensor | None) -> Tensor:
        return scores.unflatten(-1, (-1, 2)).argmax(-1)

    def features(self, structures: Tensor) -> tuple[Tensor, Tensor | None]:
        return torch.nn.functional.one_hot(structures, 2).flatten(-2), None


def differences(f, z: Tensor, step: float = 1e-5) -> Tensor:
    columns = []
    for nudge in step * torch.eye(z.numel(), dtype=F64):
        nudge = nudge.reshape(z.shape)
        columns.append((f(z + nudge) - f(z - nudge)).flatten() / (2 * step))
    return torch.stack(columns, 1)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_jacobian_spans_the_whole_face(name: str, backend: str):
    factor, z = CASES[name]
    z = z.to(F64)
    with omegamax.backend(backend):
        ours = jacobian(lambda z: sparsemap(z, factor), z).reshape(z.numel(), z.numel())
        truth = differences(lambda z: sparsemap(z, factor), z)
    assert (ours - truth).abs().max() <= 1e-9


def test_jacobian_of_a_custom_factor_spans_the_whole_face():
    z = torch.zeros(2, 6, dtype=F64, requires_grad=True)
    rows = torch.autograd.grad(sparsemap(z, OneOfEach())[:, 0].sum(), z)[0]
    expected = torch.tensor([0.5, -0.5, 0, 0, 0, 0], dtype=F64).expand(2, 6)
    assert (rows - expected).abs().max() <= 1e-12


def test_structures_that_tie_have_no_probability_and_the_others_are_as_they_were():
    u, found = sparsemap(torch.zeros(4, 3, dtype=F64), Sequence(), return_structures=True)
    p = found.probabilities
    assert (p >= 0).all() and (p.sum() - 1).abs() <= 1e-15
    assert ((p[:, None, None] * found.structures).sum(0) - u).abs().max() <= 1e-15
    assert (u - 1 / 3).abs().max() <= 1e-15


def test_generic_scores_take_in_nothing_more():
    z = torch.randn(20, 5, 3, dtype=F64)
    _, found = sparsemap(z, Sequence(transition=torch.randn(3, 3, dtype=F64)), return_structures=True)
    assert ((found.probabilities > 0).sum(-1) == found.count).all()


def test_training_from_zeros_gets_under_way():
    z = torch.zeros(5, 5, requires_grad=True)
    target = torch.eye(5).roll(1, 1)
    target[0] = torch.tensor([1.0, 0, 0, 0, 0])
    loss = (sparsemap(z, DependencyTree()) - target).square().sum()
    (grad,) = torch.autograd.grad(loss, z)
    after = (sparsemap(z.detach() - 0.1 * grad, DependencyTree()) - target).square().sum()
    assert after < 0.95 * loss.detach()
