"""Compute on the affine hull of structures, measured from one of them, the anchor."""

from __future__ import annotations

import torch
from torch import Tensor


def close_step(step: Tensor, anchor: Tensor) -> Tensor:
    """Give the anchor the step that makes all steps sum to zero."""
    return step.scatter_add(1, anchor[:, None], -step.sum(-1, keepdim=True))


def overlaps(gram: Tensor, others: Tensor, anchor: Tensor) -> Tensor:
    """Compute inner products of the others' differences from the anchor; the identity in all other slots."""
    at = torch.arange(len(gram), device=gram.device)
    row = gram[at, anchor]
    moved = gram - row[:, None] - row[..., None] + row[at, anchor][:, None, None]
    return torch.where(others[:, None] & others[..., None], moved, 0.0) + torch.diag_embed((~others).to(gram.dtype))


def cholesky(gram: Tensor) -> Tensor:
    """Compute the lower factor of each matrix, also of one that rounding has left a little short of positive."""
    factor, failed = torch.linalg.cholesky_ex(gram)
    if bool(failed.any()):
        # Dependent after all, by rounding: a slight ridge, whose error later passes take out again.
        size = gram.diagonal(dim1=-2, dim2=-1).amax(-1)[:, None, None]
        ridge = 1e-9 * size * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        factor = torch.where((failed > 0)[:, None, None], torch.linalg.cholesky_ex(gram + ridge)[0], factor)
    return factor
