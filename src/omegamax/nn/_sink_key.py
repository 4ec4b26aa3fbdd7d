"""Sinks of attention as one more key, so that kernels that know of none serve them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax.nn._attention_operation import UNLIMITED, WIDEST
from omegamax.nn._fused_attention import KINDS, FusedCall

ALIGNED = 8  # features in 16 bytes of half precision, in which rows are loaded
LOWEST = -2e4  # what a sink is at least, over the scale: finite in half precision, and far below every other score


def add_sink(call: FusedCall, sinks: Tensor) -> FusedCall | None:
    """Return the call with a key of score ``sinks [H]`` and no value before the others; None where it has no place.

    Queries get two features more, which only that key looks at: their score over the scale, rounded, and what rounding
    took. A window, slopes, lengths and masks speak of keys by their position, and of this one too.
    """
    q, k, v, pairs = call.q, call.k, call.v, call.pairs
    depth = q.shape[-1]
    more = -depth % ALIGNED
    more += ALIGNED if more < 2 else 0
    positions = (pairs.mask, pairs.slopes, pairs.lengths)
    if any(x is not None for x in positions) or pairs.left < UNLIMITED or depth + more > WIDEST:
        return None
    if type(sinks) not in KINDS and not torch.compiler.is_compiling():
        return None
    score = (sinks.float() / call.scale).clamp(min=LOWEST)
    rounded = score.to(q.dtype)
    both = torch.stack([rounded, (score - rounded.float()).to(q.dtype)], -1)
    features = F.pad(both, (0, more - 2))[:, None].expand(*q.shape[:-1], more)
    key = F.pad(k.new_ones(2), (depth, more - 2)).expand(*k.shape[:2], 1, depth + more)
    return call._replace(
        q=torch.cat([q, features], -1),
        k=torch.cat([key, F.pad(k, (0, more))], -2),
        v=F.pad(v, (0, 0, 1, 0)),
        pairs=pairs._replace(offset=pairs.offset + 1),
    )
