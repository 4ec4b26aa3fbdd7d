r"""How examples of a factor graph end: solved exactly on their faces, stopped by a limit, or proven infeasible.

On the affine hulls of the faces :math:`F_f` that the factors' marginals lie on, LP-SparseMAP has no inequalities:

.. math:: u = \arg\min_u \lVert u - \eta \rVert^2 - 2 \sum_f \phi_f(u_f)
          \quad\text{such that}\quad u_f \in \mathrm{aff} \, F_f \text{ for all } f
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.structured._blocks import LocalSolution
from omegamax.structured._faces import CommonFace
from omegamax.structured._relaxation import Iterate, Relaxation

MAX_POLISH = 4  # times in a row
FACE_TOL = 1e-9  # distance from a bound within which a marginal is taken to be on it
PROOF_MARGIN = 1e-8  # for each copy: what rounding, and a maximum that is not quite one, may take


class Contradiction(Exception):
    """Factors that no marginals satisfy: in which example, and by how much each of them disagrees."""

    def __init__(self, example: int, disagreements: list[float]):
        super().__init__(example, disagreements)
        self.example, self.disagreements = example, disagreements


@dataclass
class Outcome:
    """Solutions of all examples, each as it was when it was done."""

    u: Tensor  # [B, N]
    z: Tensor  # [B, E]
    rho: Tensor  # [B]
    iterations: Tensor  # [B]
    primal_residual: Tensor  # [B]
    dual_residual: Tensor  # [B]
    duality_gap: Tensor  # [B]
    local: list[LocalSolution] | None = None  # if all were done at once

    @property
    def residual(self) -> Tensor:
        """The larger of both residuals, ``[B]``."""
        return torch.maximum(self.primal_residual, self.dual_residual)

    @classmethod
    def blank(cls, problem: Relaxation) -> Outcome:
        """Make room for the solutions of a problem."""
        row = torch.zeros_like(problem.scores[:, 0])
        u = torch.zeros_like(problem.scores)
        return cls(u, problem.copy(u), row, row.long(), row.clone(), row.clone(), row.clone())

    def put(self, rows: Tensor, iterate: Iterate, done: Tensor, round: int) -> None:
        """Record the ``done`` ones of an iterate, whose examples are at ``rows``."""
        if not bool(done.any()):
            return
        at = rows[done]
        self.u[at] = iterate.problem.average(iterate.marginals)[done]
        self.iterations[at] = round
        self.duality_gap[at] = iterate.duality_gap[done].abs()
        for name in ("z", "rho", "primal_residual", "dual_residual"):
            getattr(self, name)[at] = getattr(iterate, name)[done]
        if len(at) == len(self.u):
            self.local = iterate.local

    def finish(self, rows: Tensor, iterate: Iterate, tol: float, round: int) -> tuple[Tensor, Iterate]:
        """Record the examples that polishing solves; return which ``[B]``, and the best iterate found for the others.

        Faces that were not quite right lead to a point at which they may be: it is polished in turn while that helps.
        """
        found = torch.zeros_like(rows, dtype=torch.bool)
        for _ in range(MAX_POLISH):
            closer = polish(iterate)
            new = ~found & (closer.residual <= tol)
            self.put(rows, closer, new, round)
            found = found | new
            if not bool((~found & is_much_closer(closer, iterate)).any()):
                break
            iterate = closer
        return found, iterate


def is_much_closer(one: Iterate, other: Iterate) -> Tensor:
    """Tell which examples ``[B]`` are much closer to their solution in one iterate than in another."""
    return one.residual < other.residual / 10


def polish(iterate: Iterate) -> Iterate:
    """Return the solution, if the factors' marginals are on the faces on which they are at the solution.

    u is the projection of the scores, with what the additional scores are worth, onto the set where the affine hulls of
    the faces meet. The multipliers closest to the present ones that explain it go with it. Whether the faces were right
    is seen from the result: its factors are solved once more.
    """
    problem, multipliers = iterate.problem, iterate.multipliers
    face = CommonFace(problem, iterate.local, FACE_TOL, problem.forbidden)
    along = face.project_copies(multipliers)  # zero without additional scores
    aim = (problem.scores - problem.collect(along)).masked_fill(problem.forbidden, 0.0)
    off = face.reject_copies(problem.copy(aim) - iterate.marginals)
    u = problem.fix_decided(aim - face.solve(problem.collect(off), problem.scale))
    missing = problem.drop_decided(problem.scores - u - problem.collect(multipliers))
    across = face.reject_copies(multipliers + problem.spread(face.solve(missing, problem.scale)))
    # Rounding of the multipliers is relative to the penalty, where that is larger.
    rho = iterate.rho
    if across.shape[1]:
        rho = torch.minimum(rho, (along + across).abs().amax(1).clamp(min=1))
    z = problem.copy(u) + (along + across) / rho[:, None]
    return Iterate(problem, z, rho, problem.solve_factors(z, rho, iterate.warm_start()), u)


def find_contradictions(iterate: Iterate) -> Tensor:
    r"""Tell which examples no marginals satisfy, ``[B]``; a proof where it says so.

    Take any weights :math:`w_f` on the copies of the variables. Marginals u that satisfy all factors would give

    .. math:: \sum_f \max_{x \in P_f} \langle w_f, x \rangle \ge \sum_f \langle w_f, u_f \rangle
              \ge \min_{u \in [0, 1]^N} \sum_f \langle w_f, u_f \rangle

    so that weights for which the left is smaller than the right prove that there are none. Where there are none, what
    the factors disagree by tends to the shortest difference v between consensus and factors, and with w = v the left
    is smaller by :math:`\lVert v \rVert^2`: sooner or later the iteration finds its own proof.
    """
    problem = iterate.problem
    w = iterate.disagreement / iterate.primal_residual.clamp(min=torch.finfo(iterate.u.dtype).tiny)[:, None]
    best = [
        block.solver.maximize(part, 0 if extra is None else extra.shape[-1])
        for block, part, extra in zip(problem.blocks, problem.split(w), problem.additional, strict=True)
    ]
    left = (w * problem.join(best)).sum(1) + w.shape[1] * PROOF_MARGIN
    free = problem.collect(w).masked_fill(problem.forbidden, 0.0)
    right = (w * problem.shift).sum(1) + free.clamp(max=0).sum(1)
    return left < right


def refuse_contradictions(iterate: Iterate, rows: Tensor, among: Tensor) -> None:
    """Raise where the disagreement of an iterate proves that an example, of those ``among [B]``, has no solution."""
    if not bool(among.any()):
        return
    proven = (find_contradictions(iterate) & among).nonzero()[:, 0]
    if len(proven):
        first = proven[0]
        sizes = [part[first].abs().amax(-1) for part in iterate.problem.split(iterate.disagreement)]
        raise Contradiction(int(rows[first]), torch.cat(sizes).tolist())
