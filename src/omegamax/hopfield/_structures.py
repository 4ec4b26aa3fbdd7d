"""Which structures a memory retrieves exactly."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax.structured import StructuredOmega


def retrieves_structures(
    q: Tensor, patterns: Tensor, omega: StructuredOmega, beta: float, mask: Tensor | None, chosen: Tensor | None
) -> Tensor:
    """Tell for which structures ``[M, N]`` SparseMAP of the scores is the structure itself, ``[*, L, M]``.

    That is so where the scores less the structure lie in its normal cone, of which a maximum over structures is proof.
    """
    if chosen is None:
        raise ValueError(f"retrieved_exactly: {omega!r} retrieves structures: give them as chosen")
    if not isinstance(chosen, Tensor) or chosen.dtype != torch.bool or chosen.shape[-1:] != patterns.shape[-2:-1]:
        given = f"{chosen.dtype} {tuple(chosen.shape)}" if isinstance(chosen, Tensor) else type(chosen).__name__
        raise ValueError(f"retrieved_exactly: chosen must be bool [M, N] with N = {patterns.shape[-2]}, got {given}")
    z = beta * q.double() @ patterns.double().transpose(-1, -2)  # [*, L, N]
    if mask is not None:
        z = z.masked_fill(~mask.unsqueeze(-2), -math.inf)
    y = chosen.double()
    rest = z.unsqueeze(-2) - y  # [*, L, M, N]
    with torch.no_grad():
        slack, size = omega.slack(rest, y.expand(rest.shape))
    # Ties are retrieved: what is within the rounding of the scores is one. More than all structures have none of them.
    return slack.isfinite() & (slack.abs() <= 64 * torch.finfo(torch.float64).eps * size)
