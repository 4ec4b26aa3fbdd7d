"""Every mixed distribution keeps to the interface of torch.distributions."""

import pytest
import torch
from torch.distributions import Independent

from omegamax import mixed
from omegamax.mixed import (
    GaussianSparsemax,
    GumbelSoftmax,
    HardConcrete,
    LogisticNormal,
    MaxEntropyMixed,
    MixedDirichlet,
)


def make_distributions(batch=(), dtype=torch.float64):
    """One of each, of two vertices where only those have a density."""

    def draw(*shape):
        return torch.randn((*batch, *shape), dtype=dtype)

    eye = torch.eye(3, dtype=dtype)
    return {
        "diagonal": GaussianSparsemax(draw(3), draw(3).exp()),
        "full": GaussianSparsemax(draw(3), cov=draw(1, 1).exp() * (eye + 0.3)),
        "tril": GaussianSparsemax(draw(3), scale_tril=eye),
        "low rank": GaussianSparsemax(draw(3), cov_factor=draw(3, 1), cov_diag=draw(3).exp()),
        "rectified": GaussianSparsemax(draw(2), 0.5),
        "hard concrete": HardConcrete(draw().exp(), logits=draw(2)),
        "mixed Dirichlet": MixedDirichlet(draw(3), draw(3).exp()),
        "maximum entropy": MaxEntropyMixed(3, draw()),
        "Gumbel-softmax": GumbelSoftmax(draw().exp() + 0.5, logits=draw(3)),
        "logistic-normal": LogisticNormal(draw(3), draw(3).exp()),
        "logistic-normal, correlated": LogisticNormal(draw(3), cov=draw(1, 1).exp() * (eye + 0.3)),
        "logistic-normal, factors": LogisticNormal(draw(3), cov_factor=draw(3, 1), cov_diag=draw(3).exp()),
        "straight-through": GumbelSoftmax(draw().exp(), logits=draw(3), hard=True),
    }


NAMES = list(make_distributions())
every_distribution = pytest.mark.parametrize("name", NAMES)


@every_distribution
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
@pytest.mark.parametrize("shape", [(), (5,), (2, 1)])
def test_shapes(name, batch, shape):
    p = make_distributions(batch)[name]
    y = p.sample(torch.Size(shape))
    assert p.batch_shape == batch and len(p.event_shape) == 1
    assert y.shape == (*shape, *batch, p.vertices)
    assert p.log_prob(y).shape == (*shape, *batch)
    assert p.face_probs().shape == (*batch, 2**p.vertices - 1)
    assert p.nonzeros().shape == batch
    assert not y.requires_grad


@every_distribution
def test_samples_lie_in_the_support_and_have_a_density(name):
    p = make_distributions((3,))[name]
    y = p.sample((50,))
    assert bool(p.support.check(y).all())
    assert bool(p.log_prob(y).isfinite().all())
    assert torch.equal(p.face(y), y > 0)


@every_distribution
def test_face_probabilities_sum_to_one(name):
    probs = make_distributions((3,))[name].face_probs()
    torch.testing.assert_close(probs.sum(-1), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-8)


@every_distribution
def test_expand_repeats_the_distribution(name):
    p = make_distributions((3,))[name]
    wide = p.expand((2, 3))
    assert type(wide) is type(p) and wide.batch_shape == (2, 3) and wide.event_shape == p.event_shape
    y = p.sample()
    torch.testing.assert_close(wide.log_prob(y), p.log_prob(y).expand(2, 3))
    assert wide.sample((4,)).shape == (4, 2, 3, p.vertices)
    torch.testing.assert_close(wide.face_probs()[1], p.face_probs())


@every_distribution
def test_rsample_exists_where_it_is_said_to(name):
    p = make_distributions((3,))[name]
    if p.has_rsample:
        assert p.rsample((2,)).shape == (2, 3, p.vertices)
    else:
        with pytest.raises(NotImplementedError):
            p.rsample()


@every_distribution
def test_values_off_the_simplex_are_refused(name):
    p = make_distributions()[name]
    y = p.sample()
    with pytest.raises(ValueError, match="to be within the support"):
        p.log_prob(y + 0.1)
    with pytest.raises(ValueError):
        p.log_prob(torch.cat([y, y]))
    with pytest.raises(TypeError, match="face must be a bool tensor"):
        p.log_face_prob(y)
    with pytest.raises(ValueError, match=rf"face must have shape \[\*, {p.vertices}\]"):
        p.log_face_prob(torch.ones(p.vertices + 1, dtype=torch.bool))


@every_distribution
def test_empty_batches_are_no_error(name):
    p = make_distributions((0,))[name]
    y = p.sample((2,))
    assert y.shape == (2, 0, p.vertices) and p.log_prob(y).shape == (2, 0)


@every_distribution
def test_single_precision_is_kept(name):
    p = make_distributions((3,), torch.float32)[name]
    y = p.sample((5,))
    assert y.dtype == p.log_prob(y).dtype == p.face_probs().dtype == torch.float32
    assert bool(p.log_prob(y).isfinite().all())


@every_distribution
def test_independent_distributions_add_their_log_probs(name):
    p = make_distributions((4,))[name]
    both = Independent(p, 1)
    y = both.sample((2,))
    torch.testing.assert_close(both.log_prob(y), p.log_prob(y).sum(-1))


@every_distribution
def test_a_distribution_prints_its_parameters(name):
    assert repr(make_distributions((3,))[name]).startswith(type(make_distributions()[name]).__name__ + "(")


@every_distribution
def test_no_validation_when_asked_not_to(name):
    p = make_distributions()[name]
    p._validate_args = False
    assert not p.expand((2,))._validate_args


def test_estimates_are_named_pairs():
    value, error = mixed.entropy(MaxEntropyMixed(2))
    assert mixed.Estimate(value, error).error == 0
