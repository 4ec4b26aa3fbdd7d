"""When softmax attention can go to torch's own kernels."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omegamax import kernels
from omegamax._arguments import is_number
from omegamax.maps import Omega, Shannon, Tsallis
from omegamax.nn._attention_operation import DTYPES, UNLIMITED
from omegamax.nn._fused_attention import has_hooks, is_differentiated_plainly
from omegamax.nn._pairs import Pairs
from omegamax.nn.transforms import Entmax, Softmax


def attend_by_torch(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    transform: Omega | nn.Module,
    pairs: Pairs,
    scale: float,
    dropout: float,
) -> Tensor | None:
    """Return softmax attention by ``scaled_dot_product_attention``, or None where that does not compute it."""
    if not _is_softmax(transform) or not _is_usable(q) or not is_differentiated_plainly(q, k, v, pairs):
        return None
    # Its backward passes add up in any order, and some of its kernels refuse to drop everything.
    if torch.are_deterministic_algorithms_enabled() or dropout >= 1:
        return None
    if not (q.dim() == k.dim() == v.dim() == 4 and len(q) == len(k) == len(v) and q.dtype == k.dtype == v.dtype):
        return None
    if k.shape[-2] == 0:  # which is refused
        return None
    heads, groups = q.shape[1], k.shape[1]
    if groups != v.shape[1] or heads % max(groups, 1) or not is_number(scale) or scale <= 0:
        return None
    causal, mask = pairs.right < UNLIMITED, pairs.mask
    if pairs.slopes is not None or pairs.lengths is not None or pairs.left < UNLIMITED:
        return None
    # Its causal mask is that of queries and keys that begin and end together, and stands alone.
    if causal and (pairs.right or pairs.offset or mask is not None or q.shape[-2] != k.shape[-2]):
        return None
    options: dict[str, Any] = {"dropout_p": dropout, "is_causal": causal, "scale": scale, "enable_gqa": groups != heads}
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, **options)
    mask = mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape))
    mask = mask.expand(*mask.shape[:2], q.shape[-2], k.shape[-2])
    # A query that sees no key gets zeros, and no gradient. Not all of torch's kernels give these, some give NaN to all
    # keys in the backward pass: there it sees every key, and its output is replaced.
    blind = ~(mask if mask.dtype == torch.bool else mask > -math.inf).any(-1, keepdim=True)
    mask = mask | blind if mask.dtype == torch.bool else mask.to(q.dtype).masked_fill(blind, 0.0)
    return F.scaled_dot_product_attention(q, k, v, mask, **options).masked_fill(blind, 0.0)


def _is_usable(q: Tensor) -> bool:
    """Tell whether tensors like this one may go there: on a GPU, in a precision in which one derivative is enough."""
    return q.is_cuda and q.dtype in DTYPES and kernels.current_backend() != "reference"


def _is_softmax(transform: Omega | nn.Module) -> bool:
    if isinstance(transform, nn.Module) and has_hooks(transform):
        return False
    if isinstance(transform, (Tsallis, Entmax)) and type(transform) in (Tsallis, Entmax):
        return isinstance(transform.alpha, (int, float)) and transform.alpha == 1
    return type(transform) in (Shannon, Softmax)
