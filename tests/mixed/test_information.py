"""Entropy, divergence and mutual information: closed, by quadrature, and by draws with their error."""

import math

import pytest
import torch
from torch.distributions import Independent

from omegamax import mixed
from omegamax.mixed import GaussianSparsemax, GumbelSoftmax, HardConcrete, MaxEntropyMixed, MixedDirichlet
from omegamax.mixed._information import _mean

F = torch.float64


def gaussian(vertices=3, batch=(), seed=0):
    generator = torch.Generator().manual_seed(seed)
    loc = 0.5 * torch.randn(*batch, vertices, dtype=F, generator=generator)
    return GaussianSparsemax(loc, 0.4 + torch.rand(vertices, dtype=F, generator=generator))


def test_closed_forms_have_no_error():
    for p in (gaussian(2), MixedDirichlet(torch.zeros(4, dtype=F), 1.0), MaxEntropyMixed(3)):
        value, error = mixed.entropy(p)
        assert error.item() == 0 and value == p.entropy()


def test_entropy_splits_into_that_of_the_face_and_that_on_it():
    p = gaussian()
    probs = p.face_probs()
    y, w = mixed.face_nodes(3, 40, dtype=F)
    total = torch.special.entr(probs).sum()
    for face, prob in zip(mixed.faces(3), probs, strict=True):
        own = (mixed.face_of(y) == face).all(-1)
        inner = p.prob(y[own]) / prob
        total = total + prob * (w[own] * torch.special.entr(inner)).sum()
    value, error = mixed.entropy(p, order=32)
    torch.testing.assert_close(value, total, rtol=0, atol=1e-9)
    assert error < 1e-9


@pytest.mark.parametrize("vertices", [2, 3])
def test_monte_carlo_is_within_its_stated_error(vertices):
    # Fifty estimates: their errors, in units of the stated ones, are standard normal.
    p, q = gaussian(vertices).expand((50,)), gaussian(vertices, seed=4)
    y, w = mixed.face_nodes(vertices, 40, dtype=F)
    one = GaussianSparsemax(p.loc[0], p.scale[0])
    exact_entropy = (w * torch.special.entr(one.prob(y))).sum()
    exact_kl = mixed.kl_divergence(one, q, order=40).value
    log_p = p.log_prob(draws := p.sample((200,)))
    for f, exact in ((-log_p, exact_entropy), (log_p - q.log_prob(draws), exact_kl)):
        value, error = _mean(f, log_p)
        z = (value - exact) / error
        assert abs(z.mean().item()) < 5 / math.sqrt(50)
        assert 0.7 < z.std().item() < 1.4


def test_divergence_by_quadrature_and_by_draws_agree_with_the_closed_form():
    p, q = gaussian(2), gaussian(2, seed=7)
    exact = torch.distributions.kl_divergence(p, q)
    assert mixed.kl_divergence(p, q).value == exact

    class Plain(GaussianSparsemax):
        def entropy(self):
            raise NotImplementedError

    plain = Plain(p.loc, p.scale)
    by_nodes = mixed.entropy(plain, order=40)
    torch.testing.assert_close(by_nodes.value, p.entropy(), rtol=0, atol=1e-12)
    by_draws = mixed.entropy(plain, samples=20_000)
    assert abs(by_draws.value - p.entropy()) < 5 * by_draws.error < 0.1


def test_divergence_is_infinite_where_the_other_has_no_mass():
    value, error = mixed.kl_divergence(gaussian(), GumbelSoftmax(0.5, logits=torch.zeros(3, dtype=F)), samples=100)
    assert value.item() == math.inf and error.item() == math.inf


def test_divergence_from_the_largest_entropy_by_draws_counts_no_faces():
    class Patient(GaussianSparsemax):
        def nonzeros(self):
            raise AssertionError("sums over all faces take long, and there is no closed form to need them")

    p = gaussian()
    value, error = mixed.kl_divergence(Patient(p.loc, p.scale), MaxEntropyMixed(3), samples=20_000)
    by_nodes = mixed.kl_divergence(p, MaxEntropyMixed(3), order=32)
    assert abs(value - by_nodes.value) < 5 * error + by_nodes.error


def test_divergence_between_different_families():
    p, q = gaussian(), MixedDirichlet(torch.zeros(3, dtype=F), torch.tensor([1.0, 2.0, 1.0], dtype=F))
    by_nodes, by_draws = mixed.kl_divergence(p, q, order=32), mixed.kl_divergence(p, q, samples=20_000)
    assert abs(by_draws.value - by_nodes.value) < 5 * by_draws.error + by_nodes.error
    assert by_nodes.value > 0
    back = mixed.kl_divergence(q, p, samples=2000)
    assert back.value > 5 * back.error


def test_hard_concrete_has_an_entropy_by_quadrature():
    p = HardConcrete(0.8, logits=torch.tensor([0.3, 0.0], dtype=F), stretch=1.5)
    by_nodes, by_draws = mixed.entropy(p, order=60), mixed.entropy(p, samples=20_000)
    assert by_nodes.error < 1e-8
    assert abs(by_nodes.value - by_draws.value) < 5 * by_draws.error


def test_gradient_of_an_estimate_sees_mass_move_between_faces():
    loc = torch.tensor([0.5, 0.2, 0.0], dtype=F, requires_grad=True)
    scale = torch.tensor(0.5, dtype=F, requires_grad=True)
    wanted = torch.autograd.grad(mixed.entropy(GaussianSparsemax(loc, scale), order=24).value, (loc, scale))
    value = mixed.entropy(GaussianSparsemax(loc, scale), samples=20_000).value
    got = torch.autograd.grad(value, (loc, scale))
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0.08)
    # Through the samples themselves it would be far off.
    p = GaussianSparsemax(loc, scale)
    (path,) = torch.autograd.grad(-p.log_prob(p.rsample((5000,))).mean(), scale)
    assert abs(path - wanted[1]) > 0.3


def test_gradients_of_a_distribution_without_pathwise_ones():
    scores = torch.tensor([0.3, -0.2, 0.1], dtype=F, requires_grad=True)
    q = gaussian()
    alpha = torch.tensor([1.0, 2.0, 2.0], dtype=F)
    exact = mixed.kl_divergence(MixedDirichlet(scores, alpha), q, order=24).value
    (wanted,) = torch.autograd.grad(exact, scores)
    value = mixed.kl_divergence(MixedDirichlet(scores, alpha), q, samples=20_000).value
    (got,) = torch.autograd.grad(value, scores)
    torch.testing.assert_close(got, wanted, rtol=0, atol=0.08)


# --- Mutual information


def test_mutual_information_is_between_zero_and_the_entropy_of_the_source():
    same = GaussianSparsemax(torch.zeros(4, 3, dtype=F), 0.5)
    value, error = mixed.mutual_information(same, samples=100)
    assert abs(value.item()) < 1e-12 and error.item() < 1e-12
    apart = GaussianSparsemax(20 * torch.eye(4, dtype=F), 0.5)
    assert mixed.mutual_information(apart, samples=100).value.item() == pytest.approx(math.log(4), abs=1e-9)
    weights = torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=F)
    assert mixed.mutual_information(apart, weights, samples=100).value.item() == pytest.approx(math.log(2), abs=1e-9)


def test_mutual_information_by_draws_agrees_with_quadrature_in_batches():
    p = gaussian(3, (2, 4))
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=F)
    by_nodes = mixed.mutual_information(p, weights, order=24)
    by_draws = mixed.mutual_information(p, weights, samples=2000)
    assert by_draws.value.shape == by_draws.error.shape == (2,)
    assert bool((by_nodes.error < 1e-6).all())
    assert bool(((by_draws.value - by_nodes.value).abs() < 5 * by_draws.error).all())
    # Entropy of the mixture less the mean entropy.
    y, w = mixed.face_nodes(3, 24, dtype=F)
    each = p.prob(y[:, None, None])
    whole = (each * weights).sum(-1)
    gap = (w[:, None] * torch.special.entr(whole)).sum(0) - (
        (w[:, None, None] * torch.special.entr(each)).sum(0) * weights
    ).sum(-1)
    torch.testing.assert_close(by_nodes.value, gap, rtol=0, atol=1e-9)


def test_mutual_information_of_categorical_messages_is_the_discrete_one():
    probs = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], dtype=F)
    p = GumbelSoftmax(0.5, probs=probs, hard=True)
    exact = torch.special.entr(probs.mean(0)).sum() - torch.special.entr(probs).sum(-1).mean()
    torch.testing.assert_close(mixed.mutual_information(p, order=2).value, exact)


def test_independent_latents_add():
    p = gaussian(3, (5,))
    whole = mixed.entropy(Independent(p, 1), samples=4000)
    parts = mixed.entropy(p, order=24).value.sum()
    assert abs(whole.value - parts) < 5 * whole.error
    two, other = gaussian(2, (5,)), gaussian(2, (5,), seed=3)
    exact = torch.distributions.kl_divergence(Independent(two, 1), Independent(other, 1))
    torch.testing.assert_close(exact, torch.distributions.kl_divergence(two, other).sum())


def test_bad_arguments_are_refused_by_name():
    p = gaussian()
    with pytest.raises(ValueError, match="entropy: samples must be an int of at least 2, got 1"):
        mixed.entropy(p, samples=1)
    with pytest.raises(ValueError, match=r"kl_divergence: p and q must have one event shape, got \(3,\) and \(2,\)"):
        mixed.kl_divergence(p, gaussian(2))
    with pytest.raises(ValueError, match="mutual_information: p needs a last batch axis"):
        mixed.mutual_information(p)
    with pytest.raises(ValueError, match=r"mutual_information: weights must have shape \[\*, 4\], got \(3,\)"):
        mixed.mutual_information(gaussian(3, (4,)), torch.ones(3))
    with pytest.raises(TypeError, match="entropy: a quadrature"):
        mixed.entropy(Independent(gaussian(3, (2,)), 1), order=8)
