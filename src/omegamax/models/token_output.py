"""The settings of the last layer of a decoder, and the layer that they name."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from omegamax import nn


@dataclass(frozen=True)
class TokenOutputConfig:
    """How scores of tokens become probabilities, see :class:`~omegamax.nn.TokenOutput`.

    Args:
        transform: ``"softmax"``, ``"entmax15"``, ``"sparsemax"``, ``"entmax"`` or ``"normmax"``.
        alpha: of entmax (1.5 by default) or normmax (2).
        learnable: learn alpha of entmax, in (1, 2).
        label_smoothing: in [0, 1].
    """

    transform: str = "softmax"
    alpha: float | None = None
    learnable: bool = False
    label_smoothing: float = 0.1

    @property
    def label(self) -> str:
        """Return the map in words.

        >>> TokenOutputConfig("entmax", learnable=True).label, TokenOutputConfig("entmax", 1.3).label
        ('learnt entmax', 'entmax 1.3')
        """
        if self.learnable:
            return f"learnt {self.transform}"
        return self.transform if self.alpha is None else f"{self.transform} {self.alpha:g}"


def make_output(
    config: TokenOutputConfig, dim: int, size: int, embedding: torch.nn.Embedding | None = None
) -> nn.TokenOutput:
    """Make the layer from states of ``dim`` features to ``size`` tokens; with an embedding it shares its weights."""
    shared = None if embedding is None else embedding.weight
    assert shared is None or isinstance(shared, torch.nn.Parameter)
    return nn.TokenOutput(
        dim,
        size,
        config.transform,
        alpha=config.alpha,
        learnable=config.learnable,
        label_smoothing=config.label_smoothing,
        weight=shared,
    )
