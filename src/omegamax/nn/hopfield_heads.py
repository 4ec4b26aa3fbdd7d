"""The parts of an association layer: what is projected from where to where, and the masks of its heads."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_integer, is_integer
from omegamax._checks import check_presence

ROLES = ("query", "stored", "value", "out")


def role_sizes(
    embed: int, heads: int, hidden: int | None, stored: int | None, value: int | None, out: int | None
) -> dict[str, tuple[int, int]]:
    """Return the features of each role before and after its projection."""
    hidden = embed if hidden is None else hidden
    stored = embed if stored is None else stored
    value = stored if value is None else value
    out = embed if out is None else out
    for name, size in (("embed_dim", embed), ("stored_dim", stored), ("value_dim", value), ("out_dim", out)):
        check_integer("Hopfield", name, size, least=1)
    if not is_integer(hidden) or hidden < 1 or hidden % heads:
        raise ValueError(f"Hopfield: hidden_dim must be a multiple of num_heads={heads}, got {hidden!r}")
    embed, hidden, stored, value, out = (int(size) for size in (embed, hidden, stored, value, out))
    return {"query": (embed, hidden), "stored": (stored, hidden), "value": (value, hidden), "out": (hidden, out)}


def static_roles(static: Collection[str], sizes: dict[str, tuple[int, int]]) -> set[str]:
    """Return the roles left unprojected; refuses unknown ones, and those whose features would have to change."""
    roles = {static} if isinstance(static, str) else set(static)
    if roles - set(ROLES):
        unknown = ", ".join(sorted(roles - set(ROLES)))
        raise ValueError(f"Hopfield: static must name some of {', '.join(ROLES)}, got {unknown}")
    for role in ROLES:
        here, there = sizes[role]
        if role in roles and here != there:
            raise ValueError(f"Hopfield: static {role!r} needs equal numbers of features, got {here} and {there}")
    return roles


def linear(here: int, there: int, bias: bool, made: dict[str, Any]) -> torch.nn.Linear:
    """Return a projection that starts as those of attention do."""
    layer = torch.nn.Linear(here, there, bias, **made)
    torch.nn.init.xavier_uniform_(layer.weight)
    if bias:
        torch.nn.init.zeros_(layer.bias)
    return layer


def join_masks(stored: Tensor, mask: Tensor | None, attn_mask: Tensor | None) -> Tensor | None:
    """Return both masks as one of :func:`attention`, broadcastable to ``[*, H, L, N]``."""
    if mask is not None:
        check_presence("Hopfield", "mask", mask, stored.shape[-2])
        mask = mask.unsqueeze(-2).unsqueeze(-3)
    if attn_mask is None:
        return mask
    attn_mask = attn_mask.unsqueeze(-3) if attn_mask.dim() > 2 else attn_mask
    if mask is None:
        return attn_mask
    if attn_mask.dtype == torch.bool:
        return attn_mask & mask
    return attn_mask.masked_fill(~mask, -math.inf)
