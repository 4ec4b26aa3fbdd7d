"""Attention as it is defined, in operations of torch: scores, their map, and the mean of the values."""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._numerics import disable_autocast, returned_dtype, working_dtype
from omegamax.maps import Omega
from omegamax.nn._pairs import Pairs, mask_pairs
from omegamax.nn._support import measure_support
from omegamax.nn.transforms import apply


def attend_by_definition(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    transform: Omega | torch.nn.Module,
    pairs: Pairs,
    scale: float,
    sinks: Tensor | None,
    dropout: float,
    return_weights: bool,
    return_support: bool,
) -> Tensor | tuple:
    """Return attention, and if wanted its weights and their support, as :func:`omegamax.attention` does."""
    z = mask_pairs(_score(q, k, scale), pairs)
    if sinks is None:
        p = apply(transform, z).to(returned_dtype(q))
    else:
        last = sinks.to(z.dtype).reshape(-1, *(1,) * min(z.dim() - 1, 2)).expand(*z.shape[:-1], 1)
        p = apply(transform, torch.cat([z, last], -1))[..., :-1].to(returned_dtype(q))
    support = (measure_support(z, p),) if return_support else ()
    if dropout > 0:
        p = F.dropout(p, dropout)
    # Under autocast p is float32, and the product settles the dtype; outside it is what v is.
    out = _by_heads(p, v)
    weights = (p,) if return_weights else ()
    return (out, *weights, *support) if weights or support else out


def _score(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Compute the products of queries and keys, ``[*, H, L, S]``; on a CPU in the precision that maps compute in.

    Half precision would round scores of 300 to a quarter, and make those above 65504 infinite. A GPU keeps to it, where
    it multiplies many times as fast.
    """
    if q.device.type == "cuda":
        return _by_heads(q * scale, k.transpose(-2, -1))
    # Without autocast an exported graph has no context of it either.
    autocast = q.device.type != "meta" and torch.is_autocast_enabled(q.device.type)
    with disable_autocast(q.device) if autocast else nullcontext():
        return _by_heads(q.to(working_dtype(q)) * scale, k.to(working_dtype(k)).transpose(-2, -1))


def _by_heads(x: Tensor, y: Tensor) -> Tensor:
    """Compute ``x @ y`` where H heads ``[*, H, L, *]`` of x share G of y; these are not repeated."""
    heads, groups = (t.shape[-3] if t.dim() > 2 else 1 for t in (x, y))
    if heads in (1, groups):
        return x @ y
    rows = x.shape[-2]
    together = x.reshape(*x.shape[:-3], groups, heads // groups * rows, x.shape[-1]) @ y
    return together.reshape(*together.shape[:-3], heads, rows, y.shape[-1])
