"""The one that hears a symbol and chooses a picture."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_integer

_FEW = 64  # pictures for each candidate up to which it is quicker to compare each symbol with all of them


class Receiver(torch.nn.Module):
    r"""Scores of candidate pictures, given a symbol: how well the picture goes with what was said.

    .. math:: s_j = \langle E^\top y, \; V g(x_j) + c \rangle

    A symbol with several words means the mixture of their embeddings.

    Args:
        encoder: g, of pictures ``[N, *]``, with ``dim`` features.
        words: K.
        dim: d, that in which words and pictures meet.

    ``forward(symbols [B, K], images [U, *], candidates [B, n])`` gives scores ``[B, n]``: candidates are places of
    ``images``, so that a picture that is a candidate of several games is looked at once.

        >>> from omegamax.models.bag_classifier import VectorEncoder
        >>> receiver = Receiver(VectorEncoder(20, 8, layers=1), words=5)
        >>> receiver(torch.eye(5)[:2], torch.randn(4, 20), torch.tensor([[0, 1, 3], [2, 3, 1]])).shape
        torch.Size([2, 3])

    Reference: Farinhas et al. (ICLR 2022), after Lazaridou et al. (ICLR 2017).
    """

    def __init__(self, encoder: Any, words: int = 256, dim: int = 256) -> None:
        super().__init__()
        for argument, value in (("words", words), ("dim", dim)):
            check_integer("Receiver", argument, value, least=1)
        self.encoder = encoder
        self.look = torch.nn.Linear(encoder.dim, dim)
        self.meaning = torch.nn.Linear(words, dim, bias=False)

    def forward(self, symbols: Tensor, images: Tensor, candidates: Tensor) -> Tensor:
        seen, heard = self.look(self.encoder(images)), self.meaning(symbols)
        if len(images) <= _FEW * candidates.shape[-1]:
            return (heard @ seen.T).gather(-1, candidates)
        return (seen[candidates] @ heard.unsqueeze(-1)).squeeze(-1)
