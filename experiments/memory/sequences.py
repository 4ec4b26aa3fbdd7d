"""The sorting task: long sequences of 20 symbols, to be told in the order of how often each occurred."""

from __future__ import annotations

import torch
from torch import Tensor

SYMBOLS = 20


def draw_sequences(batch: int, length: int, generator: torch.Generator) -> Tensor:
    r"""Return symbols ``[batch, length]``, int64, drawn from distributions that drift from one to another.

    Symbol j is from :math:`(1 - r) p + r p'` with :math:`r = j / L`, where p and p' are integers from 1 to 9, made to
    sum to one. What comes last tells little about what came first.
    """
    device = generator.device
    ends = torch.randint(1, 10, (2, batch, 1, SYMBOLS), generator=generator, device=device).float()
    first, last = (ends / ends.sum(-1, keepdim=True)).cumsum(-1)
    r = torch.arange(1, length + 1, device=device).div(length)[:, None]
    u = torch.rand(batch, length, 1, generator=generator, device=device)
    return (u > torch.lerp(first, last, r)[..., :-1]).sum(-1)


def sort_symbols(sequences: Tensor) -> Tensor:
    """Return the symbols of ``[B, L]`` by how often they occur, the most frequent first; ``[B, 20]``.

    Of those that occur equally often, the one that came first is first; what does not occur comes last, by its number.
    """
    batch, length = sequences.shape
    steps = torch.arange(length, device=sequences.device).expand(batch, length)
    empty = sequences.new_zeros(batch, SYMBOLS)
    counts = empty.scatter_add(-1, sequences, torch.ones_like(sequences))
    first = empty.fill_(length).scatter_reduce(-1, sequences, steps, "amin")
    return (first - counts * (length + 1)).argsort(dim=-1, stable=True)
