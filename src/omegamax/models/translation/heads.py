"""Attention of several heads that remembers its keys and values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import nn
from omegamax.models.decoding import make_map, read_alpha
from omegamax.models.translation.config import TranslatorConfig

Cache = dict[str, Tensor]  # keys and values, each [N, H, L, D]


class Heads(torch.nn.Module):
    """Attention by any map, of H heads, whose keys and values are made once and kept.

    Args:
        config: sizes and the map.

    ``keep(x [B, L, dim])`` makes keys and values; ``forward(x [B, T, dim], kept)`` looks at them.
    """

    def __init__(self, config: TranslatorConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query = torch.nn.Linear(config.dim, config.dim)
        self.pair = torch.nn.Linear(config.dim, 2 * config.dim)
        self.out = torch.nn.Linear(config.dim, config.dim)
        for each in (self.query, self.pair, self.out):
            torch.nn.init.xavier_uniform_(each.weight)
            torch.nn.init.zeros_(each.bias)
        self.transform = make_map(config.attention, config.attention_options, config.learn_alpha, config.heads)

    @property
    def alpha(self) -> Tensor | None:
        """Return the alpha of each head, ``[H]``; None of a map that has none."""
        return read_alpha(self.transform, self.heads)

    def keep(self, x: Tensor) -> Cache:
        """Return the keys and values of states."""
        keys, values = self.pair(x).chunk(2, -1)
        return {"keys": self._split(keys), "values": self._split(values)}

    def forward(
        self, x: Tensor, kept: Cache, mask: Tensor | None = None, causal: bool = False, look: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Return ``[B, T, dim]`` and, with ``look``, the weights ``[B, H, T, L]``.

        With ``causal`` the queries are the last T of the L places.
        """
        q, keys, values = self._split(self.query(x)), kept["keys"], kept["values"]
        offset = keys.shape[-2] - q.shape[-2] if causal else 0
        # A single query that comes last sees all there is.
        limited = causal and q.shape[-2] > 1
        settings: dict[str, Any] = {"mask": mask, "is_causal": limited, "offset": offset}
        weights = None
        if look:
            out, weights = nn.attention(q, keys, values, self.transform, **settings, return_weights=True)
        else:
            out = nn.attention(q, keys, values, self.transform, **settings)
        return self.out(out.transpose(1, 2).flatten(-2)), weights

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
