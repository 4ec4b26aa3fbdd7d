"""Masks of torch's multi-head attention, where True forbids, as one of :func:`omegamax.attention`, where True keeps."""

from __future__ import annotations

import torch
from torch import Tensor


def merge_masks(
    query: Tensor,
    key: Tensor,
    heads: int,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    causal: bool,
) -> Tensor | None:
    """Return both masks as one, broadcastable to ``[B, H, L, S]``.

    ``causal``: what ``attn_mask`` says is known.
    """
    batch, queries, keys = query.shape[0], query.shape[1], key.shape[1]
    if attn_mask is not None:
        _check_mask("attn_mask", attn_mask, [(queries, keys), (batch * heads, queries, keys)])
        attn_mask = attn_mask if attn_mask.dim() == 2 else attn_mask.unflatten(0, (batch, heads))
        attn_mask = None if causal else attn_mask
    if key_padding_mask is not None:
        _check_mask("key_padding_mask", key_padding_mask, [(batch, keys)])
        key_padding_mask = key_padding_mask[:, None, None, :]
    given = [m for m in (attn_mask, key_padding_mask) if m is not None]
    if not given:
        return None
    if all(m.dtype == torch.bool for m in given):
        return ~(given[0] | given[-1])
    added = [_additive(m, query.dtype) for m in given]
    return added[0] if len(added) == 1 else added[0] + added[1]


def count_seen(mask: Tensor | None, q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """Count the keys that each query may see, broadcastable to ``[B, H, L]``."""
    keys = k.shape[-2]
    if mask is None:
        there = torch.ones(1, keys, dtype=torch.bool, device=k.device)
    else:
        there = mask if mask.dtype == torch.bool else mask > -torch.inf
    if not causal:
        return there.sum(-1)
    # The mask is that of the keys, the same for every query: [B, 1, 1, S].
    last = torch.arange(q.shape[-2], device=k.device).clamp(max=keys - 1)
    return there.cumsum(-1)[..., last].squeeze(-2)


def _check_mask(argument: str, mask: Tensor, shapes: list[tuple[int, ...]]) -> None:
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(
            f"MultiheadAttention: {argument} must be bool (True forbids) or float (added to the scores), "
            f"got {mask.dtype}"
        )
    if tuple(mask.shape) not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"MultiheadAttention: {argument} must have shape {wanted}, got {tuple(mask.shape)}")


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask as what is added to the scores: ``-inf`` where torch's convention forbids."""
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -torch.inf)
