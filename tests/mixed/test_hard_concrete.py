"""Stretch and project against its story, and two vertices against the logistic distribution on the line."""

import math

import pytest
import torch
from torch.distributions import RelaxedBernoulli, RelaxedOneHotCategorical

from mixed.oracle import assert_counts, face_counts
from omegamax import mixed, sparsemax
from omegamax.mixed import HardConcrete

F = torch.float64


def make_distribution(stretch=1.2, temperature=0.6, logits=(0.4, -0.2)):
    return HardConcrete(temperature, logits=torch.tensor(logits, dtype=F), stretch=stretch)


@pytest.mark.parametrize("stretch", [1.0, 1.05, 1.2, 3.0])
@pytest.mark.parametrize("temperature", [1.0, 0.6, 2.0])
def test_mass_of_all_faces_is_one(stretch, temperature):
    p = make_distribution(stretch, temperature)
    torch.testing.assert_close(p.face_probs().sum(), torch.ones((), dtype=F), rtol=0, atol=1e-14)
    if stretch == 1:  # the Concrete density has poles at both ends, which the logit takes away
        u = torch.linspace(-60, 60, 1201, dtype=F)
        y = torch.stack([u.sigmoid(), (-u).sigmoid()], -1)
        mass = (p.prob(y) * y.prod(-1)).sum() * 0.1
        assert abs(mass.item() - 1) < 1e-12
    else:
        y, w = mixed.face_nodes(2, 150, dtype=F)
        assert abs((p.prob(y) * w).sum().item() - 1) < 1e-10


def test_two_vertices_are_the_binary_distribution():
    # Stretch a relaxed Bernoulli variable to (-0.1, 1.1), and clip it.
    p, stretch = make_distribution(), 1.2
    base = RelaxedBernoulli(torch.tensor(0.6, dtype=F), logits=p.logits[0] - p.logits[1])
    y = torch.tensor(0.3, dtype=F)
    x = (y + 0.1) / 1.2
    point = torch.stack([y, 1 - y])
    torch.testing.assert_close(p.log_prob(point), base.log_prob(x) - math.log(stretch))
    ends = torch.tensor([0.1 / 1.2, 1.1 / 1.2], dtype=F)
    low, high = (0.6 * ends.logit() - base.logits).sigmoid()
    torch.testing.assert_close(p.face_probs(), torch.stack([1 - high, low, high - low]))


def test_samples_are_stretched_and_projected():
    p = HardConcrete(0.5, logits=torch.tensor([0.1, 0.5, -1.0], dtype=F), stretch=1.7)
    torch.manual_seed(3)
    y = p.sample((20,))
    torch.manual_seed(3)
    base = RelaxedOneHotCategorical(torch.tensor(0.5, dtype=F), logits=p.logits).sample((20,))
    torch.testing.assert_close(y, sparsemax(1.7 * base))
    assert (y == 0).any()


def test_two_vertices_are_hit_as_often_as_their_probability_says():
    p = make_distribution()
    assert_counts(face_counts(p.sample((200_000,))), p.face_probs(), 200_000)


def test_a_stretch_of_one_never_leaves_the_interior():
    p = HardConcrete(0.5, logits=torch.zeros(2), stretch=1.0)
    assert p.face_probs().tolist() == [0, 0, 1]
    assert p.log_prob(torch.tensor([1.0, 0.0])).item() == -math.inf


def test_samples_and_densities_are_differentiable():
    logits = torch.tensor([[0.4, -0.2], [1.0, 0.0]], dtype=F, requires_grad=True)
    temperature = torch.tensor([0.6, 0.9], dtype=F, requires_grad=True)
    stretch = torch.tensor([1.2, 1.5], dtype=F, requires_grad=True)

    def draw(logits, temperature, stretch):
        torch.manual_seed(2)
        return HardConcrete(temperature, logits=logits, stretch=stretch).rsample((5,))

    points = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]], [[0.3, 0.7]]], dtype=F)

    def density(logits, temperature, stretch):
        p = HardConcrete(temperature, logits=logits, stretch=stretch)
        return p.log_prob(points), p.face_probs()

    assert torch.autograd.gradcheck(draw, (logits, temperature, stretch))
    assert torch.autograd.gradcheck(density, (logits, temperature, stretch))
    assert torch.autograd.gradgradcheck(density, (logits, temperature, stretch))


def test_bad_arguments_are_refused_by_name():
    with pytest.raises(ValueError, match="exactly one of probs and logits, got none"):
        HardConcrete(0.5)
    with pytest.raises(ValueError, match="exactly one of probs and logits, got both"):
        HardConcrete(0.5, torch.ones(2), torch.ones(2))
    with pytest.raises(ValueError, match="stretch"):
        HardConcrete(0.5, logits=torch.zeros(2), stretch=0.9)
    with pytest.raises(ValueError, match="temperature"):
        HardConcrete(0.0, logits=torch.zeros(2))
    with pytest.raises(TypeError, match="temperature must be a number or a floating-point tensor, got str"):
        HardConcrete("cold", logits=torch.zeros(2))
    with pytest.raises(ValueError, match="must broadcast with the batch shape"):
        HardConcrete(torch.ones(3), logits=torch.zeros(2, 2))
    with pytest.raises(ValueError, match="probs must be >= 0"):
        HardConcrete(0.5, probs=torch.tensor([-1.0, 2.0]))
    with pytest.raises(NotImplementedError, match=r"HardConcrete\.log_prob: exists for 2 vertices only, got 3"):
        HardConcrete(0.5, logits=torch.zeros(3)).log_prob(torch.ones(3) / 3)
