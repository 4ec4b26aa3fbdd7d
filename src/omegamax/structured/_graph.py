"""LP-SparseMAP: marginals of binary variables that many factors agree on."""

from __future__ import annotations

import math
from collections.abc import Sequence as SequenceOf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omegamax._arguments import check_choice, check_integer, check_number
from omegamax._checks import check_floating
from omegamax._compile import disable_compile
from omegamax.losses import REDUCTIONS, clip_negative
from omegamax.structured._factor import Factor
from omegamax.structured._graph_loss import check_satisfied, find_target_additional, graph_conjugate_minus
from omegamax.structured._logic import LogicFactor
from omegamax.structured._place import place
from omegamax.structured._placements import Placement, group_placements, is_acyclic
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
        self._placements.append(place(self, factor, variables, additional))
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
        return self._run("FactorGraph.solve", max_iter, tol)[0].report

    @disable_compile
    def loss(
        self,
        target: Tensor | SequenceOf[Tensor],
        target_additional: SequenceOf[Tensor | None] | None = None,
        reduction: str = "mean",
        *,
        max_iter: int = 1000,
        tol: float = 1e-9,
    ) -> Tensor:
        r"""Solve the graph, and measure how far its marginals are from a target that satisfies all factors.

        .. math:: \max_{u, v} \Bigl[\langle \eta, u \rangle + \sum_f \langle s_f, v_f \rangle
                  - \tfrac12 \lVert u \rVert^2\Bigr]
                  - \langle \eta, y \rangle - \sum_f \langle s_f, y_f \rangle + \tfrac12 \lVert y \rVert^2

        where :math:`s_f` are the additional scores of factor f and the maximum is over marginals on which all factors
        agree. Convex in the scores, never negative, zero exactly where the graph returns the target; its gradients are
        :math:`u - y` and :math:`v_f - y_f`. Where the relaxation is not tight it is at least the loss of SparseMAP over
        all joint assignments, whose maximum is over fewer marginals.

        Args:
            target: y, shaped like the scores that :meth:`variable_from` was given; one for each of its calls, in their
                order, where there were several. 0/1 values, or marginals.
            target_additional: :math:`y_f`, one entry for each call of :meth:`add`, in their order, None where it has no
                additional scores. They follow from 0/1 values; marginals do not tell them.
            reduction: ``"mean"`` or ``"sum"`` over the examples, or ``"none"``.
            max_iter, tol: as in :meth:`solve`.

        Returns:
            A scalar, or ``[*batch]`` without reduction. Twice differentiable in the scores, once where factors have
            additional ones. Variables have their :attr:`Variable.value`, and ``report`` tells how well they were found.

            >>> from omegamax.structured import Xor
            >>> scores = torch.tensor([1.0, 0.5, 0.0], requires_grad=True)
            >>> fg = FactorGraph()
            >>> u = fg.variable_from(scores)
            >>> fg.add(Xor(u))
            >>> loss = fg.loss(torch.tensor([1.0, 0.0, 0.0]))
            >>> loss.item(), torch.autograd.grad(loss, scores)[0]
            (0.0625, tensor([-0.2500,  0.2500,  0.0000]))

        Reference: Niculae & Martins (ICML 2020); Blondel, Martins & Niculae (JMLR 2020), Def. 2.
        """
        name = "FactorGraph.loss"
        check_choice(name, "reduction", reduction, REDUCTIONS)
        y = self._flatten_target(name, target)
        solver, scores, additional = self._run(name, max_iter, tol)
        check_satisfied(solver, y)
        given = None if target_additional is None else list(target_additional)
        parts = find_target_additional(solver, self._placements, given, y)
        assert self._values is not None
        value, bend = graph_conjugate_minus(solver, self._values, scores, additional, y, parts)
        loss = (clip_negative(value) + bend).to(self._scores[0].dtype)
        if reduction == "none":
            return loss.reshape(self.batch_shape)
        return loss.mean() if reduction == "mean" else loss.sum()

    def conjugate(self, *, max_iter: int = 1000, tol: float = 1e-9) -> Tensor:
        """Solve the graph, and return the largest value of its objective, ``[*batch]``.

        Its gradients are the marginals of all variables and of the additional parts; as :meth:`loss`, it is twice
        differentiable unless factors have additional scores.
        """
        solver, scores, additional = self._run("FactorGraph.conjugate", max_iter, tol)
        assert self._values is not None
        nothing = [torch.zeros_like(extra) for extra in additional if extra is not None]
        value, bend = graph_conjugate_minus(solver, self._values, scores, additional, torch.zeros_like(scores), nothing)
        return (value + bend).to(self._scores[0].dtype).reshape(self.batch_shape)

    def _run(self, name: str, max_iter: int, tol: float) -> tuple[Solver, Tensor, list[Tensor | None]]:
        """Solve; return the solver, the scores ``[B, N]`` and the additional ones of each block, ``[B, K, a]``."""
        max_iter = check_integer(name, "max_iter", max_iter, least=1)
        tol = check_number(name, "tol", tol, above=0)
        if not self._size:
            raise ValueError(f"{name}: the graph has no variables")
        scores = self._flatten(self._scores)
        blocks, additional, labels = group_placements(self._placements, len(scores), scores.device)
        solver = Solver(self.batch_shape, blocks, labels, is_acyclic(self._placements), tol, max_iter)
        self._values = solver(scores, additional)
        self.report = solver.report
        return solver, scores, additional

    def _flatten(self, tensors: SequenceOf[Tensor]) -> Tensor:
        """Return tensors shaped like the scores as one, ``[B, N]``."""
        count, rank = math.prod(self.batch_shape), len(self.batch_shape)
        return torch.cat([t.reshape(count, math.prod(t.shape[rank:])).double() for t in tensors], 1)

    def _flatten_target(self, name: str, target: Tensor | SequenceOf[Tensor]) -> Tensor:
        """Refuse targets that are not shaped like the scores; return them as one, ``[B, N]``."""
        targets = [target] if isinstance(target, Tensor) else list(target)
        if len(targets) != len(self._scores):
            raise ValueError(
                f"{name}: target must be a tensor for each of the {len(self._scores)} calls of variable_from, got "
                f"{len(targets)}"
            )
        for given, scores in zip(targets, self._scores, strict=True):
            check_floating(name, "target", given)
            if given.shape != scores.shape:
                raise ValueError(
                    f"{name}: target must have the shape {tuple(scores.shape)} of the scores, got {tuple(given.shape)}"
                )
        return self._flatten([given.to(self._scores[0].device) for given in targets])

    @property
    def has_additional(self) -> bool:
        """Whether a factor has additional scores."""
        return any(placement.additional is not None for placement in self._placements)

    def _marginals(self, index: Tensor) -> Tensor:
        """Return the values ``[*batch, *shape]`` of the variables at ``index``."""
        if self._values is None:
            raise RuntimeError("Variable.value: none yet; call solve() of the graph, again if something was added")
        found = self._values[:, index.flatten().to(self._values.device)]
        return found.reshape((*self.batch_shape, *index.shape))

    def __repr__(self) -> str:
        return f"FactorGraph({self._size} variables, {sum(len(p.index) for p in self._placements)} factors)"
