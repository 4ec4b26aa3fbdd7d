r"""One solution of a factor graph: a function of the scores that autograd knows, and a report.

.. math:: du = \Pi_T \Bigl(d\eta + \sum_f C_f^\top K_f \, ds_f\Bigr)

where :math:`\Pi_T` projects onto the directions common to the faces of all factors, :math:`C_f` copies the variables of
factor f, and :math:`K_f` is the derivative of its marginals, by itself, in its additional scores :math:`s_f`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from omegamax._operation import needs_derivative
from omegamax._warnings import warn_of_limit
from omegamax.structured._admm import admm
from omegamax.structured._blocks import Block, LocalSolution
from omegamax.structured._faces import CommonFace, FaceProjection
from omegamax.structured._factor import Infeasible
from omegamax.structured._outcome import Contradiction, Outcome
from omegamax.structured._relaxation import Relaxation
from omegamax.structured._solution import tangent

MAX_NAMED = 5  # factors at odds that a message lists


@dataclass(frozen=True)
class Report:
    """How well :meth:`FactorGraph.solve` did, for each example ``[*batch]``.

    Attributes:
        iterations: rounds in which every factor was solved.
        infeasibility: the largest distance of a marginal from what one of its factors allows.
        dual_residual: how much of the scores, relative to their size, the factors leave unexplained.
        gap: between the objective and its dual, in absolute value; marginals that disagree may be on either side.
        converged: whether both residuals are below the tolerance.
        integral: whether all marginals are 0 or 1.
        acyclic: whether no two factors are connected in more than one way.
        tight: whether the relaxation is known to be exact, so that the marginals are those of SparseMAP over all joint
            assignments: for acyclic graphs, and where the marginals are integral.
    """

    iterations: Tensor
    infeasibility: Tensor
    dual_residual: Tensor
    gap: Tensor
    converged: Tensor
    integral: Tensor
    acyclic: bool
    tight: Tensor


class Solver:
    """Map scores of a graph to its marginals.

    Args:
        batch_shape: of the examples.
        blocks: the like factors.
        labels: what to call each factor, block by block.
        acyclic: whether the graph is a forest.
        tol, max_iter: as in :meth:`FactorGraph.solve`.
    """

    problem: Relaxation
    invalid: Tensor  # [B]: examples with NaN or +inf
    outcome: Outcome
    report: Report

    def __init__(
        self,
        batch_shape: tuple[int, ...],
        blocks: list[Block],
        labels: list[str],
        acyclic: bool,
        tol: float,
        max_iter: int,
    ):
        self.batch_shape, self.blocks, self.labels, self.acyclic = batch_shape, blocks, labels, acyclic
        self.tol, self.max_iter = tol, max_iter

    def __call__(self, scores: Tensor, additional: list[Tensor | None]) -> Tensor:
        """Return marginals ``[B, N]``, differentiable in scores ``[B, N]`` and those of the blocks, ``[B, K, a]``."""
        u: Tensor = _Run.apply(self, scores, *additional)
        if not needs_derivative(scores, *additional):
            return u
        face = self._face()
        change = face.fold_additional([None if extra is None else tangent(extra) for extra in additional])
        return u + FaceProjection.apply(tangent(scores) + change, face)  # the solution, plus zeros that move with it

    def run(self, scores: Tensor, additional: list[Tensor | None]) -> Tensor:
        """Solve, report and warn; no gradients."""
        invalid = (scores.isnan() | (scores == torch.inf)).any(1)
        for extra in additional:
            if extra is not None:
                invalid = invalid | (extra.isnan() | (extra == torch.inf)).flatten(1).any(1)
        self.invalid, forbidden = invalid, scores == -torch.inf
        self.problem = Relaxation(
            scores.masked_fill(invalid[:, None] | forbidden, 0.0),
            forbidden & ~invalid[:, None],
            self.blocks,
            [None if extra is None else extra.masked_fill(invalid[:, None, None], 0.0) for extra in additional],
        )
        try:
            self.outcome = admm(self.problem, self.tol, self.max_iter)
        except Contradiction as found:
            raise ValueError(f"FactorGraph.solve: {self._explain(found)}") from None
        except Infeasible as error:
            raise ValueError(f"FactorGraph.solve: {error}") from None
        self.report = self._judge()
        return self.outcome.u.masked_fill(invalid[:, None], torch.nan)

    def _explain(self, found: Contradiction) -> str:
        """Say which factors of which example contradict each other."""
        at = tuple(map(int, np.unravel_index(found.example, self.batch_shape)))
        where = f" in example {at}" if at else ""
        if bool(self.problem.forbidden[found.example].any()):
            where += ", given the variables that scores of -inf forbid"
        most = max(found.disagreements)
        at_odds = [label for label, size in zip(self.labels, found.disagreements, strict=True) if size > 0.1 * most]
        named = ", ".join(at_odds[:MAX_NAMED]) + (", ..." if len(at_odds) > MAX_NAMED else "")
        return f"factors contradict each other{where}, no marginals satisfy them all; at odds are {named}"

    def _judge(self) -> Report:
        """Report on the outcome, and warn of examples that did not converge."""
        outcome = self.outcome
        late = outcome.residual > self.tol
        if bool(late.any()):
            warn_of_limit(
                f"FactorGraph.solve: {int(late.sum())} of {len(late)} examples stopped after {self.max_iter} "
                f"iterations; factors disagree by up to {float(outcome.residual.max()):.3g}"
            )

        def reshape(row: Tensor) -> Tensor:
            return row.reshape(self.batch_shape)

        integral = reshape(((outcome.u == 0) | (outcome.u == 1)).all(1))
        return Report(
            iterations=reshape(outcome.iterations),
            infeasibility=reshape(outcome.primal_residual),
            dual_residual=reshape(outcome.dual_residual),
            gap=reshape(outcome.duality_gap),
            converged=reshape(~late),
            integral=integral,
            acyclic=self.acyclic,
            tight=integral | self.acyclic,
        )

    def additional_marginals(self) -> list[Tensor | None]:
        """Return those of each block, ``[B, K, a]``, NaN for invalid examples; None where it has no such scores."""
        with torch.no_grad():
            local = self._local()
        bad = self.invalid[:, None, None]
        parts = zip(local, self.problem.additional, strict=True)
        return [None if extra is None else _of(part).masked_fill(bad, torch.nan) for part, extra in parts]

    def _local(self) -> list[LocalSolution]:
        """Return the solutions of the factors by themselves, for the messages at which they agree."""
        return self.outcome.local or self.problem.solve_factors(self.outcome.z, self.outcome.rho)

    def _face(self) -> CommonFace:
        """Return the smallest face of the solution.

        So what is within reach of a bound counts as on it, also where another constraint is what holds it there.
        """
        near, outcome = 10 * self.tol, self.outcome
        with torch.no_grad():
            local = self._local()
            pinned = self.problem.forbidden | (outcome.u <= near) | (outcome.u >= 1 - near) | self.invalid[:, None]
            return CommonFace(self.problem, local, near, pinned, weight_tol=10 * outcome.residual.clamp(max=self.tol))


def _of(part: LocalSolution) -> Tensor:
    assert part.additional_marginals is not None
    return part.additional_marginals


class _Run(torch.autograd.Function):
    """The solution as a constant: inside, tensors are plain ones whatever torch.func makes of them outside."""

    @staticmethod
    def forward(solver: Solver, scores: Tensor, *additional: Tensor | None) -> Tensor:
        return solver.run(scores, list(additional))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx, *grads):  # type: ignore[override]
        raise AssertionError("a constant has no gradient")

    @staticmethod
    def jvp(ctx, *tangents):  # type: ignore[override]
        return None

    @staticmethod
    def vmap(info, in_dims, *inputs):  # type: ignore[override]
        raise NotImplementedError("FactorGraph.solve: not inside torch.vmap; give scores batch axes, and batch_dims")
