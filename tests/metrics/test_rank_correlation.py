"""Rank correlation against SciPy's spearmanr."""

import math
import warnings

import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

import omegamax
from omegamax.densities import Gaussian
from omegamax.metrics import on_grid, rank_correlation

F64 = torch.float64


def spearman(p, q):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.ConstantInputWarning)
        return float(scipy.stats.spearmanr(p.numpy(), q.numpy()).statistic)


@pytest.mark.parametrize("length", [2, 3, 10, 196])
def test_value_is_scipys_without_ties(length):
    p, q = torch.rand(length, dtype=F64), torch.rand(length, dtype=F64)
    assert abs(rank_correlation(p, q).item() - spearman(p, q)) <= 1e-15


cell = st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0, -2.0, math.inf, -math.inf])


@given(st.lists(st.tuples(cell, cell), min_size=2, max_size=12))
def test_value_is_scipys_with_ties(cells):
    p, q = torch.tensor(cells, dtype=F64).unbind(-1)
    ours, wanted = rank_correlation(p, q).item(), spearman(p, q)
    assert (math.isnan(ours) and math.isnan(wanted)) or abs(ours - wanted) <= 1e-15


def test_zeros_of_sparse_attention_share_their_rank():
    p, q = omegamax.sparsemax(torch.randn(2, 8, 30, dtype=F64))
    value = rank_correlation(p, q)
    for k in range(8):
        assert abs(value[k].item() - spearman(p[k], q[k])) <= 1e-14


def test_the_same_order_is_exactly_one():
    p = torch.rand(5, 1000)
    assert rank_correlation(p, p.exp()).eq(1).all()
    assert rank_correlation(p, -p).eq(-1).all()


def test_broadcasting_and_axes():
    p, q = torch.rand(6, 3, 4, dtype=F64), torch.rand(3, 4, dtype=F64)
    value = rank_correlation(p, q, dim=(1, 2))
    assert value.shape == (6,)
    for k in range(6):
        assert abs(value[k].item() - spearman(p[k].flatten(), q.flatten())) <= 1e-15


def test_what_is_masked_has_no_rank():
    p, q = torch.rand(4, 9, dtype=F64), torch.rand(4, 9, dtype=F64).round(decimals=1)
    p[:, 0], q[:, 1] = math.inf, math.inf  # equal to nothing that fills the gaps
    keep = torch.rand(4, 9) < 0.7
    keep[:, :4] = True
    p[~keep] = math.nan
    value = rank_correlation(p, q, mask=keep)
    for k in range(4):
        assert abs(value[k].item() - spearman(p[k, keep[k]], q[k, keep[k]])) <= 1e-15


def test_undefined_is_nan():
    p = torch.tensor([[0.5, 0.5, 0.5], [0.1, math.nan, 0.2], [0.1, 0.2, 0.3]])
    q = torch.tensor([1.0, 2.0, 3.0])
    assert rank_correlation(p, q).isnan().tolist() == [True, True, False]
    keep = torch.tensor([[True, False, False], [False, False, False], [True, True, False]])
    assert rank_correlation(q, q, mask=keep).isnan().tolist() == [True, True, False]
    assert rank_correlation(torch.ones(1), torch.ones(1)).isnan()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_every_dtype_is_ranked_as_it_is(dtype):
    p = (10 * torch.rand(20) - 5).clamp(min=0).to(dtype)
    q = torch.rand(20)
    value = rank_correlation(p, q)
    assert value.dtype == torch.float32
    assert abs(value.item() - spearman(p.double(), q)) <= 1e-7
    large = 2**40 + torch.arange(20)  # all equal in float32
    assert rank_correlation(large, torch.arange(20)) == 1


def test_no_gradient():
    p = torch.rand(5, requires_grad=True)
    assert not rank_correlation(p, torch.rand(5)).requires_grad


def test_density():
    density, human = Gaussian(torch.rand(3, 2), 0.05), torch.rand(3, 5, 5)
    wanted = rank_correlation(on_grid(density, 5, samples=3), human, dim=(-2, -1))
    assert torch.equal(rank_correlation(density, human, size=5, samples=3), wanted)


def test_vmap():
    p, q = torch.rand(4, 6), torch.rand(4, 6)
    assert torch.equal(torch.func.vmap(rank_correlation)(p, q), rank_correlation(p, q))
