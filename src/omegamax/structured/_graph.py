"""LP-SparseMAP: marginals of binary variables that many factors agree on."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from omegamax._checks import is_number
from omegamax._warnings import ConvergenceWarning
from omegamax.functional._sparsemap import tangent
from omegamax.structured._admm import Contradiction, Outcome, admm
from omegamax.structured._assembly import Placed, blocks, is_acyclic, place
from omegamax.structured._faces import Faces, Projection
from omegamax.structured._factor import Factor, Infeasible
from omegamax.structured._logic import LocalFactor
from omegamax.structured._relaxation import Relaxation
from omegamax.structured._report import Report
from omegamax.structured._variables import Variable


class FactorGraph:
    r"""Binary variables with scores, and factors that say which of their combinations are allowed, or liked.

    .. math:: \arg\max_u \langle \eta, u \rangle + \sum_f \phi_f(u_f) - \tfrac12 \lVert u \rVert^2
              \quad\text{such that}\quad u_f \in P_f \text{ for all factors } f

    The marginals u of all variables are such that those of each factor's variables, :math:`u_f`, could come from a
    distribution over its own structures: :math:`P_f` is their convex hull, :math:`\phi_f` what the factor's additional
    scores are worth at best. One factor alone is SparseMAP, and so are factors that form a tree; elsewhere this is its
    linear-programming relaxation.

        >>> from omegamax.structured import Budget, DependencyTree
        >>> arc_scores = torch.tensor([[2.0, 0.0, 0.0], [1.5, 0.0, 0.0], [1.0, 0.5, 0.0]])  # [modifier, head]
        >>> fg = FactorGraph()
        >>> u = fg.variable_from(arc_scores)
        >>> fg.add(DependencyTree(), u)
        >>> for k in range(3):
        ...     fg.add(Budget(u[:, k], budget=2))
        >>> report = fg.solve()
        >>> u.value
        tensor([[1.0000, 0.0000, 0.0000],
                [0.7500, 0.1250, 0.1250],
                [0.2500, 0.6250, 0.1250]])

    Variables are sliced like arrays and negated by ``~``; ones that are in no factor are ``clip(scores, 0, 1)``. Logic
    factors (:class:`Xor` and its kin, :class:`Budget`, :class:`Pair`) hold their variables. Structured ones, the same
    objects as for :func:`sparsemap`, are given theirs by :meth:`add`. Like factors of all examples are solved in one
    call.

    Scores of ``-inf`` forbid a variable; an example with NaN or ``+inf`` is all NaN.

    Reference: Niculae & Martins (ICML 2020), whose Fig. 1 is the example above.
    """

    def __init__(self) -> None:
        self.batch_shape: tuple[int, ...] = ()
        self.report: Report | None = None
        self._scores: list[Tensor] = []
        self._placed: list[Placed] = []
        self._size = 0
        self._values: Tensor | None = None  # [B, N]

    def variable_from(self, scores: Tensor, batch_dims: int = 0) -> Variable:
        """New variables, one for each score.

        Args:
            scores: ``[*batch, *shape]``; gradients reach them.
            batch_dims: how many leading axes tell examples apart; all variables of a graph have the same ones.

        Returns:
            An array of variables of shape ``[*shape]``.
        """
        name = "FactorGraph.variable_from"
        if not isinstance(scores, Tensor) or not scores.is_floating_point():
            given = f"dtype {scores.dtype}" if isinstance(scores, Tensor) else type(scores).__name__
            raise TypeError(f"{name}: scores must be a floating-point tensor, got {given}")
        if not isinstance(batch_dims, int) or not 0 <= batch_dims <= scores.dim():
            raise ValueError(f"{name}: batch_dims must lie in [0, {scores.dim()}], got {batch_dims}")
        batch, shape = tuple(scores.shape[:batch_dims]), tuple(scores.shape[batch_dims:])
        if self._scores and batch != self.batch_shape:
            raise ValueError(f"{name}: scores must have the batch axes {self.batch_shape} of the graph, got {batch}")
        if self._scores and scores.device != self._scores[0].device:
            raise ValueError(f"{name}: scores must be on {self._scores[0].device}, got {scores.device}")
        count = math.prod(shape)
        index = np.arange(self._size, self._size + count).reshape(shape)
        self.batch_shape, self._values = batch, None
        self._size += count
        self._scores.append(scores)
        return Variable(self, index, np.zeros(shape, dtype=bool), scores.dtype)

    def add(self, factor: LocalFactor | Factor, variables: Any = None, additional: Tensor | None = None) -> None:
        """Let a factor constrain some variables.

        Args:
            factor: a logic factor, which has its variables, or a structured one.
            variables: of a structured factor, ``[*, *event]``; leading axes stand for as many factors.
            additional: scores of a structured factor that are not regularised, ``[*batch, *, m]``, in place of those
                that it brings along. Gradients reach them.
        """
        self._placed.append(place(self, factor, variables, additional))
        self._values = None

    def solve(self, max_iter: int = 1000, tol: float = 1e-9) -> Report:
        """Find the marginals, after which variables have their :attr:`Variable.value`.

        Args:
            max_iter: rounds allowed; beyond, a :class:`~omegamax.structured.ConvergenceWarning` gives the residual.
            tol: largest disagreement between factors to accept. What is within it is usually within rounding, because
                the last step is exact.

        Returns:
            A :class:`~omegamax.structured.Report`, kept as ``report``. Factors that contradict each other are a
            ValueError.
        """
        if not isinstance(max_iter, int) or max_iter < 1:
            raise ValueError(f"FactorGraph.solve: max_iter must be a whole number >= 1, got {max_iter}")
        if not is_number(tol) or not tol > 0:
            raise ValueError(f"FactorGraph.solve: tol must be > 0, got {tol}")
        if not self._size:
            raise ValueError("FactorGraph.solve: the graph has no variables")
        count = math.prod(self.batch_shape)
        rank = len(self.batch_shape)
        scores = torch.cat([s.reshape(count, math.prod(s.shape[rank:])).double() for s in self._scores], 1)
        like, additional, labels = blocks(self._placed, count, scores.device)
        spoilt = (scores.isnan() | (scores == torch.inf)).any(1)
        for extra in additional:
            if extra is not None:
                spoilt = spoilt | (extra.isnan() | (extra == torch.inf)).flatten(1).any(1)
        with torch.no_grad():
            known = scores.detach()
            forbidden = known == -torch.inf
            problem = Relaxation(
                known.masked_fill(spoilt[:, None] | forbidden, 0.0),
                forbidden & ~spoilt[:, None],
                like,
                [None if a is None else a.detach().masked_fill(spoilt[:, None, None], 0.0) for a in additional],
            )
            outcome = self._attempt(problem, labels, float(tol), max_iter)
            self.report = self._judged(outcome, float(tol))
        values = outcome.u
        if _derivatives_wanted(scores, *additional):
            values = values + _movement(problem, outcome, scores, additional, float(tol))
        self._values = values.masked_fill(spoilt[:, None], torch.nan)
        return self.report

    def _attempt(self, problem: Relaxation, labels: list[str], tol: float, max_iter: int) -> Outcome:
        try:
            outcome = admm(problem, tol, max_iter)
        except Contradiction as found:
            at = tuple(map(int, np.unravel_index(found.example, self.batch_shape)))
            where = f" in example {at}" if at else ""
            most = max(found.gaps)
            at_odds = [label for label, gap in zip(labels, found.gaps, strict=True) if gap > 0.1 * most]
            named = ", ".join(at_odds[:5]) + (", ..." if len(at_odds) > 5 else "")
            forbidden = (
                ", given the variables that scores of -inf forbid" if problem.forbidden[found.example].any() else ""
            )
            raise ValueError(
                f"FactorGraph.solve: factors contradict each other{where}{forbidden}, no marginals satisfy them all; "
                f"at odds are {named}"
            ) from None
        except Infeasible as error:
            raise ValueError(f"FactorGraph.solve: {error}") from None
        residual = torch.maximum(outcome.primal, outcome.dual)
        late = residual > tol
        if bool(late.any()):
            warnings.warn(
                f"FactorGraph.solve: {int(late.sum())} of {len(late)} examples stopped after {max_iter} iterations; "
                f"factors disagree by up to {float(residual.max()):.3g}",
                ConvergenceWarning,
                stacklevel=3,
            )
        return outcome

    def _judged(self, outcome: Outcome, tol: float) -> Report:
        def shaped(row: Tensor) -> Tensor:
            return row.reshape(self.batch_shape)

        integral = shaped(((outcome.u == 0) | (outcome.u == 1)).all(1))
        acyclic = is_acyclic(self._placed)
        return Report(
            iterations=shaped(outcome.iterations),
            infeasibility=shaped(outcome.primal),
            dual_residual=shaped(outcome.dual),
            gap=shaped(outcome.gap),
            converged=shaped(torch.maximum(outcome.primal, outcome.dual) <= tol),
            integral=integral,
            acyclic=acyclic,
            tight=integral | acyclic,
        )

    def _marginals(self, index: Tensor) -> Tensor:
        """Values ``[*batch, *shape]`` of the variables at ``index``."""
        if self._values is None:
            raise RuntimeError("Variable.value: none yet; call solve() of the graph, again if something was added")
        found = self._values[:, index.flatten().to(self._values.device)]
        return found.reshape((*self.batch_shape, *index.shape))

    def __repr__(self) -> str:
        return f"FactorGraph({self._size} variables, {sum(len(p.index) for p in self._placed)} factors)"


def _derivatives_wanted(*tensors: Tensor | None) -> bool:
    if forward_ad._current_level >= 0:
        return True
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def _movement(
    problem: Relaxation, outcome: Outcome, scores: Tensor, additional: list[Tensor | None], tol: float
) -> Tensor:
    """Zeros ``[B, N]`` with the derivative of the solution.

    It is the projection onto the directions of the smallest face that the solution lies on; so what is within reach of
    a bound counts as on it, also where another constraint is what holds it there.
    """
    with torch.no_grad():
        local = outcome.local or problem.solve(outcome.z, outcome.rho)
        near = 10 * tol
        pinned = problem.forbidden | (outcome.u <= near) | (outcome.u >= 1 - near)
        faces = Faces(problem, local, near, pinned)
    push = faces.additional([None if extra is None else tangent(extra) for extra in additional])
    moved: Tensor = Projection.apply(tangent(scores) + push, faces)
    return moved
