"""The one way entries are taken out of a row: their score becomes ``-inf``."""

from __future__ import annotations

import math

from torch import Tensor

from omegamax._checks import check_mask


def masked(name: str, z: Tensor, mask: Tensor | None) -> Tensor:
    """Scores with ``-inf`` wherever ``mask`` is False."""
    if mask is None:
        return z
    check_mask(name, z, mask)
    return z.masked_fill(~mask, -math.inf)
