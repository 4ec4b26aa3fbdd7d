"""Perplexities, scores and divergences against closed forms, SciPy and the library's own loss."""

import math
import re

import pytest
import scipy.optimize
import scipy.spatial.distance
import torch
from hypothesis import given
from hypothesis import strategies as st

import omegamax
from omegamax.metrics import best_epsilon, epsilon_perplexity, jensen_shannon, jensen_shannon_score, sparsemax_score

F64 = torch.float64


def predictions(*shape, scale=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    p = omegamax.entmax15(scale * torch.randn(*shape, dtype=F64, generator=generator))
    return p, torch.randint(shape[-1], shape[:-1], generator=generator)


def test_perplexity_of_dense_predictions_is_the_exponential_of_the_cross_entropy():
    z, x = torch.randn(20, 7, dtype=F64), torch.randint(7, (20,))
    wanted = torch.nn.functional.cross_entropy(z, x).exp()
    assert abs(epsilon_perplexity(z.softmax(-1), x, epsilon=0.0) - wanted) <= 1e-12


def test_perplexity_of_uniform_predictions_is_the_vocabulary():
    p = torch.full((5, 11), 1 / 11, dtype=F64)
    for epsilon in (0.0, 1e-6, 0.3, 1e9, math.inf):
        assert abs(epsilon_perplexity(p, torch.arange(5), epsilon=epsilon) - 11) <= 1e-12


def test_perplexity_of_predictions_right_or_wrong():
    # A share r of certain predictions is right: log-perplexity log(1 + eps V) - r log(1 + eps) - (1 - r) log(eps).
    p, x = torch.eye(10, dtype=F64), torch.arange(10)
    x[7:] = 0
    for epsilon in (1e-3, 0.1, 2.0):
        wanted = math.log(1 + 10 * epsilon) - 0.7 * math.log(1 + epsilon) - 0.3 * math.log(epsilon)
        assert abs(epsilon_perplexity(p, x, epsilon=epsilon).log() - wanted) <= 1e-12
    assert epsilon_perplexity(p, x, epsilon=0.0) == math.inf


def test_best_epsilon_of_predictions_right_or_wrong():
    # The smoothed probability of the truth is right where it is r: (1 + eps) / (1 + eps V) = r.
    p, x = torch.eye(10, dtype=F64), torch.arange(10)
    x[7:] = 0
    assert abs(best_epsilon(p, x) - 0.3 / (10 * 0.7 - 1)) <= 1e-12


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.1, 1.0, 4.0]), size=st.integers(1, 30))
def test_best_epsilon_has_the_least_perplexity(seed, scale, size):
    p, x = predictions(size, 6, scale=scale, seed=seed)

    def log_perplexity(weight):  # of the mixture with the uniform distribution
        epsilon = math.inf if weight == 1 else weight / (6 * (1 - weight))
        return float(epsilon_perplexity(p, x, epsilon=epsilon).log())

    best = best_epsilon(p, x)
    least = float(epsilon_perplexity(p, x, epsilon=best).log())
    other = scipy.optimize.minimize_scalar(log_perplexity, bounds=(1e-12, 1 - 1e-12), method="bounded")
    assert least <= min(other.fun, log_perplexity(1.0)) + 1e-10
    assert least <= float(epsilon_perplexity(p, x, epsilon=0.0).log()) + 1e-10


def test_best_epsilon_at_its_ends():
    sure = torch.eye(4, dtype=F64)
    assert best_epsilon(sure, torch.arange(4)) == 0
    assert best_epsilon(sure, (torch.arange(4) + 1) % 4) == math.inf
    assert abs(epsilon_perplexity(sure, (torch.arange(4) + 1) % 4, epsilon=math.inf) - 4) <= 1e-12


def test_perplexity_from_the_true_tokens_alone():
    p, x = predictions(4, 9, 5)
    true = p.gather(-1, x[..., None])[..., 0]
    assert epsilon_perplexity(true, vocabulary=5, epsilon=0.01) == epsilon_perplexity(p, x, epsilon=0.01)
    assert best_epsilon(true, vocabulary=5) == best_epsilon(p, x)


def test_sparsemax_score_is_one_minus_the_loss():
    p, x = predictions(6, 5, 8)
    # Scores p have the sparsemax p, and no others have less loss.
    loss = omegamax.sparsemax_loss(p.flatten(0, 1), x.flatten(), reduction="none").reshape(x.shape)
    score = sparsemax_score(p, x, reduction="none")
    assert (score - (1 - loss)).abs().max() <= 1e-14
    assert (score >= 0).all() and (score <= 1).all()
    z = p.clone()
    z[p == 0] -= torch.rand(int((p == 0).sum()), dtype=F64)
    assert torch.allclose(omegamax.sparsemax(z + 3.0), p, atol=1e-14)
    worse = omegamax.sparsemax_loss((z + 3.0).flatten(0, 1), x.flatten(), reduction="none").reshape(x.shape)
    assert (score >= 1 - worse - 1e-14).all() and (score > 1 - worse + 1e-3).any()


def test_jensen_shannon_score_is_the_divergence_from_the_token():
    p, x = predictions(6, 5, 8)
    truth = torch.nn.functional.one_hot(x, 8).to(F64)
    wanted = scipy.spatial.distance.jensenshannon(p.numpy(), truth.numpy(), axis=-1) ** 2  # nats
    assert (jensen_shannon_score(p, x, reduction="none") - torch.from_numpy(wanted)).abs().max() <= 1e-14
    own = jensen_shannon(p, truth)
    assert (jensen_shannon_score(p, x, base=2, reduction="none") - own).abs().max() <= 1e-14


def test_jensen_shannon_score_at_its_ends():
    sure = torch.eye(3, dtype=F64)
    assert jensen_shannon_score(sure, torch.arange(3)) == 0
    assert abs(jensen_shannon_score(sure, (torch.arange(3) + 1) % 3) - math.log(2)) <= 1e-15


@pytest.mark.parametrize("score", [sparsemax_score, jensen_shannon_score])
def test_reductions_and_what_is_ignored(score):
    p, x = predictions(4, 6, 5)
    each = score(p, x, reduction="none")
    assert each.shape == (4, 6)
    assert torch.allclose(score(p, x), each.mean()) and torch.allclose(score(p, x, reduction="sum"), each.sum())
    cut = x.clone()
    cut[1, 2:] = -100
    kept = cut != -100
    assert torch.allclose(score(p, cut), each[kept].mean())
    assert torch.equal(score(p, cut, reduction="none"), torch.where(kept, each, 0.0))
    assert score(p, torch.full_like(x, -100)).isnan()
    assert torch.allclose(score(p, torch.where(kept, x, 0), ignore_index=0), each[kept & (x != 0)].mean())
    assert torch.allclose(epsilon_perplexity(p, cut, epsilon=0.1), epsilon_perplexity(p[kept], x[kept], epsilon=0.1))


@pytest.mark.parametrize("score", [sparsemax_score, jensen_shannon_score])
def test_scores_have_gradients_and_precisions(score):
    p, x = predictions(3, 4, scale=0.1)
    assert torch.autograd.gradcheck(lambda p: score(p, x), p.requires_grad_())
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        value = score(p.detach().to(dtype), x)
        assert value.dtype == torch.float32 and abs(value - score(p, x)) <= 10 * torch.finfo(dtype).eps


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda p, x: sparsemax_score(p, x.double()), TypeError, "sparsemax_score: target must be a tensor of tokens"),
        (
            lambda p, x: sparsemax_score(p, x[:2]),
            ValueError,
            "wanted p [*, V] and target [*], got shapes (3, 4) and (2,)",
        ),
        (lambda p, x: sparsemax_score(p, x + 9), ValueError, "target must hold tokens in [0, 4) or ignore_index=-100"),
        (lambda p, x: sparsemax_score(p.log(), x), ValueError, "p must hold probabilities, not scores or logarithms"),
        (lambda p, x: sparsemax_score(p * math.nan, x), ValueError, "p must hold probabilities"),
        (
            lambda p, x: sparsemax_score(p, x, reduction="max"),
            ValueError,
            "reduction must be one of 'mean', 'sum', 'none'",
        ),
        (lambda p, x: jensen_shannon_score(p.long(), x), TypeError, "jensen_shannon_score: p must be a floating-point"),
        (
            lambda p, x: epsilon_perplexity(p, x, epsilon=-1.0),
            ValueError,
            "epsilon_perplexity: epsilon must be >= 0, got -1",
        ),
        (lambda p, x: epsilon_perplexity(p, x, epsilon="a"), TypeError, "epsilon must be a number, got str"),
        (lambda p, x: epsilon_perplexity(p, epsilon=0.1), ValueError, "give target, or vocabulary"),
        (lambda p, x: epsilon_perplexity(p, x, epsilon=0.1, vocabulary=4), ValueError, "got both or neither"),
        (
            lambda p, x: best_epsilon(p, torch.full_like(x, -100)),
            ValueError,
            "best_epsilon: target must hold at least one",
        ),
        (lambda p, x: best_epsilon(x, vocabulary=4), TypeError, "best_epsilon: p must be a floating-point tensor"),
        (
            lambda p, x: best_epsilon(p, vocabulary=0),
            ValueError,
            "best_epsilon: vocabulary must be an integer >= 1, got 0",
        ),
    ],
)
def test_errors_name_function_argument_wanted_and_given(call, error, message):
    p, x = predictions(3, 4)
    with pytest.raises(error, match=re.escape(message)):
        call(p, x)
