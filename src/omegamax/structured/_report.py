"""What a solver has to say about its solution."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


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
