"""Where the solution can move: the directions that all factors allow at once."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.structured._blocks import Local
from omegamax.structured._relaxation import Relaxation

# Of conjugate gradients: squared residual of an entry; steps without a smaller one, after which rounding has taken
# over; steps to allow beyond twice the number of variables; curvature that is none.
ACCURACY = torch.finfo(torch.float64).eps ** 2
PATIENCE = 15
MAX_STEPS = 50
NO_CURVATURE = 1e-13


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
        """The smallest x with ``laplacian(x) = b`` for b in its range, by conjugate gradients.

        ``scale [B]`` is the size of the numbers that b is a difference of: up to their rounding, b is in the range.
        """
        x, r = torch.zeros_like(b), b
        p, left = r, r.square().sum(1, keepdim=True)
        best, least, idle = x, left, torch.zeros_like(left)
        floor = (ACCURACY * scale.square() * b.shape[1])[:, None]
        for _ in range(MAX_STEPS + 2 * b.shape[1]):
            live = (left > floor) & (idle < PATIENCE)
            if not bool(live.any()):
                break
            q = self.laplacian(p)
            curvature = (p * q).sum(1, keepdim=True)
            # In the null space there is nothing left but rounding, and a step along it would be as large as it likes.
            live = live & (curvature > NO_CURVATURE * p.square().sum(1, keepdim=True))
            step = torch.where(live, left / torch.where(live, curvature, 1.0), 0.0)
            x, r = x + step * p, r - step * q
            now = r.square().sum(1, keepdim=True)
            p = r + torch.where(live, now / torch.where(live, left, 1.0), 0.0) * p
            left = now
            better = now < 0.99 * least
            best, least = torch.where(better, x, best), torch.where(better, now, least)
            idle = torch.where(better, 0.0, idle + 1)
        return best


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
