"""The ``adasplash`` package (0.2) on top of omegamax: change one import, keep the rest.

    >>> import torch
    >>> import omegamax.compat.adasplash as adasplash
    >>> adasplash.triton_sparsemax(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.7500, 0.2500, 0.0000])
    >>> q = k = v = torch.eye(3).reshape(1, 1, 3, 3)
    >>> adasplash.adasplash(q, k, v, alpha=2.0, is_causal=True)[0, 0, 1]
    tensor([0.2113, 0.7887, 0.0000])

Where the two differ: it also runs on CPUs, any length and any head size do, every alpha is exact, and numbers of
iterations, histograms and fast mathematics are accepted and not needed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import functional
from omegamax.nn.attention import attention
from omegamax.omegas import Tsallis

__version__ = "0.2.0"  # of the package that this stands in for

__all__ = [
    "adasplash",
    "adasplash2",
    "adasplash_no_block_mask",
    "adasplash_v1",
    "adasplash_v2",
    "entmax_attention",
    "triton_entmax",
    "triton_entmax15",
    "triton_entmax_v1",
    "triton_entmax_v2",
    "triton_sparsemax",
]


def triton_entmax(
    x: Tensor, alpha: float = 1.5, n_iter: int = 2, use_histogram: bool = True, fast_math: bool = False
) -> Tensor:
    """:func:`omegamax.entmax` along the last axis."""
    return functional.entmax(x, alpha, -1)


def triton_entmax_v1(x: Tensor, alpha: float = 1.5, n_iter: int = 10, fast_math: bool = True) -> Tensor:
    """:func:`omegamax.entmax` along the last axis."""
    return functional.entmax(x, alpha, -1)


triton_entmax_v2 = triton_entmax


def triton_sparsemax(x: Tensor, **options: object) -> Tensor:
    """:func:`omegamax.sparsemax` along the last axis."""
    return functional.sparsemax(x, -1)


def triton_entmax15(x: Tensor, **options: object) -> Tensor:
    """:func:`omegamax.entmax15` along the last axis."""
    return functional.entmax15(x, -1)


def adasplash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: float = 1.5,
    is_causal: bool = True,
    varlen: Tensor | None = None,
    niter: int | None = None,
) -> Tensor:
    """:func:`omegamax.attention` of ``[B, H, L, D]`` with entmax; queries beyond ``varlen [B]`` get zeros."""
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
    """As :func:`adasplash`, not causal by default."""
    return entmax_attention(q, k, v, alpha, varlen, is_causal)


adasplash_no_block_mask = adasplash_v1


def adasplash_v2(q: Tensor, k: Tensor, v: Tensor, niter: int = 1, varlen: Tensor | None = None) -> Tensor:
    """Causal attention with 1.5-entmax."""
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
    """:func:`omegamax.attention` with entmax; the last query stands beside the last key.

    ``varlen [B]`` tells how many of the keys, the first or (``padding="left"``) the last, are there; as many queries
    get an output where there are as many as keys, the others zeros. Slopes are added times ``j - i``.
    """
    if padding not in ("right", "left"):
        raise ValueError(f"entmax_attention: padding must be 'right' or 'left', got {padding!r}")
    queries, keys = q.shape[-2], k.shape[-2]
    mask = there = None
    if varlen is not None:
        if varlen.shape != q.shape[:1]:
            raise ValueError(f"entmax_attention: varlen must have shape ({q.shape[0]},), got {tuple(varlen.shape)}")
        place, count = torch.arange(keys, device=q.device), varlen.to(q.device)[:, None]
        there = place < count if padding == "right" else place >= keys - count
        mask = there[:, None, None, :]
    if alibi_slopes is not None:
        ahead = torch.arange(keys, device=q.device) - torch.arange(queries, device=q.device)[:, None]
        ahead = ahead - (keys - 1 if queries == 1 else 0)
        bias = alibi_slopes.to(q.device, q.dtype)[:, None, None] * ahead
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    out = attention(q, k, v, Tsallis(alpha), mask, is_causal, offset=keys - queries if is_causal else 0)
    if there is not None and queries == keys:
        out = out.masked_fill(~there[:, None, :, None], 0)
    return out
