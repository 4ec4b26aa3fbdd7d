"""Causal self-attention by any map: heads that share keys, positions as angles, a sink, and a cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import nn
from omegamax.models.decoding import make_map, read_alpha
from omegamax.models.language.config import LanguageConfig
from omegamax.models.language.rotary import rotate
from omegamax.nn import PagedCache

Cache = dict[str, Any]


class CausalHeads(torch.nn.Module):
    """Self-attention in which a state sees itself and what is before it.

    Args:
        config: sizes and the map.

    ``forward(x [B, T, dim], kept)`` returns ``[B, T, dim]`` and the cache with the new keys and values behind those of
    before: tensors ``keys`` and ``values [B, G, S, D]``, or ``pages``, a :class:`~omegamax.nn.PagedCache`.
    """

    slopes: Tensor | None

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        self.heads, self.base = config.heads, config.base if config.positions == "rotary" else None
        self.groups = config.heads if config.groups is None else config.groups
        # On the device of the module: a list would be sent there in every call, and waited for.
        slopes = torch.tensor(_slope_heads(config.heads)) if config.positions == "alibi" else None
        self.register_buffer("slopes", slopes, persistent=False)
        width = config.dim // config.heads
        self.query = torch.nn.Linear(config.dim, config.dim)
        self.pair = torch.nn.Linear(config.dim, 2 * self.groups * width)
        self.out = torch.nn.Linear(config.dim, config.dim)
        for each in (self.query, self.pair, self.out):
            torch.nn.init.xavier_uniform_(each.weight)
            torch.nn.init.zeros_(each.bias)
        self.transform = make_map(config.attention, config.attention_options, config.learn_alpha, config.heads)
        self.length_scale = nn.LengthScale(config.heads) if config.length_scale else None
        # Key and value of the sink.
        self.sink = torch.nn.Parameter(torch.zeros(2, self.groups, 1, width)) if config.sink else None

    @property
    def alpha(self) -> Tensor | None:
        """Return the alpha of each head, ``[H]``; None of a map that has none."""
        return read_alpha(self.transform, self.heads)

    def initial(self, x: Tensor, page: int | None = None) -> Cache:
        """Return the cache of texts that have not begun, for states like ``x [B, *, dim]``."""
        width = self.query.out_features // self.heads
        if self.sink is None:
            keys = values = x.new_zeros(len(x), self.groups, 0, width)
        else:
            keys, values = (each.to(x.dtype).expand(len(x), -1, -1, -1) for each in self.sink)
        if page is None:
            return {"keys": keys, "values": values}
        cache = PagedCache(page)
        cache.append(keys, values)
        return {"pages": cache, "count": len(cache)}

    def forward(self, x: Tensor, kept: Cache) -> tuple[Tensor, Cache]:
        q = self._split(self.query(x), self.heads)
        k, v = (self._split(each, self.groups) for each in self.pair(x).chunk(2, -1))
        pages: PagedCache | None = kept.get("pages")
        before = kept["keys"].shape[-2] if pages is None else len(pages)
        first = before - (self.sink is not None)
        if self.base is not None:
            q, k = rotate(q, first, self.base), rotate(k, first, self.base)
        if self.length_scale is not None:
            seen = torch.arange(before + 1, before + 1 + q.shape[-2], device=q.device)
            q = q * self.length_scale(seen).to(q.dtype)
        # A single query that comes last sees all there is.
        settings: dict[str, Any] = {"is_causal": q.shape[-2] > 1, "offset": before}
        if pages is not None:
            if self.slopes is not None:
                raise ValueError(
                    "Decoder: a cache in pages does not go with positions='alibi'; take 'rotary' or 'none'"
                )
            if before != kept["count"]:  # pages grow in place: those of an older state hold what came after it
                raise ValueError(
                    f"Decoder: a cache in pages goes on from its last state only; it holds {before} keys, and this "
                    f"state knows {kept['count']}"
                )
            q, k, v = (each.to(pages.keys.dtype) for each in (q, k, v))  # autocast halves what projections give
            out, certificate = nn.attention(q, k, v, self.transform, cache=pages, **settings)
            kept = {"pages": pages, "count": len(pages), "certificate": certificate}
        else:
            keys, values = (torch.cat([old, new], -2) for old, new in ((kept["keys"], k), (kept["values"], v)))
            if self.slopes is not None:
                settings["alibi"] = self.slopes.to(q.dtype)
            out = nn.attention(q, keys, values, self.transform, **settings)
            kept = {"keys": keys, "values": values}
        return self.out(out.transpose(1, 2).flatten(-2)), kept

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _slope_heads(heads: int) -> list[float]:
    """Return what each head subtracts for each place of distance: 1, 1/2, ... for half of them, 0 for the others."""
    near = heads // 2
    return [1 / (head + 1) for head in range(near)] + [0.0] * (heads - near)
