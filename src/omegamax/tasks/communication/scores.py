"""How well they understand each other, and in how many words."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import MeanMetric, Metric

from omegamax.models.signals import Play


class Usage(Metric):
    """How often each of ``words`` words was the largest of a symbol."""

    count: Tensor

    def __init__(self, words: int) -> None:
        super().__init__()
        self.add_state("count", torch.zeros(words, dtype=torch.long), dist_reduce_fx="sum")

    def update(self, symbols: Tensor) -> None:
        """Add symbols ``[B, K]``."""
        self.count += torch.bincount(symbols.argmax(-1), minlength=len(self.count))

    def compute(self) -> Tensor:
        return self.count


class GameScores(torch.nn.Module):
    """Measures of games, collected over batches and processes.

    ``success`` (share of games in which the right picture was chosen), ``nonzeros`` (words in a symbol, on average),
    ``rounded`` (success if the receiver hears only the largest word of each symbol, where that was tried) and
    ``words`` (how many different ones were the largest of a symbol).

        >>> scores = GameScores(2)
        >>> scores.update(Play(torch.eye(2), torch.tensor([[1.0, 3.0], [2.0, 1.0]])), torch.tensor([1, 1]))
        >>> scores.compute()
        {'success': 0.5, 'nonzeros': 1.0, 'words': 2}
    """

    def __init__(self, words: int) -> None:
        super().__init__()
        self.success, self.nonzeros, self.rounded = MeanMetric(), MeanMetric(), MeanMetric()
        self.usage = Usage(words)
        self._rounded = False

    def update(self, play: Play, target: Tensor, rounded: Play | None = None) -> None:
        """Add games that were played; ``target [B]`` is the place of the right candidate."""
        self.success.update(play.success(target).double())
        self.nonzeros.update(play.nonzeros.double())
        self.usage.update(play.symbols)
        if rounded is not None:
            self.rounded.update(rounded.success(target).double())
            self._rounded = True

    def compute(self) -> dict[str, float]:
        """Return the measures by name."""
        found = {"success": float(self.success.compute()), "nonzeros": float(self.nonzeros.compute())}
        if self._rounded:
            found["rounded"] = float(self.rounded.compute())
        return {**found, "words": int((self.usage.compute() > 0).sum())}

    def reset(self) -> None:
        """Begin anew."""
        for metric in (self.success, self.nonzeros, self.rounded, self.usage):
            metric.reset()
        self._rounded = False
