"""The regulariser of sequential k-subsets: the value of its transitions is that of a linear program."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor
from torch.autograd.gradcheck import gradcheck

import omegamax
from omegamax import SequentialKSubsets
from omegamax._warnings import ConvergenceWarning

F64 = torch.float64
CASES = [(5, 2, False), (6, 3, False), (6, 3, True), (4, 4, False), (4, 0, False), (1, 1, False), (2, 1, True)]
every_case = pytest.mark.parametrize("size, k, at_most", CASES)


def sequences(size: int, k: int, at_most: bool) -> Tensor:
    every = itertools.product((0.0, 1.0), repeat=size)
    return torch.tensor([s for s in every if sum(s) == k or (at_most and sum(s) < k)], dtype=F64)


def mixtures(subsets: Tensor, count: int) -> Tensor:
    """Marginals of distributions, some of them over few sequences."""
    generator = torch.Generator().manual_seed(len(subsets))
    weights = torch.rand(count, len(subsets), dtype=F64, generator=generator).pow(8)
    return weights / weights.sum(-1, keepdim=True) @ subsets


@every_case
@pytest.mark.parametrize("transition", [0.5, -1.25, 8.0, "edges"])
def test_pair_score_is_the_value_of_a_linear_program(size: int, k: int, at_most: bool, transition):
    t = torch.linspace(-1, 2, size - 1, dtype=F64) if transition == "edges" else torch.tensor(transition, dtype=F64)
    subsets = sequences(size, k, at_most)
    pairs = ((subsets[:, 1:] * subsets[:, :-1]) * t).sum(-1)
    points = torch.cat([subsets, mixtures(subsets, 12)])
    constraints = np.vstack([subsets.T.numpy(), np.ones(len(subsets))])
    truth = [
        -linprog(-pairs.numpy(), A_eq=constraints, b_eq=np.append(p.numpy(), 1), method="highs-ds").fun for p in points
    ]
    ours = SequentialKSubsets(k, t, at_most).pair_score(points)
    assert (ours - torch.tensor(truth, dtype=F64)).abs().max() <= 1e-9


def test_value_is_half_the_squared_norm_whatever_the_transition():
    p = torch.tensor([[0.5, 1.0, 0.5], [1.0, 1.0, 0.0]], dtype=F64)
    assert torch.equal(SequentialKSubsets(2, 3.0)(p), torch.tensor([0.75, 1.0], dtype=F64))


@every_case
def test_conjugate_is_the_maximum_over_the_sequences_where_one_of_them_leads(size: int, k: int, at_most: bool):
    omega = SequentialKSubsets(k, 0.5, at_most)
    subsets = sequences(size, k, at_most)
    for y in subsets:
        z = 2 * omega.margin * (y - 0.5)
        best = ((subsets * z).sum(-1) + 0.5 * (subsets[:, 1:] * subsets[:, :-1]).sum(-1) - omega(subsets)).max()
        assert (omega.argmax(z) - y).abs().max() <= 1e-12
        assert abs(omega.conjugate(z) - best) <= 1e-12
        assert omegamax.fenchel_young_loss(z, y, omega) <= 1e-12


def test_gradients_reach_the_target_and_the_transition():
    z = torch.randn(3, 5, dtype=F64, requires_grad=True)
    y = mixtures(sequences(5, 2, True), 3).requires_grad_()
    t = torch.tensor(0.6, dtype=F64, requires_grad=True)
    edges = torch.tensor([0.6, -0.3, 0.2, 0.9], dtype=F64, requires_grad=True)
    for given in (t, edges):
        # With at most two ones every direction of y stays in the domain.
        assert gradcheck(
            lambda z, y, t: omegamax.fenchel_young_loss(z, y, SequentialKSubsets(2, t, at_most=True), "none"),
            (z, y, given),
            atol=1e-7,
        )


def test_point_outside_the_domain_is_reported():
    with pytest.warns(ConvergenceWarning, match=r"SequentialKSubsets: .* off by 0\.\d+: are they in the domain"):
        SequentialKSubsets(2, 1.0).pair_score(torch.tensor([1.0, 1.0, 1.0], dtype=F64))


def test_margin_is_enough_and_counts_the_pairs():
    assert SequentialKSubsets(2).margin == 1
    assert SequentialKSubsets(2, -0.5).margin == 2
    assert SequentialKSubsets(2, torch.tensor([0.5, -1.5])).margin == 4


def test_operator_passes_the_checks_of_torch_library():
    p = mixtures(sequences(5, 2, False), 3)
    torch.library.opcheck(torch.ops.omegamax.best_pairs.default, (p, torch.full((3, 4), 0.5, dtype=F64), 2, False))
    score = torch.ops.omegamax.best_sequential_subset_score.default
    torch.library.opcheck(score, (p, torch.full((3, 4), 0.5, dtype=F64), 2, False))


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("at_most", [False, True])
def test_conjugate_in_single_precision_is_that_of_double(scale: float, at_most: bool):
    omega = SequentialKSubsets(3, 0.5, at_most)
    z = scale * torch.randn(50, 12)
    torch.testing.assert_close(omega.conjugate(z).double(), omega.conjugate(z.double()), rtol=3e-7, atol=3e-7)
