"""Differentiate the projection onto the assignment polytope, which is piecewise linear."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from omegamax.kernels.structures.column_laplacian import column_laplacian


class MatchingJacobian:
    r"""The orthogonal projection onto the face of a projection: changes on the support that keep all sums.

    .. math:: dP = E \circ (dS - da \, 1^\top - 1 \, db^\top)

    with the support E, and the changes of the potentials for which rows and full columns keep their sums. It is
    symmetric, its own derivative, and in torch that can be differentiated and mapped over.

    Args:
        support: bool ``[B, n, m]``.
        full: bool ``[B, 1, m]``, the columns whose sum is one.
    """

    def __init__(self, support: Tensor, full: Tensor):
        self.support, self.full = support, full

    @cached_property
    def _inverse(self) -> tuple[Tensor, Tensor, Tensor]:
        """Entries of the support, their shares of the rows, and the inverse of the columns' Laplacian."""
        entries = self.support.to(torch.float64)
        laplacian, joined, adrift = column_laplacian(self.support, self.full)
        together = joined * (adrift / joined.sum(2, keepdim=True))
        inverse = torch.cholesky_inverse(torch.linalg.cholesky_ex(laplacian + together)[0])
        free = self.full.to(torch.float64)
        return entries, entries / entries.sum(2, keepdim=True).clamp(min=1), inverse * free * free.mT

    def jvp(self, d_scores: Tensor) -> Tensor:
        """Return the change of the marginals, ``[B, n, m]``, with one of the scores; also the vjp."""
        entries, share, inverse = self._inverse
        change = entries * (d_scores - (share * d_scores).sum(2, keepdim=True))
        db = change.sum(1, keepdim=True) @ inverse
        return change - entries * (db - (share * db).sum(2, keepdim=True))


def matching_vjp(g: Tensor, support: Tensor, full: Tensor) -> Tensor:
    """Return the vector-Jacobian product of :func:`omegamax.kernels.structures.matching.matching`."""
    return MatchingJacobian(support, full).jvp(g)
