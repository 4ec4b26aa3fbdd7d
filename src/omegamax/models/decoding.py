"""What networks that write tokens share: the map of their heads, the tokens they take, and those they never write."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from omegamax import nn
from omegamax._checks import readable
from omegamax.data.subwords import BOS, PAD, UNK
from omegamax.maps import Omega, get

State = dict[str, Any]  # what is kept of the tokens so far


def make_map(attention: str, options: Mapping[str, Any], learn_alpha: bool, heads: int) -> Omega | torch.nn.Module:
    """Return the map of all heads, or entmax with an alpha to learn for each of them."""
    if learn_alpha:
        return nn.Entmax(options.get("alpha", 1.5), learnable=True, per=heads)
    return get(attention, **options)


def read_alpha(transform: Omega | torch.nn.Module, heads: int) -> Tensor | None:
    """Return the alpha of each head, ``[heads]``; None of a map that has none."""
    if isinstance(transform, nn.Entmax) and isinstance(transform.alpha, nn.Alpha):
        return transform.alpha.value
    alpha = getattr(transform, "alpha", None)
    return None if alpha is None else torch.full((heads,), float(alpha))


def check_tokens(name: str, key: str, tokens: Any, size: int) -> Tensor:
    """Return tokens ``[B, T]``, of which there are ``size``, or refuse them.

    Args:
        name: of the network, for the message; ``key``: what it calls them.
    """
    if not isinstance(tokens, Tensor) or tokens.dtype not in (torch.int64, torch.int32):
        given = tokens.dtype if isinstance(tokens, Tensor) else type(tokens).__name__
        raise TypeError(f"{name}: {key} must be a tensor of integers, got {given}")
    if tokens.dim() != 2 or not tokens.shape[1]:
        raise ValueError(f"{name}: {key} must have shape [B, T] with T >= 1, got {tuple(tokens.shape)}")
    if readable(tokens) and tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < size:
        given = f"{int(tokens.min())} to {int(tokens.max())}"
        raise ValueError(f"{name}: {key} must lie from 0 to {size - 1}, got {given}")
    return tokens


def forbid_marks(scores: Tensor) -> Tensor:
    """Rule out padding, begin and what is not known, in place, in scores ``[N, V]``: a text is made of words."""
    for token in (PAD, BOS, UNK):  # a list of them would be sent to a GPU, and waited for
        scores[:, token] = -math.inf
    return scores
