"""Attention by the names that adasplash has for it."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._arguments import check_choice
from omegamax.maps import Tsallis
from omegamax.nn.attention import attention


def adasplash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: float = 1.5,
    is_causal: bool = True,
    varlen: Tensor | None = None,
    niter: int | None = None,
) -> Tensor:
    """Attend by :func:`omegamax.attention` to ``[B, H, L, D]`` with entmax; queries beyond ``varlen [B]`` get zeros."""
    return entmax_attention(q, k, v, alpha, varlen, is_causal)


def adasplash_v1(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: float = 1.5,
    is_causal: bool = False,
    varlen: Tensor | None = None,
    niter: int = 10,
) -> Tensor:
    """Attend as :func:`adasplash` does, not causal by default."""
    return entmax_attention(q, k, v, alpha, varlen, is_causal)


adasplash_no_block_mask = adasplash_v1


def adasplash_v2(q: Tensor, k: Tensor, v: Tensor, niter: int = 1, varlen: Tensor | None = None) -> Tensor:
    """Attend with 1.5-entmax to the past."""
    return entmax_attention(q, k, v, 1.5, varlen, True)


adasplash2 = adasplash_v2


def entmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: float = 1.5,
    varlen: Tensor | None = None,
    is_causal: bool = False,
    padding: str = "right",
    niter: int = 2,
    alibi_slopes: Tensor | None = None,
) -> Tensor:
    """Attend by :func:`omegamax.attention` with entmax; the last query stands beside the last key.

    ``varlen [B]`` tells how many of the keys, the first or (``padding="left"``) the last, are there; as many queries
    get an output where there are as many as keys, the others zeros. Slopes are added times ``j - i``.
    """
    check_choice("entmax_attention", "padding", padding, ("right", "left"))
    queries, keys = q.shape[-2], k.shape[-2]
    mask = present = None
    if varlen is not None:
        if varlen.shape != q.shape[:1]:
            raise ValueError(f"entmax_attention: varlen must have shape ({q.shape[0]},), got {tuple(varlen.shape)}")
        position, count = torch.arange(keys, device=q.device), varlen.to(q.device)[:, None]
        present = position < count if padding == "right" else position >= keys - count
        mask = present[:, None, None, :]
    if alibi_slopes is not None:
        ahead = torch.arange(keys, device=q.device) - torch.arange(queries, device=q.device)[:, None]
        ahead = ahead - (keys - 1 if queries == 1 else 0)
        bias = alibi_slopes.to(q.device, q.dtype)[:, None, None] * ahead
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    out = attention(q, k, v, Tsallis(alpha), mask, is_causal, offset=keys - queries if is_causal else 0)
    if present is not None and queries == keys:
        out = out.masked_fill(~present[:, None, :, None], 0)
    return out
