"""Pairs of players side by side: they say what each would alone, learn at their own rates, and are measured rightly."""

from __future__ import annotations

import pytest
import torch

from omegamax.models.bag_classifier import VectorEncoder
from omegamax.models.signals import DISTRIBUTIONS, Receiver, Sender, SignalGame
from omegamax.tasks.communication import GameCopies, Games
from omegamax.tasks.communication.copies import play_games

OPTION = {
    kind: "scale" if kind in ("gaussian_sparsemax", "logistic_normal") else "temperature" for kind in DISTRIBUTIONS
}


def make(kind, value=1.0, tempering=1.0, seed=0, words=12):
    torch.manual_seed(seed)
    encoders = [VectorEncoder(6, 16, layers=1) for _ in range(2)]
    sender = Sender(encoders[0], words, kind, {OPTION[kind]: value}, tempering)
    return SignalGame(sender, Receiver(encoders[1], words, 8))


def pictures(count=600, concepts=20):
    torch.manual_seed(5)
    about = torch.arange(count) % concepts
    pixels = (torch.randn(concepts, 6)[about] + 0.1 * torch.randn(count, 6)).sigmoid().mul(255).byte()
    return pixels, about


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_symbols_have_the_distribution_of_each_alone(kind):
    values, temperings = (0.5, 1.0, 2.0), (1.0, 10.0, 3.0)
    games = [
        make(kind, value, tempering, seed)
        for seed, (value, tempering) in enumerate(zip(values, temperings, strict=True))
    ]
    x = torch.randn(3, 1, 6).expand(3, 4000, 6)
    with torch.no_grad():
        said = GameCopies(games).speak(x).rsample()
        for mine, game, given in zip(said, games, x, strict=True):
            alone = game.sender(given).rsample()
            error = (mine.var(0) / len(mine) + alone.var(0) / len(alone)).sqrt()
            assert bool(((mine.mean(0) - alone.mean(0)).abs() <= 5 * error + 1e-6).all())


@pytest.mark.parametrize("kind", ["gumbel_softmax_st", "gaussian_sparsemax"])
def test_players_come_to_understand_each_other(kind):
    pixels, about = pictures()
    games = [make(kind, 0.5 if kind == "gaussian_sparsemax" else 1.0, seed=seed) for seed in range(2)]
    held = Games(pixels, about, 8, seed=1, mean=0.5, deviation=0.25, concepts=about)
    before, seen = [play_games(game, held.batch(range(300)))["success"] for game in games], []
    images = (pixels.float() / 255 - 0.5) / 0.25
    copies = GameCopies(games)
    copies.train(images, about, [1e-2, 1e-12], 300, batch_size=16, candidates=8, watch=seen.append, every=100)
    after = [play_games(game, held.batch(range(300)), rounded=True) for game in games]
    assert seen == [100, 200, 300]
    assert after[0]["success"] > before[0] + 0.3  # the other has next to no rate
    assert abs(after[1]["success"] - before[1]) < 0.1
    assert after[0]["rounded"] == after[0]["success"] or kind == "gaussian_sparsemax"


def test_games_of_concepts_have_different_ones():
    _, about = pictures(60, 9)
    games = Games(torch.arange(60, dtype=torch.uint8)[:, None], about, 5, seed=2, concepts=about)
    batch = games.batch(range(60))
    drawn = (batch["images"] * 255).round().long().flatten()[batch["candidates"]]  # a picture's byte is its index
    assert bool((about[drawn].sort(1).values.diff(dim=1) > 0).all())
    shown = (batch["images"] * 255).round().long().flatten()[batch["shown"]]
    assert torch.equal(drawn.gather(1, batch["target"][:, None]).flatten(), shown)
    assert torch.equal(batch["label"], about[shown])


def test_other_makes_are_refused():
    with pytest.raises(ValueError, match="distributions of one name"):
        GameCopies([make("gumbel_softmax"), make("hard_concrete")])
    with pytest.raises(ValueError, match="batch_size must be an integer from 2 to 3"):
        GameCopies([make("gumbel_softmax")]).train(torch.randn(6, 6), torch.arange(6) % 3, [1e-3], 1, batch_size=4)
