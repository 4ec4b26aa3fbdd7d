"""One solution of a factor graph: as a function that autograd knows, with a report."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from omegamax._operation import needs_derivative
from omegamax._warnings import ConvergenceWarning
from omegamax.structured._admm import admm
from omegamax.structured._blocks import Block
from omegamax.structured._faces import Faces, Projection
from omegamax.structured._factor import Infeasible
from omegamax.structured._outcome import Contradiction, Outcome
from omegamax.structured._relaxation import Relaxation
from omegamax.structured._report import Report
from omegamax.structured._solution import tangent

NAMED = 5  # factors at odds that a message lists


class Solver:
    """Scores of a graph to its marginals.

    Args:
        batch_shape: of the examples.
        blocks: the like factors.
        labels: what to call each factor, block by block.
        acyclic: whether the graph is a forest.
        tol, max_iter: as in :meth:`FactorGraph.solve`.
    """

    problem: Relaxation
    spoilt: Tensor  # [B]: examples with NaN or +inf
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
        """Marginals ``[B, N]`` for scores ``[B, N]`` and those of the blocks ``[B, K, a]``, differentiable in both."""
        u: Tensor = _Run.apply(self, scores, *additional)
        if not needs_derivative(scores, *additional):
            return u
        faces = self._faces()
        push = faces.additional([None if extra is None else tangent(extra) for extra in additional])
        return u + Projection.apply(tangent(scores) + push, faces)  # the solution, plus zeros that move with it

    def run(self, scores: Tensor, additional: list[Tensor | None]) -> Tensor:
        """Solve, report and warn; no gradients."""
        spoilt = (scores.isnan() | (scores == torch.inf)).any(1)
        for extra in additional:
            if extra is not None:
                spoilt = spoilt | (extra.isnan() | (extra == torch.inf)).flatten(1).any(1)
        self.spoilt, forbidden = spoilt, scores == -torch.inf
        self.problem = Relaxation(
            scores.masked_fill(spoilt[:, None] | forbidden, 0.0),
            forbidden & ~spoilt[:, None],
            self.blocks,
            [None if extra is None else extra.masked_fill(spoilt[:, None, None], 0.0) for extra in additional],
        )
        try:
            self.outcome = admm(self.problem, self.tol, self.max_iter)
        except Contradiction as found:
            raise ValueError(f"FactorGraph.solve: {self._explain(found)}") from None
        except Infeasible as error:
            raise ValueError(f"FactorGraph.solve: {error}") from None
        self.report = self._judge()
        return self.outcome.u.masked_fill(spoilt[:, None], torch.nan)

    def _explain(self, found: Contradiction) -> str:
        at = tuple(map(int, np.unravel_index(found.example, self.batch_shape)))
        where = f" in example {at}" if at else ""
        if bool(self.problem.forbidden[found.example].any()):
            where += ", given the variables that scores of -inf forbid"
        most = max(found.gaps)
        at_odds = [label for label, gap in zip(self.labels, found.gaps, strict=True) if gap > 0.1 * most]
        named = ", ".join(at_odds[:NAMED]) + (", ..." if len(at_odds) > NAMED else "")
        return f"factors contradict each other{where}, no marginals satisfy them all; at odds are {named}"

    def _judge(self) -> Report:
        outcome = self.outcome
        residual = torch.maximum(outcome.primal, outcome.dual)
        late = residual > self.tol
        if bool(late.any()):
            warnings.warn(
                f"FactorGraph.solve: {int(late.sum())} of {len(late)} examples stopped after {self.max_iter} "
                f"iterations; factors disagree by up to {float(residual.max()):.3g}",
                ConvergenceWarning,
                stacklevel=8,
            )

        def shaped(row: Tensor) -> Tensor:
            return row.reshape(self.batch_shape)

        integral = shaped(((outcome.u == 0) | (outcome.u == 1)).all(1))
        return Report(
            iterations=shaped(outcome.iterations),
            infeasibility=shaped(outcome.primal),
            dual_residual=shaped(outcome.dual),
            gap=shaped(outcome.gap),
            converged=shaped(~late),
            integral=integral,
            acyclic=self.acyclic,
            tight=integral | self.acyclic,
        )

    def _faces(self) -> Faces:
        """Of the solution: the smallest ones.

        So what is within reach of a bound counts as on it, also where another constraint is what holds it there.
        """
        near, outcome = 10 * self.tol, self.outcome
        with torch.no_grad():
            local = outcome.local or self.problem.solve(outcome.z, outcome.rho)
            pinned = self.problem.forbidden | (outcome.u <= near) | (outcome.u >= 1 - near) | self.spoilt[:, None]
            return Faces(self.problem, local, near, pinned)


class _Run(torch.autograd.Function):
    """The solution as a constant: is_interior, tensors are plain ones whatever torch.func makes of them outside."""

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
