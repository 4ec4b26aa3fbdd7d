"""LP-SparseMAP: marginals of binary variables that many factors agree on."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax._arguments import check_integer, check_number
from omegamax._checks import check_floating
from omegamax._compile import disable_compile
from omegamax.structured._blocks import Placement, batch_key, group_placements
from omegamax.structured._factor import Factor
from omegamax.structured._logic import LogicFactor
from omegamax.structured._solver import Report, Solver
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
        self._placements: list[Placement] = []
        self._size = 0
        self._values: Tensor | None = None  # [B, N]

    def variable_from(self, scores: Tensor, batch_dims: int = 0) -> Variable:
        """Make new variables, one for each score.

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
        self._placements.append(_place(self, factor, variables, additional))
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
        blocks, additional, labels = group_placements(self._placements, count, scores.device)
        solver = Solver(self.batch_shape, blocks, labels, _is_acyclic(self._placements), tol, max_iter)
        self._values = solver(scores, additional)
        self.report = solver.report
        return self.report

    def _marginals(self, index: Tensor) -> Tensor:
        """Return the values ``[*batch, *shape]`` of the variables at ``index``."""
        if self._values is None:
            raise RuntimeError("Variable.value: none yet; call solve() of the graph, again if something was added")
        found = self._values[:, index.flatten().to(self._values.device)]
        return found.reshape((*self.batch_shape, *index.shape))

    def __repr__(self) -> str:
        return f"FactorGraph({self._size} variables, {sum(len(p.index) for p in self._placements)} factors)"


def _place(graph: FactorGraph, factor: Any, variables: Any, additional: Tensor | None) -> Placement:
    """Check what :meth:`FactorGraph.add` is given, and bring it into one form."""
    name = "FactorGraph.add"
    if isinstance(factor, LogicFactor):
        if variables is not None or additional is not None:
            raise TypeError(f"{name}: variables and additional belong to structured factors; {factor!r} has its own")
        if factor.graph is not graph:
            raise ValueError(f"{name}: factor must be on variables of this graph, got {factor!r} of another")
        count = 0 if factor.additional is None else factor.additional.shape[-1]
        kind = (type(factor.polytope), factor.index.shape[1], count)
        return Placement(
            kind, factor.polytope, factor.index, factor.negated, factor.parameters, factor.additional, repr(factor)
        )
    if not isinstance(factor, Factor):
        raise TypeError(f"{name}: factor must be a logic factor or a structured Factor, got {type(factor).__name__}")
    if factor.variables is not None:
        if variables is not None:
            raise TypeError(f"{name}: variables of {factor!r} are given twice")
        variables = factor.variables
    if not isinstance(variables, Variable):
        given = "none" if variables is None else type(variables).__name__
        raise TypeError(f"{name}: variables must be a Variable, as in add({type(factor).__name__}(u)), got {given}")
    if variables.graph is not graph:
        raise ValueError(f"{name}: variables must be of this graph, got variables of another")
    return _place_structured(name, graph, factor, variables, additional)


def _place_structured(
    name: str, graph: FactorGraph, factor: Factor, variables: Variable, additional: Tensor | None
) -> Placement:
    """Place a structured factor, once for each of the leading axes of the variables."""
    rank = len(variables.shape) - factor.event_dims
    if rank < 0 or not variables.index.size:
        raise ValueError(
            f"{name}: variables for {factor!r} must have at least {factor.event_dims} axes and one entry, got shape "
            f"{variables.shape}"
        )
    lead, event = variables.shape[:rank], variables.shape[rank:]
    batch = (*graph.batch_shape, *lead)
    like = torch.zeros(*batch, *event, dtype=torch.float64, device=graph._scores[0].device)
    factor.check(name, like)
    if additional is None:
        additional = factor.additional_scores(like)
    if additional is not None:
        additional = _expand_additional(name, factor, additional, batch, factor.additional_size(event))
        additional = additional.reshape(*graph.batch_shape, math.prod(lead), additional.shape[-1])
    count = math.prod(lead)
    return Placement(
        (batch_key(factor, event), event, 0 if additional is None else additional.shape[-1]),
        (factor, event),
        variables.index.reshape(count, -1),
        variables.negated.reshape(count, -1),
        np.zeros((count, 0)),
        additional,
        repr(factor),
    )


def _expand_additional(
    name: str, factor: Factor, additional: Tensor, batch: tuple[int, ...], size: int | None
) -> Tensor:
    """Refuse additional scores that are not ``[*, m]``; return them with the axes of the batch."""
    check_floating(name, "additional", additional)
    if additional.dim() < 1 or size not in (None, additional.shape[-1]):
        raise ValueError(
            f"{name}: additional scores for {factor!r} must be [*, {'m' if size is None else size}], got shape "
            f"{tuple(additional.shape)}"
        )
    try:
        return additional.expand(*batch, additional.shape[-1])
    except RuntimeError:
        raise ValueError(
            f"{name}: additional scores of shape {tuple(additional.shape)} do not broadcast to {batch}"
        ) from None


def _is_acyclic(placements: list[Placement]) -> bool:
    """Tell whether factors and variables, as the two kinds of nodes of a graph, form a forest."""
    parent: dict[Hashable, Hashable] = {}

    def root(node: Hashable) -> Hashable:
        while parent.setdefault(node, node) != node:
            parent[node] = node = parent[parent[node]]
        return node

    for p, placement in enumerate(placements):
        for k, row in enumerate(placement.index.tolist()):
            for variable in row:
                mine, its = root((p, k)), root(variable)
                if mine == its:
                    return False
                parent[mine] = its
    return True
