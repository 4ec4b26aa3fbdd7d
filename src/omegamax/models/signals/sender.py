"""The one that sees a picture and speaks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from omegamax._arguments import check_integer, check_number
from omegamax.models.signals.distributions import SymbolDistribution, symbol_distribution


class Sender(torch.nn.Module):
    r"""From a picture to the distribution of a symbol, a point of the simplex of K words.

    .. math:: Y \sim p(\cdot \mid z), \qquad z = (W f(x) + b) / \tau

    A draw may be one word (a corner), a mixture of some, or of all; :class:`SignalGame` draws.

    Args:
        encoder: f, of pictures ``[N, *]``, with ``dim`` features, such as
            :class:`~omegamax.models.bag_classifier.VectorEncoder`.
        words: K.
        distribution: name of the distribution, with ``options``, or a function from scores to a distribution:
            :func:`symbol_distribution`.
        tempering: tau, by which scores are divided. With a large one all words are about as likely at the start, and
            a distribution with zeros says several.

        >>> from omegamax.models.bag_classifier import VectorEncoder
        >>> send = Sender(VectorEncoder(20, 8, layers=1), words=5, distribution="gaussian_sparsemax")
        >>> distribution = send(torch.randn(3, 20))
        >>> distribution.rsample().shape
        torch.Size([3, 5])

    Reference: Farinhas et al. (ICLR 2022), after Lazaridou et al. (ICLR 2017).
    """

    def __init__(
        self,
        encoder: Any,
        words: int = 256,
        distribution: str | SymbolDistribution = "gumbel_softmax",
        options: dict[str, float] | None = None,
        tempering: float = 1.0,
    ) -> None:
        super().__init__()
        self.encoder, self.words = encoder, check_integer("Sender", "words", words, least=1)
        check_number("Sender", "tempering", tempering, above=0)
        self.tempering = float(tempering)
        self.score = torch.nn.Linear(encoder.dim, self.words)
        self.distribution = symbol_distribution(distribution, **(options or {}))

    def forward(self, images: Tensor) -> Distribution:
        return self.distribution(self.score(self.encoder(images)) / self.tempering)
