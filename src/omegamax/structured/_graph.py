"""LP-SparseMAP: marginals of binary variables that many factors agree on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax._arguments import check_integer, check_number
from omegamax._checks import check_floating
from omegamax._compile import disable_compile
from omegamax.structured._assembly import Placed, blocks, is_acyclic, place
from omegamax.structured._factor import Factor
from omegamax.structured._logic import LogicFactor
from omegamax.structured._report import Report
from omegamax.structured._solver import Solver
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
        >>> fg.add(DependencyTree(u))
        >>> for k in range(3):
        ...     fg.add(Budget(u[:, k], budget=2))
        >>> report = fg.solve()
        >>> u.value
        tensor([[1.0000, 0.0000, 0.0000],
                [0.7500, 0.1250, 0.1250],
                [0.2500, 0.6250, 0.1250]])

    Variables are sliced like arrays and negated by ``~``; ones that are in no factor are ``clip(scores, 0, 1)``. Logic
    factors (:class:`Xor` and its kin, :class:`Budget`, :class:`Pair`) hold their variables. Structured ones are those
    of :func:`sparsemap`, with variables in front: ``DependencyTree(u)``, or put on them by ``add(factor, u)``. Like
    factors of all examples are solved in one call.

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
        check_floating(name, "scores", scores)
        batch_dims = check_integer(name, "batch_dims", batch_dims, least=0, most=scores.dim())
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

    def add(self, factor: LogicFactor | Factor, variables: Any = None, additional: Tensor | None = None) -> None:
        """Let a factor constrain some variables.

        Args:
            factor: a logic factor, which has its variables, or a structured one, which may.
            variables: of a structured factor that has none, ``[*, *event]``; leading axes stand for as many factors.
            additional: scores of a structured factor that are not regularised, ``[*batch, *, m]``, in place of those
                that it brings along. Gradients reach them.
        """
        self._placed.append(place(self, factor, variables, additional))
        self._values = None

    @disable_compile
    def solve(self, max_iter: int = 1000, tol: float = 1e-9) -> Report:
        """Find the marginals, after which variables have their :attr:`Variable.value`.

        Args:
            max_iter: rounds allowed; beyond, a :class:`~omegamax.structured.ConvergenceWarning` gives the residual.
            tol: largest disagreement between factors to accept. What is within it is usually within rounding, because
                the last step is exact.

        Returns:
            A :class:`~omegamax.structured.Report`, kept as ``report``. Factors that contradict each other are a
            ValueError, however far apart they are.
        """
        max_iter = check_integer("FactorGraph.solve", "max_iter", max_iter, least=1)
        tol = check_number("FactorGraph.solve", "tol", tol, above=0)
        if not self._size:
            raise ValueError("FactorGraph.solve: the graph has no variables")
        count, rank = math.prod(self.batch_shape), len(self.batch_shape)
        scores = torch.cat([s.reshape(count, math.prod(s.shape[rank:])).double() for s in self._scores], 1)
        like, additional, labels = blocks(self._placed, count, scores.device)
        solver = Solver(self.batch_shape, like, labels, is_acyclic(self._placed), tol, max_iter)
        self._values = solver(scores, additional)
        self.report = solver.report
        return self.report

    def _marginals(self, index: Tensor) -> Tensor:
        """Values ``[*batch, *shape]`` of the variables at ``index``."""
        if self._values is None:
            raise RuntimeError("Variable.value: none yet; call solve() of the graph, again if something was added")
        found = self._values[:, index.flatten().to(self._values.device)]
        return found.reshape((*self.batch_shape, *index.shape))

    def __repr__(self) -> str:
        return f"FactorGraph({self._size} variables, {sum(len(p.index) for p in self._placed)} factors)"
