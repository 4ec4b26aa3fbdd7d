"""SparseMAP and its relatives as modules."""

from __future__ import annotations

import pytest
import torch

import omegamax
from omegamax import nn, structured
from omegamax.structured import DependencyTree, Sequence, SpanningTree, Structures, Subsets


def test_module_applies_the_function():
    scores = torch.randn(2, 4, 4)
    for factor in (DependencyTree(), DependencyTree(projective=True, single_root=True)):
        assert torch.equal(nn.SparseMAP(factor)(scores), structured.sparsemap(scores, factor))
    half = nn.SparseMAP(DependencyTree(), two_state=True)(scores)
    assert (half - structured.sparsemap(scores / 2, DependencyTree())).abs().max() <= 1e-6
    marginals, found = nn.SparseMAP(DependencyTree(), return_structures=True)(scores)
    assert torch.equal(marginals, structured.sparsemap(scores, DependencyTree())) and isinstance(found, Structures)


def test_tensors_of_the_factor_belong_to_the_module():
    start, transition = torch.nn.Parameter(torch.randn(3)), torch.randn(3, 3)
    layer = nn.SparseMAP(Sequence(start, transition))
    assert dict(layer.named_parameters()).keys() == {"start"}
    assert layer.state_dict().keys() == {"start", "transition"}
    scores = torch.randn(2, 5, 3)
    before = layer(scores)
    layer.double()
    assert layer.factor.transition.dtype == torch.float64
    assert (layer(scores.double()) - before).abs().max() <= 1e-6
    other = nn.SparseMAP(Sequence(torch.nn.Parameter(torch.zeros(3)), torch.zeros(3, 3)))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(scores), nn.SparseMAP(Sequence(start, transition))(scores))
    layer(scores.double())[:, 0].square().sum().backward()
    assert start.grad is not None and layer.start.grad.any()


def test_graph_of_a_spanning_tree_stays_where_it_is():
    layer = nn.SparseMAP(SpanningTree(torch.tensor([[0, 1, 2], [1, 2, 0]])))
    assert not layer.state_dict() and layer(torch.randn(2, 3)).shape == (2, 3)


def test_additional_scores_and_masks_are_passed_on():
    scores, additional = torch.randn(2, 5, 3), torch.randn(2, 3 + 4 * 9 + 3)
    mask = torch.tensor([True, True, True, False, False])[:, None]
    layer = nn.SparseMAP(Sequence())
    assert torch.equal(layer(scores, additional), structured.sparsemap(scores, Sequence(), additional))
    assert torch.equal(layer(scores, additional, mask), structured.sparsemap(scores, Sequence(), additional, mask=mask))


def test_loss_module_applies_the_function():
    scores, target = torch.randn(3, 5, requires_grad=True), torch.tensor([1.0, 1, 0, 0, 0]).expand(3, 5)
    for reduction in ("mean", "sum", "none"):
        loss = nn.SparseMAPLoss(Subsets(2), reduction)(scores, target)
        assert torch.equal(loss, structured.sparsemap_loss(scores, target, Subsets(2), reduction=reduction))
    assert "Subsets(k=2), reduction='sum'" in repr(nn.SparseMAPLoss(Subsets(2), "sum"))
    with pytest.raises(ValueError, match="SparseMAPLoss: reduction"):
        nn.SparseMAPLoss(Subsets(2), "median")
    with pytest.raises(TypeError, match="SparseMAP: factor must be a Factor, got int"):
        nn.SparseMAP(2)


def test_training_on_the_loss_finds_the_target():
    torch.manual_seed(1)
    target = torch.nn.functional.one_hot(torch.tensor([0, 0, 1, 1, 2, 2]), 3).float()
    layer = nn.SparseMAPLoss(Sequence(transition=torch.nn.Parameter(torch.zeros(3, 3))))
    scores = torch.nn.Parameter(0.1 * torch.randn(6, 3))
    optimizer = torch.optim.SGD([scores, *layer.parameters()], lr=1.0)
    for _ in range(30):
        optimizer.zero_grad()
        loss = layer(scores, target)
        loss.backward()
        optimizer.step()
    assert loss.item() == 0  # the margin is reached, and nothing moves any more
    assert torch.equal(structured.sparsemap(scores, layer.factor), target)


def test_sequential_subsets_learn_their_transition():
    layer = nn.SequentialKSubsets(2, transition=torch.nn.Parameter(torch.tensor(0.5)))
    z = torch.tensor([0.9, 0.7, 0.5, 0.8])
    assert torch.equal(layer(z), omegamax.sequential_k_subsets(z, 2, 0.5))
    layer(z)[:2].sum().backward()
    assert layer.transition.grad is not None
    mask = torch.tensor([True, True, False, True])
    assert torch.equal(layer(z, mask), omegamax.sequential_k_subsets(z, 2, 0.5, mask=mask))
    assert "k=2, transition=0.5, dim=0, at_most=True" in repr(nn.SequentialKSubsets(2, 0.5, dim=0, at_most=True))
    with pytest.raises(ValueError, match="SequentialKSubsets: k must be an integer >= 0"):
        nn.SequentialKSubsets(-1)
