"""Batches of as many tokens as memory has room for, whatever the lengths of their samples."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.tasks.batches import Order


class TokenOrder(Order):
    """Which samples make batches of at most so many tokens, padding included: such as are about as long as each other.

    Samples are sorted by length, those of one length shuffled anew in each epoch, and cut where a batch is full; so an
    epoch always has as many batches. With a seed the batches are shuffled; without one, the longest come first. A
    sample that has more tokens by itself is a batch by itself. Several processes take turns with the batches; with a
    seed all have as many, and some of the first occur again at the end.

    Args:
        lengths: of the samples, ``[N]``.
        tokens: of a batch, of each process.
        most: samples of a batch; None: as many as its tokens allow.
        seed, processes, rank: as for :class:`~omegamax.tasks.batches.Order`.

        >>> list(TokenOrder(torch.tensor([1, 5, 2, 2, 9]), 6))
        [[4], [1], [2, 3, 0]]
    """

    def __init__(
        self,
        lengths: Tensor,
        tokens: int,
        seed: int | None = None,
        *,
        most: int | None = None,
        processes: int = 1,
        rank: int = 0,
    ) -> None:
        super().__init__(len(lengths), check_integer("TokenOrder", "tokens", tokens, 1), seed)
        self.processes, self.rank, self.lengths = processes, rank, lengths
        self._sizes = _cut(lengths.sort(descending=True).values.tolist(), tokens, most)

    def __len__(self) -> int:
        """Return the number of batches of this process in a whole epoch."""
        count = len(self._sizes)
        return -(-count // self.processes) if self.seed is not None else len(range(self.rank, count, self.processes))

    def __iter__(self) -> Iterator[list[int]]:
        """Return the batches of the epoch, from index ``first`` on."""
        generator = self.draws()
        samples = self.arrange() if generator is None else torch.randperm(self.count, generator=generator)
        samples = samples[self.lengths[samples].argsort(stable=True, descending=True)]
        batches = [batch.tolist() for batch in samples.split(self._sizes)] if self._sizes else []
        if generator is not None:
            batches = [batches[place] for place in torch.randperm(len(batches), generator=generator)]
            batches = batches * self.processes  # enough to fill up with
        return iter(batches[self.rank :: self.processes][: len(self)][self.first :])


def _cut(lengths: list[int], tokens: int, most: int | None) -> list[int]:
    """Return the sizes of batches of samples with falling lengths."""
    sizes: list[int] = []
    longest = 0
    for length in lengths:
        size = sizes[-1] + 1 if sizes else 0
        if sizes and size * longest <= tokens and (most is None or size <= most):
            sizes[-1] = size
        else:
            sizes.append(1)
            longest = length
    return sizes
