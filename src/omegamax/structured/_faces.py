r"""The face of a solution of LP-SparseMAP: the directions in which it can move, which all factors allow at once.

.. math:: T = \{t : t_f \in \mathrm{dir} \, F_f \text{ for all } f\} = \ker L, \qquad L = \sum_f C_f^\top (I - J_f) C_f

where :math:`C_f` copies the variables of factor f, whose marginals lie on the face :math:`F_f`, and :math:`J_f`
projects onto its directions. L is a Laplacian of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from omegamax.structured._blocks import LocalSolution
from omegamax.structured._elimination import Elimination
from omegamax.structured._relaxation import Relaxation

# Of conjugate gradients: squared residual of an entry; steps without a smaller one, after which rounding has taken
# over, without and with preconditioner; steps to allow beyond twice the number of variables; curvature that is none.
ACCURACY = torch.finfo(torch.float64).eps ** 2
PATIENCE, PRECONDITIONED_PATIENCE = 15, 3
EXTRA_STEPS = 50
NO_CURVATURE = 1e-13
# Steps after which elimination preconditions, where it is cheap enough; and what is then added to the Laplacian: no
# more than its least eigenvalue is likely to be, but far more than rounding, which it amplifies.
PLAIN_STEPS = 30
MIN_RIDGE, MAX_RIDGE = 1e-6, 1e-2
INEXACT = 1e6  # by how much a Newton step need not be as accurate as a solution


class CommonFace:
    r"""The face :math:`F_f` of every factor, and their common directions T.

    As long as the faces stay the same, the solution moves by the orthogonal projection onto T, for which L is all that
    is needed.

    Args:
        problem: of the graph.
        local: the solutions of its factors.
        tol: distance from a bound within which a marginal counts as being on it.
        pinned: ``[B, N]``, variables that no factor lets move, or that may not for another reason.
        weight_tol: ``[B]``, for faces spanned by as many structures as it takes: the weight of those within the error.
    """

    def __init__(
        self,
        problem: Relaxation,
        local: list[LocalSolution],
        tol: float,
        pinned: Tensor,
        weight_tol: Tensor | None = None,
    ):
        self.problem = problem
        self.faces = [part.face(tol, weight_tol) for part in local]
        self.pinned = pinned.double()

    def project_copies(self, copies: Tensor) -> Tensor:
        """Return the part ``J_f`` of copies ``[B, E]`` along the faces."""
        parts = zip(self.faces, self.problem.split(copies), strict=True)
        return self.problem.join([face.jvp(part) for face, part in parts])

    def reject_copies(self, copies: Tensor) -> Tensor:
        """Return the part ``I - J_f`` of copies that leaves the faces."""
        return copies - self.project_copies(copies)

    def laplacian(self, x: Tensor) -> Tensor:
        """Return ``L x``, ``[B, N]``; L is symmetric and positive semi-definite, with ones for pinned variables."""
        return self.problem.collect(self.reject_copies(self.problem.spread(x))) + self.pinned * x

    def project(self, x: Tensor) -> Tensor:
        """Project onto T. Twice, because what rounding leaves is of the size of the part taken off."""
        for _ in range(2):
            x = x - self.solve(self.laplacian(x), x.abs().amax(1))
        return x

    def fold_additional(self, d_additional: list[Tensor | None]) -> Tensor:
        """Return the changes of the scores ``[B, N]`` to which these changes of the additional scores amount."""
        zeros = self.problem.split(self.problem.spread(torch.zeros_like(self.problem.scores)))
        changes = [
            zero if extra is None else face.jvp(None, extra)
            for zero, face, extra in zip(zeros, self.faces, d_additional, strict=True)
        ]
        return self.problem.collect(self.problem.join(changes))

    def solve(self, b: Tensor, scale: Tensor) -> Tensor:
        """Return the smallest x with ``L x = b`` for b in the range of L.

        ``scale [B]`` is the size of the values that b is a difference of: up to their rounding, b is in the range.
        """
        x, done = self._conjugate_gradients(b, scale, self.laplacian, None, PLAIN_STEPS)
        if done:
            return x
        near = None if self._preconditioner is None else self._preconditioner.solve
        return self._conjugate_gradients(b, scale, self.laplacian, near, EXTRA_STEPS + 2 * b.shape[1])[0]

    def newton_step(self, b: Tensor, rho: Tensor) -> Tensor:
        """Return x with ``x + rho L x = b``, for ``rho [B]``; pinned variables stay where they are."""
        free = 1 - self.pinned
        weight, b = rho[:, None], free * b
        if self.problem.order.is_affordable(len(b)):
            matrices = [weight[..., None, None] * matrix for matrix in self._factor_matrices(free)]
            return Elimination(self.problem.order, matrices, torch.ones_like(b)).solve(b)

        def system(x: Tensor) -> Tensor:
            return x + weight * free * self.problem.collect(self.reject_copies(self.problem.spread(free * x)))

        return self._conjugate_gradients(b, INEXACT * b.abs().amax(1), system, None, EXTRA_STEPS + 2 * b.shape[1])[0]

    @cached_property
    def _preconditioner(self) -> Elimination | None:
        """L with a ridge, factorised; None where that is more than iterations cost."""
        order, size = self.problem.order, self.problem.size
        if not order.is_affordable(len(self.pinned)):
            return None
        ridge = min(max(1 / size**2, MIN_RIDGE), MAX_RIDGE)
        return Elimination(order, self._factor_matrices(torch.ones_like(self.pinned)), self.pinned + ridge)

    def _factor_matrices(self, free: Tensor) -> list[Tensor]:
        """Return L factor by factor, ``[B, K, m, m]``, with rows and columns scaled by ``free [B, N]``."""
        signs = self.problem.split(self.problem.spread(free))
        return [
            sign[..., None]
            * (torch.eye(sign.shape[-1], dtype=sign.dtype, device=sign.device) - face.matrix())
            * sign[..., None, :]
            for sign, face in zip(signs, self.faces, strict=True)
        ]

    def _conjugate_gradients(
        self,
        b: Tensor,
        scale: Tensor,
        system: Callable[[Tensor], Tensor],
        near: Callable[[Tensor], Tensor] | None,
        max_steps: int,
    ) -> tuple[Tensor, bool]:
        """Solve a ``system``, preconditioned by the solver of one ``near``; return x and whether it is the solution."""
        x, r = torch.zeros_like(b), b
        q = r if near is None else near(r)
        p, left, size = q, (r * q).sum(1, keepdim=True), r.square().sum(1, keepdim=True)
        best, least, idle = x, size, torch.zeros_like(left)
        floor = (ACCURACY * scale.square() * b.shape[1])[:, None]
        patience = PATIENCE if near is None else PRECONDITIONED_PATIENCE
        for _ in range(max_steps):
            live = (size > floor) & (idle < patience)
            if not bool(live.any()):
                break
            image = system(p)
            curvature = (p * image).sum(1, keepdim=True)
            # In the null space there is nothing left but rounding, and a step along it would be as large as it likes.
            live = live & (curvature > NO_CURVATURE * p.square().sum(1, keepdim=True))
            step = torch.where(live, left / torch.where(live, curvature, 1.0), 0.0)
            x, r = x + step * p, r - step * image
            q = r if near is None else near(r)
            now = (r * q).sum(1, keepdim=True)
            p = q + torch.where(live, now / torch.where(live, left, 1.0), 0.0) * p
            left, size = now, r.square().sum(1, keepdim=True)
            better = size < 0.99 * least
            best, least = torch.where(better, x, best), torch.where(better, size, least)
            idle = torch.where(better, 0.0, idle + 1)
        return best, bool((least <= floor).all())


class FaceProjection(torch.autograd.Function):
    """:meth:`CommonFace.project` for autograd: linear and symmetric, it is its own derivative in both modes."""

    @staticmethod
    def forward(x: Tensor, face: CommonFace) -> Tensor:
        return face.project(x)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.face = inputs[1]

    @staticmethod
    def backward(ctx, g: Tensor):  # type: ignore[override]
        return FaceProjection.apply(g, ctx.face), None

    @staticmethod
    def jvp(ctx, dx: Tensor, _) -> Tensor:  # type: ignore[override]
        return FaceProjection.apply(dx, ctx.face)
