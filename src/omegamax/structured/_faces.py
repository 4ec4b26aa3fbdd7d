"""Where the solution can move: the directions that all factors allow at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from omegamax.structured._blocks import Local
from omegamax.structured._elimination import Elimination
from omegamax.structured._relaxation import Relaxation

# Of conjugate gradients: squared residual of an entry; steps without a smaller one, after which rounding has taken
# over, without and with preconditioner; steps to allow beyond twice the number of variables; curvature that is none.
ACCURACY = torch.finfo(torch.float64).eps ** 2
PATIENCE, PREPARED_PATIENCE = 15, 3
MAX_STEPS = 50
NO_CURVATURE = 1e-13
# Steps after which elimination prepares the ground, where it is cheap enough; and what is then added to the Laplacian:
# no more than its least eigenvalue is likely to be, but far more than rounding, which it amplifies.
EASY = 30
LEAST_RIDGE, MOST_RIDGE = 1e-6, 1e-2
INEXACT = 1e6  # by how much a step need not be as accurate as a solution


class Faces:
    r"""The faces :math:`F_f` that the marginals of the factors lie on, and their common directions.

    As long as the faces stay the same, the solution moves by the orthogonal projection onto
    :math:`T = \{t : t_f \in \mathrm{dir} F_f \text{ for all } f\}`, the null space of the sum of the projections
    :math:`I - J_f` onto what each factor rules out. That sum, a Laplacian of the graph, is all that is needed of T.

    Args:
        problem: of the graph.
        local: the solutions of its factors.
        tol: distance from a bound within which a marginal counts as being on it.
        pinned: ``[B, N]``, variables that no factor lets move, or that may not for another reason.
    """

    def __init__(self, problem: Relaxation, local: list[Local], tol: float, pinned: Tensor):
        self.problem = problem
        self.faces = [part.face(tol) for part in local]
        self.pinned = pinned.double()

    def along(self, copies: Tensor) -> Tensor:
        """The part of copies ``[B, E]`` along the faces."""
        parts = zip(self.faces, self.problem.parts(copies), strict=True)
        return self.problem.joined([face.jvp(part) for face, part in parts])

    def across(self, copies: Tensor) -> Tensor:
        """The part that leaves them."""
        return copies - self.along(copies)

    def laplacian(self, x: Tensor) -> Tensor:
        """``[B, N]`` to ``[B, N]``, symmetric, positive semi-definite."""
        return self.problem.collect(self.across(self.problem.spread(x))) + self.pinned * x

    def project(self, x: Tensor) -> Tensor:
        """Orthogonally onto T. Once more, because what rounding left is of the size of the part taken off."""
        for _ in range(2):
            x = x - self.solve(self.laplacian(x), x.abs().amax(1))
        return x

    def additional(self, d_additional: list[Tensor | None]) -> Tensor:
        """Changes of the scores ``[B, N]`` to which these changes of the additional scores amount."""
        nothing = self.problem.parts(self.problem.spread(torch.zeros_like(self.problem.scores)))
        pushes = [
            none if extra is None else face.jvp(None, extra)
            for none, face, extra in zip(nothing, self.faces, d_additional, strict=True)
        ]
        return self.problem.collect(self.problem.joined(pushes))

    def solve(self, b: Tensor, scale: Tensor) -> Tensor:
        """The smallest x with ``laplacian(x) = b`` for b in its range.

        ``scale [B]`` is the size of the numbers that b is a difference of: up to their rounding, b is in the range.
        """
        easy, done = self._descend(b, scale, self.laplacian, None, EASY)
        if done:
            return easy
        eliminated = self._ridged
        if eliminated is None:
            return self._descend(b, scale, self.laplacian, None, MAX_STEPS + 2 * b.shape[1])[0]
        return self._descend(b, scale, self.laplacian, eliminated.solve, MAX_STEPS + 2 * b.shape[1])[0]

    def newton_step(self, b: Tensor, rho: Tensor) -> Tensor:
        """x with ``x + rho * laplacian(x) = b``, for ``rho [B]``; pinned variables stay where they are."""
        free = 1 - self.pinned
        weight, b = rho[:, None], free * b
        if self.problem.order.affordable(len(b)):
            matrices = [weight[..., None, None] * coupling for coupling in self._couplings(free)]
            return Elimination(self.problem.order, matrices, torch.ones_like(b)).solve(b)

        def system(x: Tensor) -> Tensor:
            return x + weight * free * self.problem.collect(self.across(self.problem.spread(free * x)))

        return self._descend(b, INEXACT * b.abs().amax(1), system, None, MAX_STEPS + 2 * b.shape[1])[0]

    @cached_property
    def _ridged(self) -> Elimination | None:
        """The Laplacian with a ridge, eliminated; None where that is more than iterations cost."""
        order, size = self.problem.order, self.problem.size
        if not order.affordable(len(self.pinned)):
            return None
        ridge = min(max(1 / size**2, LEAST_RIDGE), MOST_RIDGE)
        return Elimination(order, self._couplings(torch.ones_like(self.pinned)), self.pinned + ridge)

    def _couplings(self, free: Tensor) -> list[Tensor]:
        """The Laplacian factor by factor, ``[B, K, m, m]``, with rows and columns scaled by ``free [B, N]``."""
        signs = self.problem.parts(self.problem.spread(free))
        return [
            sign[..., None]
            * (torch.eye(sign.shape[-1], dtype=sign.dtype, device=sign.device) - face.matrix())
            * sign[..., None, :]
            for sign, face in zip(signs, self.faces, strict=True)
        ]

    def _descend(
        self,
        b: Tensor,
        scale: Tensor,
        system: Callable[[Tensor], Tensor],
        near: Callable[[Tensor], Tensor] | None,
        max_steps: int,
    ) -> tuple[Tensor, bool]:
        """Conjugate gradients, preconditioned by the solver of a system ``near``; and whether that is the solution."""
        x, r = torch.zeros_like(b), b
        q = r if near is None else near(r)
        p, left, size = q, (r * q).sum(1, keepdim=True), r.square().sum(1, keepdim=True)
        best, least, idle = x, size, torch.zeros_like(left)
        floor = (ACCURACY * scale.square() * b.shape[1])[:, None]
        patience = PATIENCE if near is None else PREPARED_PATIENCE
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


class Projection(torch.autograd.Function):
    """``faces.project`` for autograd: linear and symmetric, it is its own derivative in both modes."""

    @staticmethod
    def forward(x: Tensor, faces: Faces) -> Tensor:
        return faces.project(x)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.faces = inputs[1]

    @staticmethod
    def backward(ctx, g: Tensor):  # type: ignore[override]
        return Projection.apply(g, ctx.faces), None

    @staticmethod
    def jvp(ctx, dx: Tensor, _) -> Tensor:  # type: ignore[override]
        return Projection.apply(dx, ctx.faces)
