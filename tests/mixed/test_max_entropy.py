"""The distribution of largest entropy, its value, and the baselines without mixed mass."""

import math

import mpmath
import pytest
import torch
from torch.distributions import Categorical, kl_divergence

from mixed.oracle import assert_counts, face_counts
from omegamax import mixed
from omegamax.mixed import GumbelSoftmax, HardConcrete, MaxEntropyMixed, MixedDirichlet, max_entropy

F = torch.float64


@pytest.mark.parametrize("vertices", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("bits", [-3, 0, 1, 7.5, 32, 64])
def test_value_is_the_laguerre_polynomial(vertices, bits):
    mpmath.mp.dps = 60
    wanted = mpmath.log(mpmath.laguerre(vertices - 1, 1, -(mpmath.mpf(2) ** bits)), 2)
    assert max_entropy(vertices, bits) == pytest.approx(float(wanted), rel=1e-13, abs=1e-13)


def test_two_and_three_vertices_by_hand():
    assert max_entropy(2, 5) == pytest.approx(math.log2(2 + 2**5), abs=1e-14)
    assert max_entropy(3) == pytest.approx(math.log2(6.5), abs=1e-14)


def test_value_is_differentiable_in_the_bits():
    bits = torch.tensor([0.0, 2.0, 8.0], dtype=F, requires_grad=True)
    assert torch.autograd.gradcheck(lambda b: max_entropy(5, b), bits)
    # Its slope is the mean number of coordinates.
    (slope,) = torch.autograd.grad(max_entropy(5, bits).sum(), bits)
    torch.testing.assert_close(slope, MaxEntropyMixed(5, bits.detach()).nonzeros() - 1)


@pytest.mark.parametrize("vertices", [2, 3, 4])
def test_mass_is_one_and_entropy_its_integral(vertices):
    p = MaxEntropyMixed(vertices, torch.tensor([0.0, 1.5], dtype=F))
    y, w = mixed.face_nodes(vertices, 8, dtype=F)
    prob = p.prob(y[:, None])
    torch.testing.assert_close(w @ prob, torch.ones(2, dtype=F), rtol=0, atol=1e-14)
    torch.testing.assert_close(w @ torch.special.entr(prob), p.entropy(), rtol=0, atol=1e-13)
    torch.testing.assert_close(p.face_probs().sum(-1), torch.ones(2, dtype=F), rtol=0, atol=1e-14)


def test_no_distribution_has_a_larger_entropy_and_the_gap_is_the_divergence():
    top = MaxEntropyMixed(3, torch.tensor(0.0, dtype=F))
    assert top.entropy().item() == pytest.approx(math.log(6.5), abs=1e-14)
    for seed in range(20):
        torch.manual_seed(seed)
        p = MixedDirichlet(torch.randn(3, dtype=F), torch.rand(3, dtype=F) + 0.1)
        gap = top.entropy() - p.entropy()
        assert gap > 0
        torch.testing.assert_close(kl_divergence(p, top), gap)


def test_code_length_of_the_distribution_is_the_largest():
    bits = 6.0
    best = mixed.code_length(MaxEntropyMixed(4, torch.tensor(bits, dtype=F)), bits).value
    assert best.item() == pytest.approx(max_entropy(4, bits), abs=1e-12)
    other = mixed.code_length(MaxEntropyMixed(4, torch.tensor(0.0, dtype=F)), bits).value
    assert other < best


def test_divergence_from_it_is_the_integral():
    p, q = MixedDirichlet(torch.randn(3, dtype=F), torch.tensor([1.0, 2.0, 3.0], dtype=F)), MaxEntropyMixed(3, 2.0)
    draws = p.sample((100_000,))
    gaps = p.log_prob(draws) - q.log_prob(draws)
    assert abs(kl_divergence(p, q) - gaps.mean()) < 5 * gaps.std() / math.sqrt(len(gaps))


@pytest.mark.parametrize("bits", [0.0, 3.0])
def test_samples_follow_the_distribution(bits):
    p = MaxEntropyMixed(3, bits)
    y = p.sample((200_000,)).double()
    assert_counts(face_counts(y), p.face_probs().double(), len(y))
    inside = y[(y > 0).all(-1), 0]  # of a flat Dirichlet distribution on three vertices: Beta(1, 2)
    assert abs(inside.mean() - 1 / 3) < 5 * math.sqrt(1 / 18 / len(inside))
    torch.testing.assert_close(y.mean(0), p.mean.double(), rtol=0, atol=0.005)


def test_many_vertices_are_no_trouble():
    p = MaxEntropyMixed(500, 16.0)
    y = p.sample((4,))
    assert y.shape == (4, 500) and bool(p.log_prob(y).isfinite().all())
    assert 1 < p.nonzeros() < 500


def test_bad_arguments_are_refused_by_name():
    with pytest.raises(ValueError, match="max_entropy: vertices must be an int of at least 1, got 0"):
        max_entropy(0)
    with pytest.raises(TypeError, match="MaxEntropyMixed: bits must be a number or a floating-point tensor, got str"):
        MaxEntropyMixed(3, "many")
    with pytest.raises(ValueError, match="max_entropy: bits must be finite, got inf"):
        max_entropy(3, math.inf)
    with pytest.raises(TypeError, match=r"got torch\.int64"):
        max_entropy(3, torch.tensor(3))


# --- Baselines


def test_gumbel_softmax_has_its_mass_inside():
    p = GumbelSoftmax(2.0, logits=torch.tensor([0.2, -0.3, 0.0], dtype=F))
    # The poles of the density at the border are mild at this temperature; a stretch of one is the same distribution.
    y, w = mixed.face_nodes(3, 100, dtype=F)
    assert abs((p.prob(y) * w).sum().item() - 1) < 1e-5
    assert p.log_prob(torch.tensor([0.5, 0.5, 0.0], dtype=F)).item() == -math.inf
    assert p.nonzeros().item() == 3
    q = GumbelSoftmax(0.6, logits=torch.tensor([0.4, -0.2], dtype=F))
    point = torch.tensor([0.3, 0.7], dtype=F)
    wanted = HardConcrete(0.6, logits=q.logits, stretch=1.0).log_prob(point)
    torch.testing.assert_close(q.log_prob(point), wanted)


def test_straight_through_samples_are_vertices_with_soft_gradients():
    logits = torch.tensor([0.2, -0.3, 0.0], dtype=F, requires_grad=True)
    torch.manual_seed(1)
    soft = GumbelSoftmax(0.7, logits=logits).rsample((4,))
    torch.manual_seed(1)
    hard = GumbelSoftmax(0.7, logits=logits, hard=True).rsample((4,))
    assert torch.equal(hard.sum(-1), torch.ones(4, dtype=F)) and torch.equal(hard.amax(-1), torch.ones(4, dtype=F))
    assert torch.equal(hard.argmax(-1), soft.argmax(-1))
    weight = torch.randn(4, 3, dtype=F)
    torch.testing.assert_close(
        torch.autograd.grad((hard * weight).sum(), logits), torch.autograd.grad((soft * weight).sum(), logits)
    )


def test_hard_gumbel_softmax_is_categorical():
    p = GumbelSoftmax(0.7, probs=torch.tensor([0.5, 0.3, 0.2], dtype=F), hard=True)
    q = GumbelSoftmax(0.7, probs=torch.tensor([0.2, 0.3, 0.5], dtype=F), hard=True)
    torch.testing.assert_close(p.prob(torch.eye(3, dtype=F)), p.probs)
    assert p.log_prob(torch.tensor([0.5, 0.5, 0.0], dtype=F)).item() == -math.inf
    torch.testing.assert_close(p.entropy(), Categorical(p.probs).entropy())
    torch.testing.assert_close(kl_divergence(p, q), kl_divergence(Categorical(p.probs), Categorical(q.probs)))
    assert_counts(face_counts(p.sample((100_000,))), p.face_probs(), 100_000)
    top = MaxEntropyMixed(3, torch.tensor(0.0, dtype=F))
    torch.testing.assert_close(kl_divergence(p, top), top.entropy() - p.entropy())


def test_soft_gumbel_softmax_has_no_closed_entropy():
    p = GumbelSoftmax(0.7, logits=torch.zeros(3))
    with pytest.raises(NotImplementedError, match=r"use omegamax\.mixed\.entropy"):
        p.entropy()
    with pytest.raises(NotImplementedError, match=r"use omegamax\.mixed\.kl_divergence"):
        kl_divergence(p, p)


def test_cold_soft_samples_do_not_leave_the_interior():
    y = GumbelSoftmax(0.01, logits=torch.zeros(8)).sample((500,))
    assert bool((y > 0).all())
