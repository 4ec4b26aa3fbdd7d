"""Weighted expectation-maximisation: against loops, and against its own identities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mixtures.clouds import GRID, assert_same, cloud, double, moments
from omegamax import Tsallis
from omegamax.basis import grid_positions
from omegamax.densities import BetaGaussian, Gaussian, Mixture, fenchel_young_loss
from omegamax.mixtures import em_objective, weighted_em
from omegamax.nn import ContinuousAttention


def looped_em(x, w, weights, means, covs, iterations, floor=0.0):
    """Eqs. 8 to 11 of the paper, point by point and component by component."""
    w = w / w.sum()
    for _ in range(iterations):
        gamma = np.zeros((len(x), len(weights)))
        for i, point in enumerate(x):
            for k in range(len(weights)):
                d = point - means[k]
                q = d @ np.linalg.solve(covs[k], d)
                gamma[i, k] = weights[k] * math.exp(-q / 2) / math.sqrt(np.linalg.det(2 * math.pi * covs[k]))
            gamma[i] /= gamma[i].sum()
        weights, means, covs = np.array(weights), np.array(means), np.array(covs)
        for k in range(len(weights)):
            weights[k] = sum(w[i] * gamma[i, k] for i in range(len(x)))
            means[k] = sum(w[i] * gamma[i, k] * x[i] for i in range(len(x))) / weights[k]
            scatter = sum(w[i] * gamma[i, k] * np.outer(x[i] - means[k], x[i] - means[k]) for i in range(len(x)))
            values, vectors = np.linalg.eigh(scatter / weights[k])
            covs[k] = (vectors * np.maximum(values, floor)) @ vectors.T
    return weights, means, covs


# --- Against loops


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("floor", [0.0, 0.4])  # 0.4 is more than some of the components have
def test_each_iteration_is_that_of_the_loop(n: int, floor: float):
    x, w = cloud(points=25, n=n)
    start = weighted_em(x, w, 3, 0, "kmeans++", floor, generator=torch.Generator().manual_seed(1))
    state = [t.numpy() for t in moments(start)]
    for t in range(1, 6):
        state = looped_em(x.numpy(), w.numpy(), *state, 1, floor)
        p = weighted_em(x, w, 3, t, start, floor)
        for a, b in zip(moments(p), state, strict=True):
            torch.testing.assert_close(a, torch.from_numpy(np.asarray(b)), atol=1e-10, rtol=1e-10)


def test_floor_holds_some_components_in_that_test():
    x, w = cloud(points=25)
    p = weighted_em(x, w, 3, 5, "kmeans++", 0.4, generator=torch.Generator().manual_seed(1))
    values = torch.linalg.eigvalsh(p.components.covariance_matrix)
    assert (values < 0.4 + 1e-9).any() and (values > 0.5).any()


def test_weights_need_not_sum_to_one():
    x, w = cloud(3)
    assert_same(weighted_em(x, 17 * w, 2), weighted_em(x, w, 2))
    torch.testing.assert_close(weighted_em(x, w, 2).weights.sum(-1), torch.ones(3, dtype=double))


def test_one_component_has_the_moments_of_the_points():
    x, w = cloud()
    p = w / w.sum()
    mean = p @ x
    (m,), (c,) = moments(weighted_em(x, w, 1))[1:]
    torch.testing.assert_close(m, mean)
    torch.testing.assert_close(c, torch.einsum("l,li,lj->ij", p, x - mean, x - mean))


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_one_component_of_spread_points_is_continuous_attention(alpha: float):
    from omegamax.basis import GaussianRBF

    w = torch.rand(3, 64, dtype=double)
    attention = ContinuousAttention(GaussianRBF.grid(2, 2, 0.1), alpha, positions=(8, 8))
    density = attention.match(w)
    p = weighted_em(GRID, w, 1, alpha=alpha, spread=1 / (12 * 64))
    torch.testing.assert_close(p.components.scale[:, 0], density.scale, atol=1e-7, rtol=1e-6)
    torch.testing.assert_close(p.components.mean[:, 0], density.mean, atol=1e-7, rtol=1e-6)


# --- Identities


def test_point_of_weight_zero_has_no_effect():
    x, w = cloud(3, points=80)
    far = torch.cat([x, torch.tensor([[0.0, 5000.0], [-9.0, 0.0]], dtype=double)])
    assert_same(weighted_em(far, torch.nn.functional.pad(w, (0, 2)), 3), weighted_em(x, w, 3))
    # Nor has one that is nowhere.
    far[-1] = torch.nan
    assert_same(weighted_em(far, torch.nn.functional.pad(w, (0, 2)), 3), weighted_em(x, w, 3))


def test_weight_of_two_is_two_points():
    x, w = cloud()
    counts = torch.randint(0, 4, w.shape)
    repeated = x.repeat_interleave(counts, 0)
    once = weighted_em(x[counts > 0], counts[counts > 0].to(double), 3)
    assert_same(weighted_em(repeated, torch.ones(len(repeated), dtype=double), 3), once)


def test_order_of_points_does_not_matter():
    x, w = cloud(3)
    order = torch.randperm(len(x))
    assert_same(weighted_em(x[order], w[:, order], 3), weighted_em(x, w, 3))


def test_units_do_not_matter():
    x, w = cloud(3)
    for kwargs in ({}, {"alpha": 2.0, "distance": "fenchel_young"}, {"responsibilities": "sparsemax"}):
        p = weighted_em(x, w, 3, **kwargs)
        q = weighted_em(1000 * x + 1e5, w, 3, **kwargs)
        torch.testing.assert_close(q.weights, p.weights, atol=1e-9, rtol=0)
        torch.testing.assert_close((q.components.mean - 1e5) / 1000, p.components.mean, atol=1e-8, rtol=0)
        cov = p.components.covariance_matrix
        torch.testing.assert_close(q.components.covariance_matrix / 1e6, cov, rtol=1e-6, atol=0)


every_rule = pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"responsibilities": "sparsemax"},
        {"responsibilities": "entmax15"},
        {"responsibilities": Tsallis(1.2)},
        {"responsibilities": "normmax"},
        {"spread": 0.3},
        {"alpha": 2.0},
        {"alpha": 2.0, "distance": "fenchel_young"},
        {"alpha": 1.5, "distance": "fenchel_young", "responsibilities": "sparsemax"},
        {"alpha": 0.8, "distance": "fenchel_young"},
        {"alpha": 4 / 3, "distance": "fenchel_young", "responsibilities": "entmax15", "spread": 0.01},
    ],
    ids=str,
)


@every_rule
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 3), floor=st.sampled_from([None, 0.1, 1.0, 5.0]))
def test_no_iteration_lowers_the_objective(kwargs, seed: int, n: int, floor: float | None):
    torch.manual_seed(seed)
    sparse = torch.rand(4, 20, dtype=double) * (torch.rand(4, 20) < 0.6)
    x = (torch.randn(20, n, dtype=double) * torch.tensor([3.0, 1.0, 0.3], dtype=double)[:n]).round(decimals=1)
    shared = {key: value for key, value in kwargs.items() if key != "alpha"}
    p = weighted_em(x, sparse, 3, 0, "random", floor, **kwargs)
    before = em_objective(x, sparse, p, floor=floor, **shared)
    for _ in range(5):
        p = weighted_em(x, sparse, 3, 1, p, floor, **kwargs)
        after = em_objective(x, sparse, p, floor=floor, **shared)
        assert (after >= before - 1e-8 * (1 + before.abs())).all(), (after - before).min()
        before = after


def test_objective_is_the_likelihood():
    x, w = cloud(3)
    p = weighted_em(x, w, 3)
    likelihood = (w / w.sum(-1, keepdim=True) * p.log_prob(x.unsqueeze(-2)).mT).sum(-1)
    torch.testing.assert_close(em_objective(x, w, p), likelihood)


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 2.0, 3.0])
def test_fenchel_young_objective_is_that_of_the_losses(alpha: float):
    """But for a constant, with each point's loss in units of the one density that fits all."""
    x, w = cloud(2)
    whole = weighted_em(x, w, 1, alpha=alpha).components
    unit = whole.dilation  # the peak to the power of alpha - 1
    gaps = []
    for t in (1, 4):
        p = weighted_em(x, w, 3, t, alpha=alpha)
        losses = fenchel_young_loss(p.components, x[:, None, None])  # [L, *, K]
        free = (w / w.sum(-1, keepdim=True)).mT * (p.weights.log() - losses / unit).logsumexp(-1)
        gaps.append(em_objective(x, w, p, distance="fenchel_young") - free.sum(0))
    torch.testing.assert_close(gaps[0], gaps[1])


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_gaussian_distance_is_the_logarithm_of_a_fenchel_young_fit_to_first_order(alpha: float):
    """The derivatives in the weights of the points are log-densities of the Gaussian with the same moments."""
    x, w = cloud()
    p = (w / w.sum()).requires_grad_()
    e, n = alpha - 1, 2
    fitted = weighted_em(x, w, 1, alpha=alpha).components.expand((1,))
    g = 1 + e * n / 2
    origin = (g / e - n * e / (2 * alpha)) / (g + e)  # the loss of a density spread out over everything
    reward = (origin - fenchel_young_loss(fitted, x)).detach()
    total = p.sum() * ((p * reward).sum() / p.sum()).log() / e
    (slope,) = torch.autograd.grad(total, p)
    gaussian = Gaussian(fitted.mean[0], fitted.covariance_matrix[0]).log_prob(x)
    torch.testing.assert_close(slope - slope.mean(), gaussian - gaussian.mean())


def test_sparse_objective_is_that_of_its_conjugate():
    x, w = cloud()
    p = weighted_em(x, w, 3, responsibilities="sparsemax")
    joint = p.weights.log() + p.components.log_prob(x[:, None])
    value = (w / w.sum() * Tsallis(2.0).conjugate(joint)).sum()
    torch.testing.assert_close(em_objective(x, w, p, "sparsemax"), value)


def test_objective_of_spread_points_is_an_average_over_them():
    """Over the eight points one deviation off along each axis and its opposite, for one component."""
    x, w = cloud()
    p, s = weighted_em(x, w, 1), 0.3
    around = torch.cat([torch.eye(2), -torch.eye(2)]).to(double) * math.sqrt(2 * s)
    value = (w / w.sum() * p.log_prob(x[:, None] + around).mean(-1)).sum()
    torch.testing.assert_close(em_objective(x, w, p, spread=s), value)


# --- Shapes


def test_batch_is_fitted_one_by_one():
    x, w = cloud(2, 3)
    p = weighted_em(x, w, 3)
    assert p.batch_shape == (2, 3) and p.components.mean.shape == (2, 3, 3, 2)
    for i in range(2):
        for j in range(3):
            one = weighted_em(x, w[i, j], 3)
            for a, b in zip(moments(p), moments(one), strict=True):
                torch.testing.assert_close(a[i, j], b, atol=1e-12, rtol=1e-10)


def test_positions_of_each_example():
    both = [cloud(seed=s) for s in (0, 1)]
    x, w = torch.stack([x for x, _ in both]), torch.stack([w for _, w in both])
    p = weighted_em(x, w, 3)
    for i in range(2):
        one = weighted_em(x[i], w[i], 3)
        for a, b in zip(moments(p), moments(one), strict=True):
            torch.testing.assert_close(a[i], b, atol=1e-12, rtol=1e-10)
    shared = weighted_em(x, w[0], 2)  # positions have a batch, weights have none
    assert shared.batch_shape == (2,)


def test_masked_positions_count_for_nothing():
    x, w = cloud(3, points=30)
    mask = torch.rand(3, 30) < 0.7
    garbage = torch.where(mask.unsqueeze(-1), x, torch.nan)
    wild = torch.where(mask, w, torch.inf)
    p = weighted_em(garbage, wild, 3, mask=mask)
    for i in range(3):
        one = weighted_em(x[mask[i]], w[i, mask[i]], 3)
        for a, b in zip(moments(p), moments(one), strict=True):
            torch.testing.assert_close(a[i], b, atol=1e-10, rtol=1e-8)


def test_shared_positions_take_a_mask_for_each_example():
    x, w = cloud(3)
    mask = torch.rand(3, 40) < 0.7
    assert_same(weighted_em(x, w, 2, mask=mask), weighted_em(x.expand(3, 40, 2), w, 2, mask=mask))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtype_is_that_of_the_weights(dtype: torch.dtype):
    x, w = cloud(3)
    w = w.to(dtype)
    p = weighted_em(x.float(), w, 3)
    assert p.weights.dtype == p.components.loc.dtype == torch.float32
    for a, b in zip(moments(p), moments(weighted_em(x.float().double(), w.double(), 3)), strict=True):
        torch.testing.assert_close(a.double(), b, atol=1e-5, rtol=1e-5)


def test_single_precision_does_not_lose_narrow_components():
    x = torch.linspace(0, 1, 5000).unsqueeze(-1)
    w = torch.zeros(5000)
    w[1000], w[1003], w[4000] = 0.3, 0.3, 0.4
    p = weighted_em(x, w, 2, floor=0.0)
    torch.testing.assert_close(p.components.mean.squeeze(-1), torch.stack([x[1000:1004].mean(), x[4000, 0]]))
    torch.testing.assert_close(p.components.variance[0, 0], torch.tensor((1.5 / 4999) ** 2 + 0.0), rtol=1e-3, atol=0)


def test_alpha_for_each_example():
    x, w = cloud(2)
    p = weighted_em(x, w, 2, alpha=torch.tensor([1.5, 2.0], dtype=double), distance="fenchel_young")
    for i, alpha in enumerate((1.5, 2.0)):
        one = weighted_em(x, w[i], 2, alpha=alpha, distance="fenchel_young")
        torch.testing.assert_close(p.components.mean[i], one.components.mean)
        torch.testing.assert_close(p.components.scale[i], one.components.scale)


def test_floor_and_spread_for_each_example():
    x, w = cloud(2)
    floor, spread = torch.tensor([0.5, 2.0], dtype=double), torch.rand(2, 2, dtype=double)
    p = weighted_em(x, w, 2, floor=floor, spread=spread)
    for i in range(2):
        one = weighted_em(x, w[i], 2, floor=floor[i], spread=spread[i])
        torch.testing.assert_close(p.components.covariance_matrix[i], one.components.covariance_matrix)


def test_mapped_and_traced_calls_are_the_same():
    x, w = cloud(3)
    expected = weighted_em(x, w, 2, 3).components.mean

    def call(w: Tensor) -> Tensor:
        return weighted_em(x, w, 2, 3).components.mean

    torch.testing.assert_close(torch.func.vmap(call)(w), expected)
    torch.testing.assert_close(torch.compile(call, backend="eager", fullgraph=True)(w), expected)


# --- Tolerance and restarts


def test_converged_examples_stay():
    x, w = GRID, torch.rand(4, 64, dtype=double)
    p = weighted_em(x, w, 3, 300, tolerance=1e-3)
    values = torch.stack([em_objective(x, w, weighted_em(x, w, 3, t)) for t in range(40)])
    still = (values[1:] - values[:-1] <= 1e-3).int().argmax(0) + 1  # the first iteration that gained too little
    assert still.unique().numel() > 1 and still.max() < 39
    for i in range(4):
        one = weighted_em(x, w[i], 3, int(still[i]))
        torch.testing.assert_close(p.components.mean[i], one.components.mean)


def test_tolerance_zero_is_no_more_than_the_iterations():
    x, w = cloud(2)
    assert_same(weighted_em(x, w, 2, 5, tolerance=0.0), weighted_em(x, w, 2, 5))


@pytest.mark.parametrize("init", ["split", "kmeans++", "random"])
def test_best_of_several_starts_counts(init: str):
    x, w = cloud(5)
    seeds = torch.Generator().manual_seed(3)
    one = weighted_em(x, w, 4, 5, init, generator=seeds)
    many = weighted_em(x, w, 4, 5, init, restarts=8, generator=seeds)
    gain = em_objective(x, w, many) - em_objective(x, w, one)
    assert gain.mean() > 0.01
    if init == "split":  # which is one of them
        assert (gain > -1e-9).all()
    # With gradients the best is gone to once more, and is the same.
    again = weighted_em(x, w.clone().requires_grad_(), 4, 5, init, restarts=8, generator=seeds.manual_seed(5))
    assert_same(again, weighted_em(x, w, 4, 5, init, restarts=8, generator=seeds.manual_seed(5)))


def test_planted_mixture_is_found():
    mean = torch.tensor([[0.25, 0.3], [0.7, 0.25], [0.6, 0.75]], dtype=double)
    cov = torch.tensor([[[6, 2], [2, 4]], [[4, -1], [-1, 6]], [[9, 0], [0, 3]]], dtype=double) * 1e-3
    weights = torch.tensor([0.5, 0.3, 0.2], dtype=double)
    x = grid_positions((40, 40)).to(double)
    w = Mixture(weights, Gaussian(mean, cov)).prob(x)
    p = weighted_em(x, w, 3, 200, "kmeans++", restarts=5)
    order = p.weights.argsort(descending=True)
    torch.testing.assert_close(p.weights[order], weights, atol=3e-3, rtol=0)
    torch.testing.assert_close(p.components.mean[order], mean, atol=3e-3, rtol=0)
    torch.testing.assert_close(p.components.covariance_matrix[order], cov, atol=3e-4, rtol=0)


@pytest.mark.parametrize("distance", ["gaussian", "fenchel_young"])
def test_planted_paraboloids_are_found(distance: str):
    mean = torch.tensor([[0.25, 0.3], [0.7, 0.6]], dtype=double)
    cov = torch.tensor([[[6, 2], [2, 4]], [[4, -1], [-1, 6]]], dtype=double) * 1e-3
    truth = Mixture(torch.tensor([0.6, 0.4], dtype=double), BetaGaussian.from_moments(mean, cov, 2.0))
    x = grid_positions((30, 30)).to(double)
    p = weighted_em(x, truth.prob(x), 2, 30, alpha=2.0, distance=distance)
    assert p.components.alpha == 2.0
    torch.testing.assert_close(p.components.mean, mean, atol=3e-3, rtol=0)
    torch.testing.assert_close(p.weights, truth.weights, atol=3e-3, rtol=0)
    t = torch.tensor([[0.02, 0.95], [0.95, 0.05]], dtype=double)
    assert (p.prob(t) == 0).all()
