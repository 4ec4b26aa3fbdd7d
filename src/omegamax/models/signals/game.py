"""Sender and receiver, playing."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.models.signals.receiver import Receiver
from omegamax.models.signals.sender import Sender


class Play(NamedTuple):
    """What was said in each game, ``symbols [B, K]``, and how candidates were scored, ``scores [B, n]``."""

    symbols: Tensor
    scores: Tensor

    @property
    def nonzeros(self) -> Tensor:
        """Return words in each symbol, ``[B]``."""
        return (self.symbols != 0).sum(-1)

    def success(self, target: Tensor) -> Tensor:
        """Tell in which games the picture at index ``target [B]`` was chosen, ``[B]``; a tie with another is a failure.

        >>> play = Play(torch.eye(2), torch.tensor([[1.0, 3.0], [2.0, 2.0]]))
        >>> play.success(torch.tensor([1, 0])), play.nonzeros
        (tensor([ True, False]), tensor([1, 1]))
        """
        right = self.scores.gather(-1, target.unsqueeze(-1))
        return (self.scores >= right).sum(-1) == 1


class SignalGame(torch.nn.Module):
    """The sender sees a picture and says a symbol; the receiver hears it and chooses among candidates.

    The symbol is a draw from the sender's distribution, in training and after: what is random about it is part of the
    language. ``forward(images [U, *], shown [B], candidates [B, n])`` plays B games about pictures of one stack:
    ``shown`` is the place of the sender's picture, ``candidates`` are those of the receiver's.

        >>> from omegamax.models.bag_classifier import VectorEncoder
        >>> encoders = [VectorEncoder(20, 8, layers=1) for _ in range(2)]
        >>> game = SignalGame(Sender(encoders[0], 5, "gumbel_softmax_st"), Receiver(encoders[1], 5))
        >>> play = game(torch.randn(4, 20), torch.tensor([0, 1]), torch.tensor([[0, 1, 3], [2, 3, 1]]))
        >>> play.scores.shape, play.nonzeros
        (torch.Size([2, 3]), tensor([1, 1]))

    Reference: Farinhas et al. (ICLR 2022), after Lazaridou et al. (ICLR 2017).
    """

    def __init__(self, sender: Sender, receiver: Receiver) -> None:
        super().__init__()
        if receiver.meaning.in_features != sender.words:
            given = f"{sender.words} and {receiver.meaning.in_features}"
            raise ValueError(f"SignalGame: sender and receiver must have the same number of words, got {given}")
        self.sender, self.receiver = sender, receiver

    def forward(self, images: Tensor, shown: Tensor, candidates: Tensor) -> Play:
        symbols = self.sender(images[shown]).rsample()
        return Play(symbols, self.receiver(symbols, images, candidates))

    def reply(self, symbols: Tensor, images: Tensor, candidates: Tensor) -> Play:
        """Return the receiver alone, hearing these symbols ``[B, K]``."""
        return Play(symbols, self.receiver(symbols, images, candidates))
