"""Attention scored by a small network."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.maps import Omega
from omegamax.nn.query import QueryAttention


class AdditiveAttention(QueryAttention):
    r"""One query over L keys, scored by a network with one hidden layer; any map in place of softmax.

    .. math:: z_j = w^\top \tanh(W q + b + U k_j), \qquad c = \sum_j p_j v_j, \qquad p = \hat p_\Omega(z)

    Args:
        query_dim, key_dim: features of the query and of each key.
        hidden_dim: width of the hidden layer.
        transform: name of a map, an Omega, or a module such as :class:`~omegamax.nn.Entmax`.

    ``forward(query [*, Dq], keys [*, L, Dk], values=None, mask=None)`` returns the context ``[*, Dv]`` and the weights
    ``[*, L]``. Values default to the keys; ``mask``, bool and broadcastable to ``[*, L]``, keeps where True. With
    every key masked both are zero.

        >>> attend = AdditiveAttention(4, 6, hidden_dim=8, transform="sparsemax")
        >>> context, weights = attend(torch.randn(2, 4), torch.randn(2, 5, 6))
        >>> context.shape, weights.shape
        (torch.Size([2, 6]), torch.Size([2, 5]))

    Reference: Bahdanau, Cho & Bengio (ICLR 2015).
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        hidden_dim: int,
        transform: str | Omega | torch.nn.Module = "entmax15",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(transform)
        self.query = torch.nn.Linear(query_dim, hidden_dim, device=device, dtype=dtype)
        self.key = torch.nn.Linear(key_dim, hidden_dim, bias=False, device=device, dtype=dtype)
        self.score = torch.nn.Linear(hidden_dim, 1, bias=False, device=device, dtype=dtype)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        z: Tensor = self.score(torch.tanh(self.query(query).unsqueeze(-2) + self.key(keys))).squeeze(-1)
        return z
