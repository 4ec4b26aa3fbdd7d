"""Compute the Laplacian of columns, which Newton's method and the Jacobian of matchings are made of."""

from __future__ import annotations

import torch
from torch import Tensor


def column_laplacian(support: Tensor, free: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the Laplacian of the columns that share a row of the support.

    Args:
        support: bool ``[B, n, m]``.
        free: bool ``[B, 1, m]``, the columns whose potentials may move; the others count for the rows only.

    Returns:
        The Hessian in the free columns, with ones on the diagonal of the others; which columns are ``joined`` to which
        (0/1), both ``[B, m, m]``; and which are ``adrift``, ``[B, m, 1]``: joined to none that is fixed, so that
        constants over them are in the null space of the Hessian.
    """
    entries = support.to(torch.float64)
    share = entries / entries.sum(2, keepdim=True).clamp(min=1)
    moving = free.to(torch.float64)
    both = moving * moving.mT
    overlap = entries.mT @ share
    laplacian = torch.diag_embed(torch.where(free, entries.sum(1, keepdim=True), 1.0)[:, 0]) - overlap * both
    joined = ((overlap * both + torch.eye(free.shape[2], dtype=torch.float64, device=free.device)) > 0).double()
    for _ in range((free.shape[2] - 1).bit_length()):
        joined = (joined @ joined > 0).double()
    held = entries.mT @ (share @ (1 - moving.mT))  # no difference, and so exactly 0 where no row is held
    adrift = ((joined @ held == 0) & free.mT).double()
    return laplacian, joined, adrift
