"""What a long-term memory knows of the past, as a named tuple of tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class MemoryState(NamedTuple):
    r"""The past of a batch, as :class:`~omegamax.nn.LongTermMemory` keeps it; its size does not grow.

    A named tuple of tensors and nothing else: it can be saved (``torch.save``, ``torch.load``), moved, indexed by
    example, mapped over and differentiated, and the same state gives the same continuation.

        >>> from omegamax.nn import LongTermMemory
        >>> state = LongTermMemory(8, functions=16).initial_state(2)
        >>> [(name, tuple(t.shape)) for name, t in state._asdict().items()]
        [('coefficients', (2, 16, 8)), ('length', (2,)), ('histogram', (2, 0))]
    """

    coefficients: Tensor
    """``[B, N, D]``, B of the signal :math:`X(t) = B^\\top \\psi(t)`, at least in single precision."""
    length: Tensor
    """``[B]``, how many vectors the signal was made from; int64."""
    histogram: Tensor
    """``[B, bins]``, the mass of attention in each bin of [0, 1] since the last update; no bins if nothing sticks."""

    def detach(self) -> MemoryState:
        """Return the same state outside the graph, for backpropagation that is truncated in time."""
        return MemoryState(*(t.detach() for t in self))

    def select(self, index: int | slice | Tensor) -> MemoryState:
        """Return the state of some of the examples, such as the beams that go on; of one, with a batch of 1."""
        chosen = [index] if isinstance(index, int) else index
        return MemoryState(*(t[chosen] for t in self))


# So that torch.load reads a saved state as it reads tensors, without being told to trust the file.
torch.serialization.add_safe_globals([MemoryState])
