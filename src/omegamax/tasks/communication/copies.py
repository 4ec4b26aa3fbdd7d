"""Pairs of players of one make, trained side by side: seeds, rates, temperatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Distribution

from omegamax._arguments import check_integer
from omegamax.models.signals import SignalGame
from omegamax.tasks.communication.games import ConceptMembers
from omegamax.tasks.communication.scores import GameScores
from omegamax.tasks.stacked import RatedAdam, Stacked


class GameCopies:
    """Games of signals whose players differ in their weights, and in the numbers of the distribution of symbols.

    Args:
        games: M of them, of the same make, with a distribution of one name.
        device: to compute on.

        >>> from omegamax.models.bag_classifier import VectorEncoder
        >>> from omegamax.models.signals import Receiver, Sender
        >>> def make(scale):
        ...     encoders = [VectorEncoder(6, 8, layers=1) for _ in range(2)]
        ...     sender = Sender(encoders[0], 5, "gaussian_sparsemax", {"scale": scale})
        ...     return SignalGame(sender, Receiver(encoders[1], 5, 4))
        >>> copies = GameCopies([make(0.5), make(1.0)])
        >>> copies.train(torch.randn(9, 6), torch.arange(9) % 3, [1e-3, 1e-2], steps=2, batch_size=3, candidates=2)
    """

    def __init__(self, games: Sequence[SignalGame], device: torch.device | str = "cpu") -> None:
        self.games, self.device, self.size = list(games), torch.device(device), len(games)
        for game in self.games:
            game.to(self.device)
        senders, receivers = [game.sender for game in self.games], [game.receiver for game in self.games]
        self.send = Stacked([torch.nn.Sequential(sender.encoder, sender.score) for sender in senders])
        self.look = Stacked([torch.nn.Sequential(each.encoder, each.look) for each in receivers])
        self.hear = Stacked([receiver.meaning for receiver in receivers])
        self.tempering = torch.tensor([sender.tempering for sender in senders], device=self.device)[:, None, None]
        self._distribution, self._options = _join([sender.distribution for sender in senders], self.device)

    def speak(self, images: Tensor) -> Distribution:
        """Return the distributions of symbols about pictures ``[M, B, D]``, of batch shape ``[M, B]``."""
        return self._distribution(self.send(images) / self.tempering, **self._options)

    def train(
        self,
        images: Tensor,
        concepts: Tensor,
        rates: Sequence[float],
        steps: int,
        batch_size: int = 256,
        candidates: int = 16,
        seed: int = 0,
        watch: Callable[[int], None] | None = None,
        every: int = 1,
    ) -> None:
        """Play ``steps`` batches of games, each pair with pictures of its own.

        A batch has a picture of each of ``batch_size`` concepts, in an order that is drawn, and a game about each of
        them; its candidates are that picture and those that follow it. So the concepts of a game are any, all sets of
        them being equally likely, and each picture is looked at once. Where the right candidate stands does not matter
        to a receiver, which scores each by itself.

        Args:
            images: pictures ``[N, D]``.
            concepts: of the pictures ``[N]``, at least ``batch_size`` different ones.
            rates: of Adam, one for each pair.
            steps: how many.
            batch_size, candidates: games in a batch, pictures in a game.
            seed: of all that is drawn.
            watch: called with the number of steps made, after every ``every`` of them, weights being those of then.
        """
        torch.manual_seed(seed)
        images, members = images.to(self.device), ConceptMembers(concepts.to(self.device))
        check_integer("GameCopies.train", "batch_size", batch_size, 2, members.concepts)
        check_integer("GameCopies.train", "candidates", candidates, 2, batch_size)
        first = torch.arange(batch_size, device=self.device)[:, None]
        follow = (first + torch.arange(candidates, device=self.device)) % batch_size
        follow, target = follow.expand(self.size, -1, -1), torch.zeros_like(first.flatten()).expand(self.size, -1)
        weights = [*self.send.weights, *self.look.weights, *self.hear.weights]
        adam = RatedAdam(weights, rates, fused=True)
        for step in range(1, steps + 1):
            chosen = torch.rand(self.size, members.concepts, device=self.device).argsort(1)[:, :batch_size]
            batch = images[members.draw(chosen)]
            symbols = self.speak(batch).rsample()
            scores = (self.hear(symbols) @ self.look(batch).mT).gather(-1, follow)
            loss = F.cross_entropy(scores.flatten(0, 1), target.flatten(), reduction="none")
            loss.unflatten(0, (self.size, -1)).mean(1).sum().backward()
            adam.step()
            if watch is not None and step % every == 0:
                self.hand_back()
                watch(step)
        self.hand_back()

    def hand_back(self) -> None:
        """Copy the weights as they are now into the games that were given."""
        self.send.hand_back([torch.nn.Sequential(game.sender.encoder, game.sender.score) for game in self.games])
        self.look.hand_back([torch.nn.Sequential(game.receiver.encoder, game.receiver.look) for game in self.games])
        self.hear.hand_back([game.receiver.meaning for game in self.games])


@torch.no_grad()
def play_games(game: SignalGame, batch: dict[str, Tensor], rounded: bool = False, seed: int = 0) -> dict[str, float]:
    """Play a batch of :class:`Games` and return its :class:`GameScores`; symbols are drawn from ``seed``.

    ``rounded``: also with symbols of which the receiver hears the largest word alone.
    """
    device = game.receiver.meaning.weight.device
    here = {name: value.to(device) for name, value in batch.items()}
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        play = game(here["images"], here["shown"], here["candidates"])
    scores, again = GameScores(game.sender.words).to(device), None
    if rounded:
        largest = F.one_hot(play.symbols.argmax(-1), play.symbols.shape[-1]).to(play.symbols.dtype)
        again = game.reply(largest, here["images"], here["candidates"])
    scores.update(play, here["target"], again)
    return scores.compute()


def _join(
    distributions: Sequence[object], device: torch.device
) -> tuple[Callable[..., Distribution], dict[str, Tensor]]:
    """Return the function of all these distributions, and their numbers, which broadcast with scores ``[M, B, K]``."""
    made = [each for each in distributions if isinstance(each, partial)]
    if len(made) < len(distributions) or len({each.func for each in made}) > 1:
        raise ValueError("GameCopies: games must have distributions of one name, got other functions")
    names = {name for each in made for name in each.keywords}
    if any(set(each.keywords) != names for each in made):
        raise ValueError(f"GameCopies: games must all give the same options, got {sorted(names)} of some alone")
    options = {}
    for name in sorted(names):
        values = torch.tensor([float(each.keywords[name]) for each in made], device=device)
        # A temperature is one number of a symbol, a scale one of each word.
        options[name] = values[:, None, None] if name == "scale" else values[:, None]
    return made[0].func, options
