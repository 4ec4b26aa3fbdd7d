"""Players of the game of signals: what they say, what they hear, and what reaches the sender."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch.distributions import Dirichlet

from omegamax.mixed import GaussianSparsemax, GumbelSoftmax, HardConcrete, LogisticNormal
from omegamax.models.bag_classifier import VectorEncoder
from omegamax.models.signals import DISTRIBUTIONS, Play, Receiver, Sender, SignalGame, symbol_distribution
from omegamax.models.signals import receiver as receiver_file

KINDS = {
    "gumbel_softmax": GumbelSoftmax,
    "gumbel_softmax_st": GumbelSoftmax,
    "hard_concrete": HardConcrete,
    "gaussian_sparsemax": GaussianSparsemax,
    "logistic_normal": LogisticNormal,
}
every_distribution = pytest.mark.parametrize("distribution", DISTRIBUTIONS)


def game(distribution, words=12, features=20, options=None):
    sender = Sender(VectorEncoder(features, 16, layers=1), words, distribution, options)
    return SignalGame(sender, Receiver(VectorEncoder(features, 16, layers=1), words, 8))


def batch(features=20):
    return torch.randn(6, features), torch.arange(6), torch.stack([torch.randperm(6)[:4] for _ in range(6)])


def test_every_distribution_has_a_name():
    assert KINDS.keys() == DISTRIBUTIONS.keys()


@every_distribution
def test_distribution_by_name_is_the_distribution_with_its_options(distribution):
    option = "scale" if distribution in ("gaussian_sparsemax", "logistic_normal") else "temperature"
    found = symbol_distribution(distribution, **{option: 0.3})(torch.randn(2, 5))
    assert type(found) is KINDS[distribution]
    assert torch.equal(getattr(found, option), torch.full_like(getattr(found, option), 0.3))
    assert getattr(found, "hard", False) == distribution.endswith("_st")


@every_distribution
def test_distribution_by_name_can_be_pickled(distribution):
    scores = torch.randn(3, 5)
    draws = []
    for each in (symbol_distribution(distribution), pickle.loads(pickle.dumps(symbol_distribution(distribution)))):
        torch.manual_seed(0)
        draws.append(each(scores).rsample())
    assert torch.equal(*draws)


@pytest.mark.parametrize(
    "distribution, options, message",
    [
        ("words", {}, "distribution must be one of"),
        ("hard_concrete", {"scale": 1.0}, "an option of hard_concrete must be one of 'temperature', 'stretch'"),
        ("hard_concrete", {"stretch": 0.9}, "stretch must be a finite number >= 1, got 0.9"),
        ("gaussian_sparsemax", {"scale": 0.0}, "scale must be a finite number > 0, got 0.0"),
        (Dirichlet, {"scale": 1.0}, "options go with the name of a distribution"),
    ],
)
def test_wrong_distribution_is_refused(distribution, options, message):
    with pytest.raises(ValueError, match=message):
        symbol_distribution(distribution, **options)


@every_distribution
def test_gradients_reach_every_parameter_of_both_players(distribution):
    play_game = game(distribution).double()
    images, shown, candidates = batch()
    play = play_game(images.double(), shown, candidates)
    play.scores.logsumexp(-1).sum().backward()
    for name, parameter in play_game.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.any()), name


@every_distribution
def test_sender_learns_by_the_path_of_the_sample(distribution):
    """The gradient is that of the receiver's loss through the symbol, and no other."""
    play_game = game(distribution).double()
    images, shown, candidates = batch()
    images = images.double()
    torch.manual_seed(1)
    play_game(images, shown, candidates).scores[:, 0].sum().backward()
    found = play_game.sender.score.weight.grad.clone()
    torch.manual_seed(1)
    symbols = play_game.sender(images[shown]).rsample()
    heard = symbols.detach().requires_grad_()
    (to_symbols,) = torch.autograd.grad(play_game.receiver(heard, images, candidates)[:, 0].sum(), heard)
    (wanted,) = torch.autograd.grad(symbols, play_game.sender.score.weight, to_symbols)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-14)


@every_distribution
def test_symbols_are_points_of_the_simplex(distribution):
    with torch.no_grad():
        symbols = game(distribution).sender(torch.randn(50, 20)).rsample()
    assert symbols.shape == (50, 12) and bool((symbols >= 0).all())
    torch.testing.assert_close(symbols.sum(-1), torch.ones(50))


def test_any_distribution_on_the_simplex_will_do():
    play_game = game(lambda scores: Dirichlet(scores.exp(), validate_args=False))
    play_game(*batch()).scores.sum().backward()
    assert bool(play_game.sender.score.weight.grad.any())


def test_nonzeros_are_counted_one_by_one():
    symbols = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3], [1 - 1e-30, 1e-30, 0]])
    assert Play(symbols, torch.zeros(4, 2)).nonzeros.tolist() == [1, 2, 3, 2]


@pytest.mark.parametrize("distribution, least, most", [("gumbel_softmax", 12, 12), ("gumbel_softmax_st", 1, 1)])
def test_nonzeros_of_the_baselines_are_all_and_one(distribution, least, most):
    images, shown, candidates = batch()
    nonzeros = game(distribution, options={"temperature": 0.1})(100 * images, shown, candidates).nonzeros
    assert least <= nonzeros.min() and nonzeros.max() <= most


def test_mixed_symbols_have_some_words_and_not_all():
    for distribution, options in (("hard_concrete", {"stretch": 3.0}), ("gaussian_sparsemax", {"scale": 0.3})):
        with torch.no_grad():
            symbols = game(distribution, options=options).sender(torch.randn(200, 20)).rsample()
        count = Play(symbols, symbols).nonzeros
        assert 1 < count.float().mean() < 12


def test_tie_is_no_success():
    scores = torch.tensor([[1.0, 1.0], [0.0, 2.0], [2.0, 0.0]])
    assert Play(scores, scores).success(torch.tensor([0, 1, 1])).tolist() == [False, True, False]


def test_receiver_without_preference_is_never_right():
    """If a tie were won by the first candidate, a game would be won by saying nothing."""
    assert not Play(torch.zeros(5, 2), torch.zeros(5, 16)).success(torch.zeros(5, dtype=torch.long)).any()


def test_scores_do_not_depend_on_how_they_are_computed(monkeypatch):
    play_game = game("gumbel_softmax").double()
    images, _, candidates = batch()
    symbols = torch.rand(6, 12, dtype=torch.float64)
    all_pairs = play_game.receiver(symbols, images.double(), candidates)
    monkeypatch.setattr(receiver_file, "_FEW", 0)
    torch.testing.assert_close(play_game.receiver(symbols, images.double(), candidates), all_pairs, rtol=0, atol=1e-12)
    heard = play_game.receiver.meaning(symbols)
    seen = play_game.receiver.look(play_game.receiver.encoder(images.double()))
    for row in range(6):
        wanted = torch.stack([heard[row] @ seen[place] for place in candidates[row]])
        torch.testing.assert_close(all_pairs[row], wanted, rtol=0, atol=1e-12)


def test_a_mixed_symbol_means_the_mixture_of_its_words():
    receiver = game("gumbel_softmax").double().receiver
    images, _, candidates = batch()
    words = torch.eye(12, dtype=torch.float64)
    mixture = (0.25 * words[3] + 0.75 * words[7]).expand(6, 12)
    parts = [receiver(words[k].expand(6, 12), images.double(), candidates) for k in (3, 7)]
    found = receiver(mixture, images.double(), candidates)
    torch.testing.assert_close(found, 0.25 * parts[0] + 0.75 * parts[1], rtol=0, atol=1e-12)


def test_players_must_share_their_vocabulary():
    with pytest.raises(ValueError, match="same number of words, got 5 and 6"):
        SignalGame(Sender(VectorEncoder(4, 3), 5), Receiver(VectorEncoder(4, 3), 6))


@pytest.mark.parametrize(("words", "error"), [(0, ValueError), (2.5, ValueError), (True, TypeError)])
def test_number_of_words_is_checked(words, error):
    with pytest.raises(error, match="Sender: words must be an integer >= 1"):
        Sender(VectorEncoder(4, 3), words)
    with pytest.raises(error, match="Receiver: words must be an integer >= 1"):
        Receiver(VectorEncoder(4, 3), words)
