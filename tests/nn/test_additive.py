"""Additive attention against its formula."""

import pytest
import torch

import omegamax
from omegamax import nn


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_weights_are_the_map_of_the_hidden_layer(batch):
    attend = nn.AdditiveAttention(4, 6, hidden_dim=7, transform="sparsemax")
    query, keys, values = torch.randn(*batch, 4), torch.randn(*batch, 5, 6), torch.randn(*batch, 5, 2)
    context, weights = attend(query, keys, values)
    w, u, b, s = attend.query.weight, attend.key.weight, attend.query.bias, attend.score.weight[0]
    z = torch.stack([torch.tanh(query @ w.T + b + keys[..., j, :] @ u.T) @ s for j in range(5)], -1)
    torch.testing.assert_close(weights, omegamax.sparsemax(z))
    torch.testing.assert_close(context, sum(weights[..., j, None] * values[..., j, :] for j in range(5)))


def test_values_default_to_the_keys():
    attend = nn.AdditiveAttention(4, 6, 7)
    query, keys = torch.randn(2, 4), torch.randn(2, 5, 6)
    torch.testing.assert_close(attend(query, keys), attend(query, keys, keys))


@pytest.mark.parametrize("transform", ["softmax", "entmax15", nn.Entmax(learnable=True)])
def test_masked_keys_count_for_nothing(transform):
    attend = nn.AdditiveAttention(4, 6, 7, transform)
    query, keys = torch.randn(2, 4), torch.randn(2, 5, 6)
    mask = torch.tensor([[True, True, False, True, False], [False] * 5])
    context, weights = attend(query, keys, mask=mask)
    wanted, _ = attend(query[0], keys[0, [0, 1, 3]])
    torch.testing.assert_close(context[0], wanted)
    assert (weights[~mask] == 0).all() and (context[1] == 0).all()
    context.sum().backward()
    assert all(p.grad.isfinite().all() for p in attend.parameters())


def test_bad_shapes_are_refused_by_name():
    attend = nn.AdditiveAttention(4, 6, 7)
    with pytest.raises(ValueError, match="AdditiveAttention: query, keys and values must have shapes"):
        attend(torch.randn(2, 4), torch.randn(2, 6))
    with pytest.raises(ValueError, match="AdditiveAttention: mask of shape"):
        attend(torch.randn(2, 4), torch.randn(2, 5, 6), mask=torch.ones(2, 4, dtype=torch.bool))
