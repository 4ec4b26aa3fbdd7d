"""The one that sees a picture and speaks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from omegamax._arguments import is_integer
from omegamax.models.signals.laws import Law, symbol_law


class Sender(torch.nn.Module):
    r"""From a picture to the law of a symbol, a point of the simplex of K words.

    .. math:: Y \sim p(\cdot \mid z), \qquad z = W f(x) + b

    A draw may be one word (a corner), a mixture of some, or of all; :class:`SignalGame` draws.

    Args:
        encoder: f, of pictures ``[N, *]``, with ``dim`` features, such as
            :class:`~omegamax.models.bag_classifier.VectorEncoder`.
        words: K.
        law: name of the law, with ``options``, or a function from scores to a distribution: :func:`symbol_law`.

        >>> from omegamax.models.bag_classifier import VectorEncoder
        >>> law = Sender(VectorEncoder(20, 8, layers=1), words=5, law="gaussian_sparsemax")(torch.randn(3, 20))
        >>> law.rsample().shape
        torch.Size([3, 5])

    Reference: Farinhas et al. (ICLR 2022), after Lazaridou et al. (ICLR 2017).
    """

    def __init__(
        self, encoder: Any, words: int = 256, law: str | Law = "gumbel_softmax", options: dict[str, float] | None = None
    ) -> None:
        super().__init__()
        if not is_integer(words) or words < 1:
            raise ValueError(f"Sender: words must be a whole number >= 1, got {words!r}")
        self.encoder, self.words = encoder, int(words)
        self.score = torch.nn.Linear(encoder.dim, self.words)
        self.law = symbol_law(law, **(options or {}))

    def forward(self, images: Tensor) -> Distribution:
        return self.law(self.score(self.encoder(images)))
