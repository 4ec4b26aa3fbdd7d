"""Differentiate the marginals and probabilities of an active set: the Jacobian at the face they lie on."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from omegamax.kernels.structures._hull import cholesky, overlaps
from omegamax.kernels.structures.reference import ActiveSet

MAX_INVERSE = 256  # structures, beyond which the inverse of their overlaps is not written out


class ActiveSetJacobian:
    r"""The derivatives of SparseMAP, which is piecewise linear, at a solution given by its structures.

    .. math:: d\xi = S (M^\top d\eta_u + N^\top d\eta_v), \qquad du = M \, d\xi, \quad dv = N \, d\xi

    The columns of M (unary) and N (additional) are the structures of the active set; S is the block of the inverse of
    the optimality conditions that belongs to their probabilities :math:`\xi`. As S is symmetric, so is the Jacobian of
    both marginals by both scores as a whole. The methods are linear, in torch that can be differentiated.

    Reference: Niculae et al. (ICML 2018), Sec. 3.
    """

    def __init__(self, active: ActiveSet):
        self.active = active

    @cached_property
    def spanned(self) -> ActiveSetJacobian:
        """Return the Jacobian by as many structures as it takes to span the face, which are many for flat scores."""
        active = self.active.span_face()
        return self if active is self.active else ActiveSetJacobian(active)

    @cached_property
    def _lower(self) -> tuple[Tensor, Tensor]:
        """Return the Cholesky factor of the overlaps measured from the first structure, and which others there are."""
        slots = self.active.weights.shape[1]
        used = torch.arange(slots, device=self.active.count.device) < self.active.count[:, None]
        if not slots:
            return self.active.weights.new_zeros(len(used), 0, 0), used
        first = torch.zeros_like(self.active.count)
        others = used.index_fill(1, first[:1], False)
        return cholesky(overlaps(self.active.overlaps, others, first))[:, 1:, 1:], others[:, 1:]

    @cached_property
    def _half(self) -> Tensor:
        """Return H with ``S = H^T H``, ``[B, A - 1, A]``; its rows sum to zero; zero where there is no structure."""
        lower, others = self._lower
        if not self.active.weights.shape[1]:
            return lower
        # The first structure takes what the others leave.
        eye = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
        closing = torch.cat([eye.new_full((len(eye), 1), -1.0), eye], 1) * others[..., None]
        return torch.linalg.solve_triangular(lower, closing, upper=False)

    @cached_property
    def basis(self) -> Tensor:
        """Return ``H (M^T, N^T) [B, A - 1, n + m]``, whose unary parts are orthonormal or zero."""
        found = self.active.face_basis()
        if found is None:
            found = torch.cat([self._half @ self.active.unary, self._half @ self.active.additional], -1)
        return found

    def _apply_s(self, x: Tensor) -> Tensor:
        """Return ``S x`` for ``x [B, A]``."""
        if self.active.weights.shape[1] <= MAX_INVERSE:
            return (self._half.mT @ (self._half @ x[..., None]))[..., 0]
        lower, others = self._lower
        ahead = torch.where(others, x[:, 1:] - x[:, :1], 0.0)[..., None]
        inner = torch.linalg.solve_triangular(lower, ahead, upper=False)
        step = torch.where(others, torch.linalg.solve_triangular(lower.mT, inner, upper=True)[..., 0], 0.0)
        return torch.cat([-step.sum(-1, keepdim=True), step], -1)

    def probability_jvp(self, d_scores: Tensor, d_additional: Tensor | None = None) -> Tensor:
        """Return the changes ``[B, A]`` of the probabilities with changes ``[B, n]`` and ``[B, m]`` of the scores."""
        step = self._apply_s(self.active.totals(d_scores, d_additional))
        if self.active.weights.shape[1] <= MAX_INVERSE:
            return step
        # Of so many structures some nearly depend on others, and their steps are large and cancel. What is left of the
        # scores behind the marginals that they make is free of that, and is solved for once more.
        left = d_scores - self.active.mixture(step)[0]
        return step + self._apply_s(self.active.totals(left, d_additional))

    def probability_vjp(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradients ``[B, n]`` and ``[B, m]`` by both scores, given those by the probabilities, ``[B, A]``."""
        return self.active.mixture(self._apply_s(g))

    def jvp(self, d_scores: Tensor, d_additional: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the changes ``[B, n]`` and ``[B, m]`` of both marginals. It is symmetric: also the vjp."""
        face = self.spanned
        return face.active.mixture(face.probability_jvp(d_scores, d_additional))
