"""Training and evaluation of two networks that play a game of signals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightning as L
import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax.models.bag_classifier import VectorEncoder
from omegamax.models.signals import Play, Receiver, Sender, SignalGame
from omegamax.models.signals.distributions import SymbolDistribution
from omegamax.tasks.communication.scores import GameScores

Batch = dict[str, Tensor]


class CommunicationTask(L.LightningModule):
    """A :class:`~omegamax.models.signals.SignalGame`, its loss, its optimiser, and what is measured of it.

    The loss is the negative log-probability of the right candidate; nothing else is asked of the symbols. Logged are
    ``train_loss``; ``val_loss`` and the :class:`~omegamax.tasks.communication.GameScores` of validation games with
    ``val_``; in a test, the same with ``test_``, and ``rounded``. Symbols are drawn in validation and test too, by
    random numbers of their own: the same draws each time, and those of training stay as they are.

    Args:
        distribution: of the symbol, a name with ``options`` or a function:
            :func:`~omegamax.models.signals.symbol_distribution`.
        features: of a picture.
        words: in the vocabulary.
        hidden: width of the one hidden layer of either player.
        dim: in which the receiver compares words and pictures.
        rate: of the optimiser, Adam.
        tempering: what the sender's scores are divided by.

        >>> task = CommunicationTask("gaussian_sparsemax", {"scale": 0.5}, features=20, words=8, hidden=4, dim=4)
        >>> batch = {"images": torch.randn(3, 20), "shown": torch.tensor([2]), "candidates": torch.tensor([[1, 2]])}
        >>> task(batch).scores.shape
        torch.Size([1, 2])

    Reference: Farinhas et al. (ICLR 2022), after Lazaridou et al. (ICLR 2017).
    """

    def __init__(
        self,
        distribution: str | SymbolDistribution = "gumbel_softmax",
        options: dict[str, float] | None = None,
        features: int = 784,
        words: int = 256,
        hidden: int = 512,
        dim: int = 256,
        rate: float = 1e-3,
        tempering: float = 1.0,
    ) -> None:
        super().__init__()
        sender = Sender(VectorEncoder(features, hidden, layers=1), words, distribution, options, tempering)
        self.model = SignalGame(sender, Receiver(VectorEncoder(features, hidden, layers=1), words, dim))
        self.rate = rate
        self.scores = torch.nn.ModuleDict({prefix: GameScores(words) for prefix in ("val_", "test_")})

    def forward(self, batch: Batch) -> Play:
        return self.model(batch["images"], batch["shown"], batch["candidates"])

    def training_step(self, batch: Batch, index: int) -> Tensor:
        loss = F.cross_entropy(self(batch).scores, batch["target"])
        self.log("train_loss", loss, prog_bar=True, batch_size=len(batch["target"]), sync_dist=True)
        return loss

    def validation_step(self, batch: Batch, index: int) -> None:
        self._score("val_", batch, index)

    def test_step(self, batch: Batch, index: int) -> None:
        self._score("test_", batch, index)

    def on_validation_epoch_end(self) -> None:
        self._report("val_")

    def on_test_epoch_end(self) -> None:
        self._report("test_")

    def _score(self, prefix: str, batch: Batch, index: int) -> None:
        with _seed_draws(index, self.device):
            play = self(batch)
        loss = F.cross_entropy(play.scores, batch["target"])
        self.log(f"{prefix}loss", loss, batch_size=len(batch["target"]), sync_dist=True)
        rounded = None
        if prefix == "test_":
            largest = F.one_hot(play.symbols.argmax(-1), play.symbols.shape[-1]).to(play.symbols.dtype)
            rounded = self.model.reply(largest, batch["images"], batch["candidates"])
        self._scores(prefix).update(play, batch["target"], rounded)

    def _report(self, prefix: str) -> None:
        scores = self._scores(prefix)
        for name, value in scores.compute().items():  # all processes have the same
            self.log(prefix + name, float(value), prog_bar=name == "success", sync_dist=True)
        scores.reset()

    def _scores(self, prefix: str) -> GameScores:
        scores = self.scores[prefix]
        assert isinstance(scores, GameScores)
        return scores

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), self.rate)


@contextmanager
def _seed_draws(seed: int, device: torch.device) -> Iterator[None]:
    """Let random numbers in the block begin at ``seed``, and those after it go on as if it had drawn none."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
