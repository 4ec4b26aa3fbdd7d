"""The mixed Dirichlet distribution against a sum over all its faces."""

import math

import pytest
import torch
from torch.distributions import Dirichlet, kl_divergence

from mixed.oracle import assert_counts, face_counts
from omegamax import mixed
from omegamax.mixed import MixedDirichlet

F = torch.float64


def make_distribution(vertices, size=1.0, seed=0, batch=()):
    generator = torch.Generator().manual_seed(seed + vertices)
    scores = torch.randn(*batch, vertices, dtype=F, generator=generator)
    return MixedDirichlet(scores, 0.02 + size * torch.rand(*batch, vertices, dtype=F, generator=generator))


def enumerated(p):
    """Faces and their probabilities, by the definition."""
    every = mixed.faces(p.vertices)
    return every, ((2.0 * every - 1) * p.face_scores).sum(-1).softmax(-1)


sizes = pytest.mark.parametrize("size", [0.05, 1.0, 30.0])
vertices_ = pytest.mark.parametrize("vertices", [1, 2, 3, 6])


@vertices_
def test_face_distribution_is_that_of_the_definition(vertices):
    p, q = make_distribution(vertices), make_distribution(vertices, seed=9)
    every, probs = enumerated(p)
    _, others = enumerated(q)
    torch.testing.assert_close(p.face_probs(), probs, rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(p.face_marginals, probs @ every.double(), rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(p.nonzeros(), probs @ every.sum(-1).double(), rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(p.face_entropy(), torch.special.entr(probs).sum(), rtol=0, atol=1e-14)
    wanted = (probs * (probs / others).log()).sum()
    torch.testing.assert_close(p.face_divergence(q), wanted, rtol=0, atol=1e-14)


@sizes
@vertices_
def test_entropy_divergence_and_mean_are_sums_over_faces(vertices, size):
    p, q = make_distribution(vertices, size), make_distribution(vertices, size, seed=9)
    every, probs = enumerated(p)
    entropy, divergence, mean = p.face_entropy(), p.face_divergence(q), torch.zeros(vertices, dtype=F)
    for face, prob in zip(every, probs, strict=True):
        a, b = p.concentration[face], q.concentration[face]
        mean[face] += prob * a / a.sum()
        if len(a) > 1:
            entropy = entropy + prob * Dirichlet(a).entropy()
            divergence = divergence + prob * kl_divergence(Dirichlet(a), Dirichlet(b))
    torch.testing.assert_close(p.entropy(), entropy, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(kl_divergence(p, q), divergence, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(p.mean, mean, rtol=1e-12, atol=1e-14)
    assert abs(kl_divergence(p, p).item()) < 1e-12


@pytest.mark.parametrize("vertices, order", [(2, 24), (3, 24), (4, 16)])
def test_mass_of_all_faces_is_one(vertices, order):
    # Concentrations that are integers: polynomial densities, which the rule integrates exactly.
    p = MixedDirichlet(torch.linspace(-1, 1, vertices, dtype=F), torch.arange(1.0, vertices + 1, dtype=F))
    y, w = mixed.face_nodes(vertices, order, dtype=F)
    assert abs((p.prob(y) * w).sum().item() - 1) < 1e-12
    wanted = -(w * torch.special.xlogy(p.prob(y), p.prob(y))).sum()
    torch.testing.assert_close(p.entropy(), wanted, rtol=0, atol=1e-4)


def test_density_is_that_of_the_face_times_torchs():
    p = make_distribution(4)
    y = torch.tensor([0.2, 0.0, 0.5, 0.3], dtype=F)
    face = y > 0
    wanted = p.log_face_prob(face) + Dirichlet(p.concentration[face]).log_prob(y[face])
    torch.testing.assert_close(p.log_prob(y), wanted)
    vertex = torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=F)
    torch.testing.assert_close(p.log_prob(vertex), p.log_face_prob(vertex > 0))


def test_samples_follow_the_distribution():
    p = make_distribution(3)
    samples = 200_000
    y = p.sample((samples,))
    assert_counts(face_counts(y), p.face_probs(), samples)
    torch.testing.assert_close(y.mean(0), p.mean, rtol=0, atol=5 * 0.5 / math.sqrt(samples))
    inside = y[(y > 0).all(-1)]
    torch.testing.assert_close(inside.mean(0), Dirichlet(p.concentration).mean, rtol=0, atol=2.5 / len(inside) ** 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, F])
def test_small_concentrations_stay_on_their_face(dtype):
    p = MixedDirichlet(torch.zeros(5, dtype=dtype), torch.full((5,), 1e-3, dtype=dtype))
    face = p.sample_face((2000,))
    y = p.rsample_on(face)
    assert torch.equal(y > 0, face) and bool(y.isfinite().all())
    assert bool(p.log_prob(y).isfinite().all())


def test_points_on_a_face_carry_gradients_to_the_concentrations():
    # d E[y_0] / d alpha of a Dirichlet distribution, by its closed form.
    alpha = torch.tensor([0.5, 1.5, 2.0], dtype=F, requires_grad=True)
    p = MixedDirichlet(torch.zeros(3, dtype=F), alpha)
    samples = 50_000
    face = torch.tensor([True, True, False]).expand(samples, 3)
    (got,) = torch.autograd.grad(p.rsample_on(face)[:, 0].mean(), alpha)
    wanted = torch.tensor([1.5 / 4, -0.5 / 4, 0.0], dtype=F)
    torch.testing.assert_close(got, wanted, rtol=0, atol=0.01)


@pytest.mark.parametrize("score", [-400.0, 400.0, -math.inf, math.inf])
def test_extreme_scores_settle_a_vertex(score):
    scores = torch.tensor([score, 0.0, 0.3], dtype=F)
    p = MixedDirichlet(scores, torch.tensor([0.5, 1.0, 2.0], dtype=F))
    probs = p.face_probs()
    assert bool((p.sample_face((500,))[:, 0] == (score > 0)).all())
    torch.testing.assert_close(probs.sum(), torch.ones((), dtype=F))
    assert bool(p.entropy().isfinite()) and bool(p.mean.isfinite().all()) and abs(kl_divergence(p, p).item()) < 1e-12
    if score < 0:
        q = MixedDirichlet(scores[1:], p.concentration[1:])
        torch.testing.assert_close(p.entropy(), q.entropy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("score", [-30.0, -300.0, -1000.0])
def test_faces_that_are_all_unlikely_do_not_round_to_nothing(score):
    p = MixedDirichlet(torch.tensor([score, score], dtype=F), torch.tensor([0.5, 2.0], dtype=F))
    torch.testing.assert_close(p.face_probs(), torch.tensor([0.5, 0.5, 0.0], dtype=F))
    assert p.entropy().item() == pytest.approx(math.log(2), abs=1e-15 * score**2)
    assert bool((p.sample((50,)) > 0).any(-1).all())


def test_many_vertices_cost_no_enumeration():
    p = make_distribution(300, batch=(2,))
    assert p.entropy().shape == (2,) and bool(p.entropy().isfinite().all())
    value = mixed.kl_divergence(p, make_distribution(300, seed=3, batch=(2,))).value
    draws = p.sample((2000,))
    wanted = (p.log_prob(draws) - make_distribution(300, seed=3, batch=(2,)).log_prob(draws)).mean(0)
    torch.testing.assert_close(value, wanted, rtol=0.02, atol=0)


def test_everything_is_differentiable():
    scores = torch.tensor([[0.3, -0.4, 0.1], [1.0, 0.2, -2.0]], dtype=F, requires_grad=True)
    alpha = torch.tensor([[0.5, 1.2, 3.0], [0.1, 2.0, 1.0]], dtype=F, requires_grad=True)
    other = make_distribution(3)
    y = torch.tensor([[0.2, 0.8, 0.0], [0.2, 0.3, 0.5]], dtype=F)

    def values(scores, alpha):
        p = MixedDirichlet(scores, alpha)
        q = kl_divergence(other, p)
        return p.log_prob(y), p.entropy(), kl_divergence(p, other), q, p.mean, p.face_probs()

    assert torch.autograd.gradcheck(values, (scores, alpha))
    assert torch.autograd.gradgradcheck(values, (scores, alpha), atol=1e-4)


def test_bad_arguments_are_refused_by_name():
    with pytest.raises(ValueError, match="concentration"):
        MixedDirichlet(torch.zeros(3), torch.tensor([1.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match="MixedDirichlet: face_scores must have shape"):
        MixedDirichlet(torch.tensor(0.0), torch.tensor(1.0))
    with pytest.raises(ValueError, match=r"MixedDirichlet\.rsample_on: face must have at least one vertex"):
        MixedDirichlet(torch.zeros(3), torch.ones(3)).rsample_on(torch.zeros(3, dtype=torch.bool))
    with pytest.raises(ValueError, match="as many vertices, got 3 and 2"):
        kl_divergence(make_distribution(3), make_distribution(2))
