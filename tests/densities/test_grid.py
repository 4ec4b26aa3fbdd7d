"""Densities on a grid against closed-form densities and the generalised covariance of Prop. 3."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import scipy.stats
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from omegamax.basis import GaussianRBF
from omegamax.densities import (
    BetaGaussian,
    BetaLaplace,
    GridDensity,
    Triangular,
    fenchel_young_loss,
    gauss_legendre_nodes,
)

F64 = torch.float64


def interval(
    low: float = -3.0, high: float = 3.0, cells: int = 40, breaks: tuple[float, ...] = ()
) -> tuple[Tensor, Tensor]:
    return gauss_legendre_nodes(cells, 8, low, high, breaks=breaks, dtype=F64)


@pytest.mark.parametrize("alpha", [1.0, 4 / 3, 1.5, 2.0])
def test_quadratic_score_gives_the_beta_gaussian(alpha: float):
    mu, variance = 0.1, 0.15
    closed = BetaGaussian(torch.tensor([mu], dtype=F64), variance, alpha)
    edge = float(closed.support_radius) * math.sqrt(variance)
    nodes, weights = interval(breaks=(mu - edge, mu + edge) if edge < 3 else ())

    def score(t: Tensor) -> Tensor:
        return -(t[..., 0] - mu).square() / (2 * variance)

    ours = GridDensity.from_function(score, nodes, weights, alpha)
    assert (ours.probs_at_nodes - closed.prob(nodes)).abs().max() <= 1e-10
    t = torch.linspace(-1.5, 1.5, 33, dtype=F64).unsqueeze(-1)
    assert (ours.prob(t) - closed.prob(t)).abs().max() <= 1e-10
    assert torch.equal(ours.support_contains(t), closed.support_contains(t))
    assert (ours.mean - closed.mean).abs() <= 1e-12
    assert (ours.covariance_matrix - closed.covariance_matrix).abs().max() <= 1e-10
    assert (ours.entropy() - closed.entropy()).abs() <= 1e-5  # p log p is not smooth at the edge
    assert (ours.tsallis_entropy() - closed.tsallis_entropy()).abs() <= 1e-10
    assert (fenchel_young_loss(ours, t) - fenchel_young_loss(closed, t)).abs().max() <= 1e-10


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_linear_score_with_its_kinks_in_the_rule_gives_the_beta_laplace(alpha: float):
    closed = BetaLaplace(torch.tensor([0.1], dtype=F64), 0.05, alpha)
    edge = min(closed.support_radius.item(), 2.0)
    nodes, weights = interval(breaks=(0.1, 0.1 - edge, 0.1 + edge), cells=60)
    ours = GridDensity(-(nodes[:, 0] - 0.1).abs() / 0.05, nodes, weights, alpha)
    assert (ours.probs_at_nodes - closed.prob(nodes)).abs().max() <= 1e-9
    assert (ours.variance - closed.variance).abs() <= 1e-10


def test_square_of_the_plane():
    nodes, weights = gauss_legendre_nodes(30, 4, -1.5, 1.5, dimension=2, dtype=F64)
    scale = torch.tensor([[0.2, 0.05], [0.05, 0.1]], dtype=F64)
    closed = BetaGaussian(torch.zeros(2, dtype=F64), scale, 1.5)
    score = -0.5 * torch.einsum("qi,ij,qj->q", nodes, scale.inverse(), nodes)
    ours = GridDensity(score, nodes, weights, 1.5)
    assert (ours.covariance_matrix - closed.covariance_matrix).abs().max() <= 1e-5
    assert (ours.probs_at_nodes - closed.prob(nodes)).abs().max() <= 1e-4
    points = nodes[::37] + 1e-4
    assert torch.equal(ours.prob(points), ours.probs_at_nodes[::37])  # that of the nearest node
    assert ours.mean.abs().max() <= 1e-12 and ours.dimension == 2


@pytest.mark.parametrize("alpha", [1.0, 1.4, 2.0, 2.5])
def test_jacobian_is_the_generalised_covariance(alpha: float):
    # Prop. 3: d E_p[psi] / d theta = |p|_beta^beta Cov_{escort}(phi, psi) with beta = 2 - alpha.
    nodes, weights = interval(-1, 1, 10)
    t = nodes[:, 0]
    features = torch.stack([t, t.square(), (3 * t).sin()], -1)
    basis = GaussianRBF.grid(4, 1, 0.1)
    theta = torch.tensor([0.5, -3.0, 0.4], dtype=F64)

    def expectation(theta: Tensor) -> Tensor:
        return GridDensity(features @ theta, nodes, weights, alpha).expect(basis.double())

    jacobian = torch.autograd.functional.jacobian(expectation, theta)  # [J, 3]
    p = GridDensity(features @ theta, nodes, weights, alpha).probs_at_nodes
    s = weights * torch.where(p > 0, p, 1.0).pow(2 - alpha) * (p > 0)
    escort = s / s.sum()
    psi = basis(nodes)
    centred_psi, centred_phi = psi - escort @ psi, features - escort @ features
    covariance = (escort[:, None] * centred_psi).mT @ centred_phi
    assert (jacobian - s.sum() * covariance).abs().max() <= 1e-12


def test_alpha_is_smooth_through_one():
    nodes, weights = interval(-1, 1, 5)
    slopes = []
    for alpha in (1 - 1e-6, 1.0, 1 + 1e-6):
        a = torch.tensor(alpha, dtype=F64, requires_grad=True)
        density = GridDensity(-nodes[:, 0].square() * 4, nodes, weights, a)
        outputs = (density.variance.sum(), density.entropy(), density.tsallis_entropy())
        slopes.append(torch.stack([torch.autograd.grad(x, a, retain_graph=True)[0] for x in outputs]))
    assert (slopes[1] - (slopes[0] + slopes[2]) / 2).abs().max() <= 1e-9


OUTPUTS: dict[str, Callable[[GridDensity, Tensor], Tensor]] = {
    "moments": lambda p, t: p.mean.sum(-1) + p.covariance_matrix.sum((-2, -1)),
    "entropies": lambda p, t: p.entropy() + 2 * p.tsallis_entropy(),
    "prob": lambda p, t: p.prob(t),
    "points": lambda p, t: fenchel_young_loss(p, t),
    "loss": lambda p, t: fenchel_young_loss(p, GridDensity(p.scores.sin() + 0.3, p.nodes, p.node_weights, p.alpha)),
}


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.5, 2.0])
def test_gradients_of_what_follows(output: str, alpha: float):
    nodes, weights = gauss_legendre_nodes(2, 3, dtype=F64)
    theta, a = torch.tensor([[0.8], [0.3]], dtype=F64), torch.tensor([alpha], dtype=F64)
    t = torch.tensor([[0.2], [0.7]], dtype=F64)

    def apply(theta: Tensor, a: Tensor, weights: Tensor, t: Tensor) -> Tensor:
        density = GridDensity.from_function(
            lambda t: (theta * (3 * t).sin()).sum(-1), nodes, weights, a, batch_shape=(2,), validate_args=False
        )
        return OUTPUTS[output](density, t)

    inputs = tuple(x.requires_grad_() for x in (theta, a, weights, t))
    assert gradcheck(apply, inputs, atol=1e-7)
    assert gradgradcheck(apply, inputs, atol=1e-6)


@pytest.mark.parametrize("alpha", [0.6, 1.0, 1.3, 2.0, 3.0])
def test_loss_is_its_definition(alpha: float):
    nodes, weights = interval(0, 1, 4)
    f, g = torch.randn(2, len(nodes), dtype=F64)
    density, target = GridDensity(f, nodes, weights, alpha), GridDensity(g, nodes, weights, alpha)
    conjugate = (weights * density.probs_at_nodes * f).sum() + density.tsallis_entropy()
    expected = conjugate - target.tsallis_entropy() - (weights * target.probs_at_nodes * f).sum()
    assert (fenchel_young_loss(density, target) - expected).abs() <= 1e-12
    assert fenchel_young_loss(density, density).abs() <= 1e-15
    leaf = f.clone().requires_grad_()
    gradient = torch.autograd.grad(fenchel_young_loss(GridDensity(leaf, nodes, weights, alpha), target), leaf)[0]
    assert (gradient - weights * (density.probs_at_nodes - target.probs_at_nodes)).abs().max() <= 1e-11


def test_loss_counts_nodes_that_were_taken_away():
    nodes, weights = interval(0, 1, 2)
    f = torch.randn(len(nodes), dtype=F64)
    masked = f.clone()
    masked[:3] = -math.inf
    density, target = GridDensity(masked, nodes, weights, 1.0), GridDensity(f, nodes, weights, 1.0)
    assert fenchel_young_loss(density, density).abs() <= 1e-14
    assert fenchel_young_loss(density, target) == math.inf
    assert fenchel_young_loss(target, density).isfinite()
    with pytest.raises(ValueError, match="make the density by from_function"):
        fenchel_young_loss(density, torch.zeros(1, dtype=F64))
    with pytest.raises(TypeError, match="GridDensity on the same nodes, got a Triangular"):
        fenchel_young_loss(GridDensity(f, nodes, weights), Triangular(torch.zeros(1), 1.0))


def test_densities_are_interpolated_between_nodes():
    nodes = torch.tensor([[0.5], [0.1], [0.9]], dtype=F64)  # in no order
    density = GridDensity(torch.tensor([1.0, 0.0, -math.inf], dtype=F64), nodes, torch.ones(3, dtype=F64) / 2, 2.0)
    p = density.probs_at_nodes
    t = torch.tensor([[0.1], [0.3], [0.5], [0.8], [0.9], [-3.0], [3.0]], dtype=F64, requires_grad=True)
    expected = torch.stack([p[1], (p[0] + p[1]) / 2, p[0], p[0] / 4, p[2], p[1], p[2]])
    assert torch.allclose(density.prob(t), expected)
    assert density.log_prob(t)[-1] == -math.inf and density.support_contains(t).tolist() == [True] * 4 + [
        False,
        True,
        False,
    ]
    slope = torch.autograd.grad(density.prob(t)[3], t)[0]
    assert slope[3].item() == pytest.approx((p[2] - p[0]).item() / 0.4)


def test_nan_stays_nan():
    nodes, weights = interval(0, 1, 2)
    t = torch.tensor([[math.nan], [0.1]], dtype=F64)
    plain = GridDensity(nodes[:, 0], nodes, weights, 2.0, validate_args=False)
    exact = GridDensity.from_function(lambda t: t[..., 0], nodes, weights, 2.0, validate_args=False)
    for density in (plain, exact):
        assert density.prob(t).isnan().tolist() == density.log_prob(t).isnan().tolist() == [True, False]


def test_samples_are_nodes_with_their_masses():
    nodes, weights = interval(0, 1, 3)
    density = GridDensity(torch.randn(2, len(nodes), dtype=F64), nodes, weights, 1.5)
    draws = density.sample((5000,))
    assert draws.shape == (5000, 2, 1) and density.sample().shape == (2, 1) and not density.has_rsample
    for row in (0, 1):
        counts = (draws[:, row] == nodes.T).sum(0)
        assert counts.sum() == 5000
        kept = density.masses[row] > 1e-3
        pooled = torch.cat([counts[kept], counts[~kept].sum()[None]])
        masses = torch.cat([density.masses[row][kept], density.masses[row][~kept].sum()[None]])
        expected = 5000 * masses / masses.sum()
        keep = expected > 0
        assert scipy.stats.chisquare(pooled[keep], expected[keep]).pvalue > 1e-3


def test_batches_of_scores_nodes_and_alphas():
    nodes, weights = torch.rand(3, 6, 2, dtype=F64), torch.rand(6, dtype=F64) + 0.1
    alpha = torch.tensor([[1.0], [1.5]], dtype=F64)
    density = GridDensity(torch.randn(6, dtype=F64), nodes, weights, alpha)
    assert density.batch_shape == (2, 3) and density.event_shape == (2,)
    assert density.mean.shape == (2, 3, 2) and density.covariance_matrix.shape == (2, 3, 2, 2)
    assert density.entropy().shape == density.tsallis_entropy().shape == (2, 3)
    assert density.prob(torch.rand(4, 2, 3, 2, dtype=F64)).shape == (4, 2, 3)
    assert density.expect(GaussianRBF.grid(2, 2, 0.1).double()).shape == (2, 3, 4)
    wide = density.expand((5, 2, 3))
    assert wide.batch_shape == (5, 2, 3) and torch.allclose(wide.mean[4], density.mean)
    assert wide.sample((7,)).shape == (7, 5, 2, 3, 2) and wide.entropy().shape == (5, 2, 3)
    one = GridDensity(density.scores[1, 2], nodes[2], weights, 1.5)
    assert torch.allclose(density.covariance_matrix[1, 2], one.covariance_matrix)


def test_single_and_half_precision():
    nodes, weights = gauss_legendre_nodes(4, 4)
    scores = torch.randn(3, 16)
    for dtype in (torch.float32, torch.float16):
        density = GridDensity(scores.to(dtype), nodes, weights, 1.5)
        assert density.mean.dtype == density.probs_at_nodes.dtype == torch.float32
        assert (density.masses.sum(-1) - 1).abs().max() <= 1e-6
    assert GridDensity(scores, nodes.double(), weights, 1.5).mean.dtype == F64


def test_rule_integrates_over_boxes():
    nodes, weights = gauss_legendre_nodes(3, 2, [0.0, -1.0], [1.0, 2.0], breaks=[[0.2], []], dimension=2, dtype=F64)
    assert nodes.shape == (8 * 6, 2) and weights.sum().item() == pytest.approx(3)
    x, y = nodes.unbind(-1)
    assert (weights * x**3 * y**2).sum().item() == pytest.approx(0.25 * 3)
    assert (nodes[1] - nodes[0])[0] == 0  # the last coordinate varies fastest
    kink = gauss_legendre_nodes(1, 4, breaks=(0.3, 7.0), dtype=F64)
    assert (kink[1] * (kink[0][:, 0] - 0.3).abs()).sum().item() == pytest.approx((0.09 + 0.49) / 2, abs=1e-15)
    for wrong, message in (
        ({"cells": 0}, "cells must be an int"),
        ({"order": 1.5}, "order must be an int"),
        ({"low": 2.0}, "low must be < high"),
        ({"low": [0.0, 1.0]}, "low must be a number or 1 of them"),
        ({"breaks": [[0.1], [0.2]]}, "one for each axis, got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            gauss_legendre_nodes(**{"cells": 2, "order": 2, **wrong})


def test_errors_name_the_argument():
    scores, nodes, weights = torch.zeros(4), torch.zeros(4, 1), torch.ones(4)
    for arguments, kind, message in (
        ((scores, nodes[:, 0], weights), ValueError, r"nodes must have shape \[\*, 4, n\], got \(4,\)"),
        ((scores, nodes, weights[:3]), ValueError, r"node_weights must have shape \[\*, 4\], got \(3,\)"),
        ((scores, nodes, weights, 0.0), ValueError, "alpha must be > 0"),
        ((scores, nodes, weights, math.inf), ValueError, "alpha must be finite"),
        ((scores, nodes, -weights, 2.0, True), ValueError, "node_weights"),
        ((scores.long(), nodes, weights), TypeError, r"scores must be a floating-point tensor, got dtype torch\.int64"),
        ((scores.expand(2, 4), nodes.expand(3, 4, 1), weights), ValueError, "do not broadcast"),
        ((torch.zeros(2, 0), torch.zeros(0, 1), torch.zeros(0)), ValueError, "Q >= 1"),
    ):
        with pytest.raises(kind, match=message):
            GridDensity(*arguments)
