"""Attention of one query, whatever scores it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from omegamax._checks import check_mask
from omegamax.maps import Omega
from omegamax.nn.transforms import apply, resolve


class QueryAttention(torch.nn.Module, ABC):
    r"""One query over L keys; any map in place of softmax. A subclass says how keys are scored.

    .. math:: c = \sum_j p_j v_j, \qquad p = \hat p_\Omega(z)

    ``forward(query [*, Dq], keys [*, L, Dk], values=None, mask=None)`` returns the context ``[*, Dv]`` and the weights
    ``[*, L]``. Values default to the keys; ``mask``, bool and broadcastable to ``[*, L]``, keeps where True. With
    every key masked both are zero.
    """

    def __init__(self, transform: str | Omega | torch.nn.Module):
        super().__init__()
        self.transform = resolve(type(self).__name__, transform)

    @abstractmethod
    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return z, ``[*, Dq], [*, L, Dk] -> [*, L]``."""

    def forward(
        self, query: Tensor, keys: Tensor, values: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        name, values = type(self).__name__, keys if values is None else values
        if keys.dim() != query.dim() + 1 or keys.shape[:-1] != values.shape[:-1]:
            raise ValueError(
                f"{name}: query, keys and values must have shapes [*, Dq], [*, L, Dk], [*, L, Dv], "
                f"got {tuple(query.shape)}, {tuple(keys.shape)}, {tuple(values.shape)}"
            )
        z = self.scores(query, keys)
        if mask is not None:
            check_mask(name, z, mask)
            z = z.masked_fill(~mask, -torch.inf)
        weights = apply(self.transform, z)
        return torch.matmul(weights.unsqueeze(-2), values).squeeze(-2), weights

    def extra_repr(self) -> str:
        return "" if isinstance(self.transform, torch.nn.Module) else f"transform={self.transform!r}"
