"""Attention scored by a bilinear form."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.maps import Omega
from omegamax.nn.query import QueryAttention


class BilinearAttention(QueryAttention):
    r"""One query over L keys, scored by a learnt bilinear form; any map in place of softmax.

    .. math:: z_j = q^\top W k_j, \qquad c = \sum_j p_j v_j, \qquad p = \hat p_\Omega(z)

    With W the identity this is the dot product. Query and keys may differ in their features, and nothing but W is
    learnt.

    Args:
        query_dim, key_dim: features of the query and of each key; ``weight`` is W, ``[query_dim, key_dim]``, drawn so
            that the scores of standard normal queries and keys start with variance 1.
        transform: name of a map, an Omega, or a module such as :class:`~omegamax.nn.Entmax`.

    ``forward(query [*, Dq], keys [*, L, Dk], values=None, mask=None)`` returns the context ``[*, Dv]`` and the weights
    ``[*, L]``. Values default to the keys; ``mask``, bool and broadcastable to ``[*, L]``, keeps where True. With
    every key masked both are zero.

        >>> attend = BilinearAttention(2, 3, transform="sparsemax")
        >>> _ = attend.load_state_dict({"weight": torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])})
        >>> context, weights = attend(torch.tensor([1.0, 0.5]), torch.eye(3))
        >>> weights.detach()
        tensor([0.7500, 0.2500, 0.0000])

    Reference: Luong, Pham & Manning (EMNLP 2015), where this score is called "general".
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        transform: str | Omega | torch.nn.Module = "entmax15",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(transform)
        shape = [
            check_integer("BilinearAttention", argument, size, least=1)
            for argument, size in (("query_dim", query_dim), ("key_dim", key_dim))
        ]
        self.weight = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        torch.nn.init.normal_(self.weight, std=(shape[0] * shape[1]) ** -0.5)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.matmul(keys, (query @ self.weight).unsqueeze(-1)).squeeze(-1)
