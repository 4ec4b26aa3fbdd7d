"""How many components: the criteria, and what they choose."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mixtures.clouds import GRID, cloud, double
from omegamax.basis import grid_positions
from omegamax.densities import Gaussian, Mixture
from omegamax.mixtures import AIC, BIC, MDL, Criterion, Linear, SelectedMixture, em_objective, select_components
from omegamax.mixtures import weighted_em as fit

X = grid_positions((14, 14)).to(double)
CENTRES = torch.tensor([[0.2, 0.25], [0.75, 0.2], [0.25, 0.8], [0.8, 0.75]], dtype=double)


def planted() -> Tensor:
    """Weights of one, two, three and four round components, each twice, with noise."""
    draw = torch.Generator().manual_seed(0)
    bumps = Gaussian(CENTRES, 0.004).prob(X[:, None])
    w = torch.stack([bumps[:, :k].mean(-1) for k in (1, 2, 3, 4)] * 2)
    return w * (0.2 * torch.randn(w.shape, generator=draw, dtype=double)).exp()


@pytest.mark.parametrize("criterion", [BIC(), AIC(), MDL(), Linear(0.3)], ids=str)
def test_planted_number_of_components_is_found(criterion: Criterion):
    seeds = torch.Generator().manual_seed(1)
    p = select_components(X, planted(), 5, criterion, iterations=40, generator=seeds)
    assert p.component_count.tolist() == [1, 2, 3, 4] * 2
    assert isinstance(p, Mixture) and p.weights.shape == (8, 5) and p.scores.shape == (8, 5)
    if not isinstance(criterion, MDL):  # which may get there from more components
        assert (p.scores.argmin(-1) + 1).equal(p.component_count)
    means = p.components.mean[3][p.weights[3] > 0]
    assert torch.cdist(CENTRES, means).amin(-1).max() < 0.02


def test_scores_are_those_of_the_formulas():
    x, w = cloud(3)
    p = w / w.sum(-1, keepdim=True)
    m = 1 / p.square().sum(-1)
    for n in (1, 2):
        points = x[:, :n]
        one, two = fit(points, w, 1), fit(points, w, 2, tolerance=0.0)
        value = em_objective(points, w, one)
        c = n + n * (n + 1) // 2
        for criterion, expected in (
            (Linear(0.7), -2 * value + 0.7),
            (BIC(), -2 * m * value + c * m.log()),
            (AIC(), -2 * m * value + 2 * c),
            (MDL(), -2 * m * value + c * (m / 12).log() + (m / 12).log() + c + 1),
        ):
            scores = select_components(points, w, 2, criterion, 1, init="split", iterations=1).scores
            torch.testing.assert_close(scores[:, 0], expected)
        scores = BIC().score(em_objective(points, w, two), m, two.weights, n)
        torch.testing.assert_close(scores, -2 * m * em_objective(points, w, two) + (2 * c + 1) * m.log())
        pi = two.weights
        length = c / 2 * (m.unsqueeze(-1) * pi / 12).log().sum(-1) + (m / 12).log() + (c + 1)
        value = em_objective(points, w, two)
        torch.testing.assert_close(MDL().score(value, m, pi, n), 2 * (length - m * value))


def test_padding_does_not_count():
    pi = torch.tensor([0.4, 0.6, 0.0, 0.0], dtype=double)
    value, m = torch.tensor(-1.0, dtype=double), torch.tensor(50.0, dtype=double)
    for criterion in (BIC(), AIC(), MDL(), Linear(1.0)):
        torch.testing.assert_close(criterion.score(value, m, pi, 2), criterion.score(value, m, pi[:2], 2))


def test_choice_is_made_for_each_example():
    w = planted()[:4]
    seeds = torch.Generator()
    p = select_components(X, w, 4, init="split", restarts=1, generator=seeds)
    for i in range(4):
        one = select_components(X, w[i], 4, init="split", restarts=1)
        torch.testing.assert_close(p.scores[i], one.scores)
        torch.testing.assert_close(p.weights[i], one.weights)
        torch.testing.assert_close(p.mean[i], one.mean)


def test_chosen_mixture_is_that_of_expectation_maximisation():
    w = planted()[2]
    p = select_components(X, w, 4, init="split", restarts=1, iterations=7)
    q = fit(X, w, int(p.component_count), 7)
    k = int(p.component_count)
    torch.testing.assert_close(p.weights[:k], q.weights)
    torch.testing.assert_close(p.components.covariance_matrix[:k], q.components.covariance_matrix)


def test_gradients_are_those_of_the_chosen_mixture():
    w = planted()[:4]
    seeds = torch.Generator().manual_seed(0)
    plain = select_components(X, w, 4, generator=seeds)
    leaf = w.clone().requires_grad_()
    p = select_components(X, leaf, 4, generator=seeds.manual_seed(0))
    torch.testing.assert_close(p.weights, plain.weights)
    torch.testing.assert_close(p.covariance_matrix, plain.covariance_matrix)
    assert not p.scores.requires_grad
    (p.mean.sum() + p.covariance_matrix.square().sum()).backward()
    assert leaf.grad is not None and leaf.grad.isfinite().all() and (leaf.grad != 0).any(-1).all()


def test_equal_scores_mean_the_smaller_mixture():
    w = torch.zeros(2, 64, dtype=double)
    w[0, 5] = 1.0
    p = select_components(GRID, w, 3)
    assert p.component_count.tolist()[0] == 1 and p.weights.isfinite().all()


def test_expanded_mixture_keeps_its_scores():
    p = select_components(X, planted()[1], 3).expand((2, 5))
    assert isinstance(p, SelectedMixture) and p.scores.shape == (2, 5, 3) and p.component_count.shape == (2, 5)


def test_other_families_and_masks():
    w = planted()[:4].float()
    mask = torch.rand(4, 196) < 0.9
    p = select_components(X.float(), w, 4, alpha=2.0, responsibilities="sparsemax", mask=mask, tolerance=1e-6)
    assert p.components.alpha == 2.0 and p.weights.dtype == p.scores.dtype == torch.float32
    assert p.component_count[0] == 1 and p.component_count[3] > 1


def test_own_criterion():
    class Always(Criterion):
        def score(self, objective: Tensor, size: Tensor, weights: Tensor, dimension: int) -> Tensor:
            return ((weights > 0).sum(-1) - 3).abs().to(objective)

    assert (select_components(X, planted(), 4, Always()).component_count == 3).all()


def test_nan_row_has_nan_scores():
    w = planted()[:2]
    w[0, 0] = math.nan
    p = select_components(X, w, 2)
    assert p.scores[0].isnan().all() and p.scores[1].isfinite().all() and p.component_count[1] == 2


def test_refusals():
    with pytest.raises(TypeError, match=r"select_components: criterion must be a Criterion such as BIC\(\), got str"):
        select_components(X, planted(), 2, "bic")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="select_components: max_components must be an integer >= 1, got 0"):
        select_components(X, planted(), 0)
    with pytest.raises(ValueError, match="select_components: init must be one of 'split'"):
        select_components(X, planted(), 2, init="best")
