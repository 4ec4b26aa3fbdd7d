"""Bilinear attention against its formula."""

import pytest
import torch

import omegamax
from omegamax import nn


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_weights_are_the_map_of_the_bilinear_form(batch):
    attend = nn.BilinearAttention(4, 6, transform="sparsemax", dtype=torch.float64)
    query, keys, values = (torch.randn(*batch, *shape, dtype=torch.float64) for shape in ((4,), (5, 6), (5, 2)))
    context, weights = attend(query, keys, values)
    z = torch.einsum("...a,ab,...jb->...j", query, attend.weight, keys)
    torch.testing.assert_close(weights, omegamax.sparsemax(z), rtol=0, atol=1e-12)
    torch.testing.assert_close(context, torch.einsum("...j,...jd->...d", weights, values), rtol=0, atol=1e-12)


def test_identity_is_the_dot_product():
    attend = nn.BilinearAttention(4, 4, transform="entmax15")
    torch.nn.init.eye_(attend.weight)
    query, keys = torch.randn(3, 4), torch.randn(3, 5, 4)
    context, _ = attend(query, keys)
    wanted = omegamax.attention(query[:, None], keys, keys, "entmax15", scale=1.0)[:, 0]
    torch.testing.assert_close(context, wanted)


def test_scores_start_with_variance_one():
    attend = nn.BilinearAttention(64, 16)
    z = attend.scores(torch.randn(2000, 64), torch.randn(2000, 8, 16))
    assert abs(z.var().item() - 1) < 0.15


@pytest.mark.parametrize("transform", ["softmax", "normmax", omegamax.Tsallis(1.3), nn.Entmax(learnable=True)])
def test_gradients_reach_everything_and_masked_keys_count_for_nothing(transform):
    attend = nn.BilinearAttention(4, 6, transform)
    query, keys = torch.randn(2, 4, requires_grad=True), torch.randn(2, 5, 6)
    mask = torch.tensor([[True, True, False, True, False], [False] * 5])
    context, weights = attend(query, keys, mask=mask)
    wanted, _ = attend(query[0], keys[0, [0, 1, 3]])
    torch.testing.assert_close(context[0], wanted)
    assert (weights[~mask] == 0).all() and (context[1] == 0).all()
    context.square().sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.abs().sum() > 0 for p in attend.parameters())
    assert query.grad[1].abs().sum() == 0


def test_derivatives_are_those_of_the_formula():
    attend = nn.BilinearAttention(2, 3, "softmax", dtype=torch.float64)
    given = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 2), (2, 4, 3))]
    assert torch.autograd.gradcheck(attend, given) and torch.autograd.gradgradcheck(attend, given)


def test_misuse_is_refused_by_name():
    attend = nn.BilinearAttention(4, 6)
    with pytest.raises(ValueError, match="BilinearAttention: query, keys and values must have shapes"):
        attend(torch.randn(2, 4), torch.randn(2, 6))
    with pytest.raises(ValueError, match="BilinearAttention: mask of shape"):
        attend(torch.randn(2, 4), torch.randn(2, 5, 6), mask=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="BilinearAttention: key_dim must be an integer"):
        nn.BilinearAttention(4, 0)
