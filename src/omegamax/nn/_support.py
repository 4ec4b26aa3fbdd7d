"""How much of attention is exactly zero."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

BLOCK = 64  # queries and keys of a block


class AttentionSupport(NamedTuple):
    """What :func:`omegamax.attention` leaves out, for each head: ``[*, H]`` in float32, no gradient.

    ``entries`` is the share of pairs without weight among those that may be seen; ``blocks`` the share of blocks of 64
    queries and 64 keys without any weight, among those where something may be seen. 0 where nothing may.
    """

    entries: Tensor
    blocks: Tensor


def share_of_zeros(seen: Tensor, zero: Tensor, blocks: Tensor, bare: Tensor) -> AttentionSupport:
    """Return the shares that follow from counts ``[*, H]``."""
    # Counts above 2^24 are not exact in single precision, their ratio is.
    pairs = ((zero, seen), (bare, blocks))
    return AttentionSupport(*((part.double() / whole.clamp(min=1)).float() for part, whole in pairs))


def measure_support(z: Tensor, p: Tensor) -> AttentionSupport:
    """Return the support of scores and weights ``[*, L, S]``."""
    seen = (z != -math.inf).detach()
    weight = (p != 0).detach() & seen
    blocks, some = _any_in_blocks(seen), _any_in_blocks(weight)
    return share_of_zeros(_count(seen), _count(seen & ~weight), _count(blocks), _count(blocks & ~some))


def _count(x: Tensor) -> Tensor:
    return x.sum((-2, -1))


def _any_in_blocks(x: Tensor) -> Tensor:
    """Tell whether a block has any True, ``[*, L / 64, S / 64]``."""
    rows, columns = (-size % BLOCK for size in x.shape[-2:])
    x = F.pad(x, (0, columns, 0, rows))
    return x.unflatten(-2, (-1, BLOCK)).unflatten(-1, (-1, BLOCK)).any(-1).any(-2)
