"""What a layer keeps of text that attention does not see any more: a signal, the last vectors, or averages."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._arguments import check_choice, check_integer, check_interval
from omegamax.models.language.config import MemoryConfig
from omegamax.nn import LongTermMemory


class SlotMemory(torch.nn.Module):
    r"""N vectors of the past, read by softmax attention: the last ones, or averages of ever more neighbours.

    It has the calls of :class:`~omegamax.nn.LongTermMemory`: ``initial_state(batch)``, ``update(state, hidden [B, L,
    D])`` and ``forward(query [B, Q, D], state)``, whose second result is None. The state is ``[B, n, D]`` with n up to
    N. With ``"average"`` an update pools the past into :math:`\tau N` vectors and the new ones into the rest.

    Args:
        dim: D, a multiple of ``heads``.
        size: N.
        heads: of attention.
        kind: ``"last"`` or ``"average"``.
        contraction: :math:`\tau`.

        >>> memory = SlotMemory(8, 4, kind="average")
        >>> state = memory.initial_state(2)
        >>> for segment in torch.randn(5, 2, 16, 8):
        ...     state = memory.update(state, segment)
        >>> state.shape, memory(torch.randn(2, 3, 8), state)[0].shape
        (torch.Size([2, 4, 8]), torch.Size([2, 3, 8]))
    """

    def __init__(self, dim: int, size: int, heads: int = 1, kind: str = "last", contraction: float = 0.75) -> None:
        super().__init__()
        check_choice("SlotMemory", "kind", kind, ("last", "average"))
        self.size, self.kind = check_integer("SlotMemory", "size", size, least=2), kind
        self.kept = round(check_interval("SlotMemory", "contraction", contraction, "(0, 1)") * size)
        self.place = torch.nn.Parameter(0.02 * torch.randn(size, dim))
        self.attend = torch.nn.MultiheadAttention(dim, heads, batch_first=True)

    def initial_state(self, batch: int) -> Tensor:
        """Return empty memories."""
        return self.place.new_zeros(batch, 0, self.place.shape[1])

    def update(self, state: Tensor, hidden: Tensor) -> Tensor:
        """Return the vectors that are left after further ones ``[B, L, D]``."""
        both = torch.cat([state.to(hidden.dtype), hidden], 1)
        if self.kind == "last":
            return both[:, -self.size :]
        if both.shape[1] <= self.size:
            return both
        if not state.shape[1]:
            return _pool(hidden, self.size)
        new = min(self.size - self.kept, hidden.shape[1])
        return torch.cat([_pool(state.to(hidden.dtype), self.size - new), _pool(hidden, new)], 1)

    def forward(self, query: Tensor, state: Tensor) -> tuple[Tensor, None]:
        """Return the context ``[B, Q, D]``, zeros where there is no past."""
        if not state.shape[1]:
            return torch.zeros_like(query), None
        keys = state + self.place[-state.shape[1] :]
        return self.attend(query, keys, state, need_weights=False)[0], None


def make_memory(config: MemoryConfig, dim: int, heads: int) -> LongTermMemory | SlotMemory:
    """Make the memory that a configuration names."""
    if config.kind != "signal":
        return SlotMemory(dim, config.size, heads, config.kind, config.contraction)
    options: dict[str, Any] = {"alpha": config.alpha, "sticky": config.sticky, "moments": config.moments}
    return LongTermMemory(dim, config.size, heads=heads, contraction=config.contraction, **options)


def _pool(x: Tensor, count: int) -> Tensor:
    """Return averages ``[B, count, D]`` of neighbours."""
    return F.adaptive_avg_pool1d(x.transpose(1, 2), count).transpose(1, 2)
