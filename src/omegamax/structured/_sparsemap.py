"""SparseMAP: the sparse mixture of structures whose marginals are closest to the scores."""

from __future__ import annotations

import math
from typing import Literal, overload

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._arguments import check_integer, check_number, check_type
from omegamax._checks import check_floating, check_mask
from omegamax._operation import check_not_exporting
from omegamax.kernels.structures import TOLERANCE, iteration_limit, warn_unless_converged
from omegamax.structured._factor import Factor, Infeasible, expand_additional
from omegamax.structured._solution import Solution, SparseMAPCall, Structures

F64 = torch.float64


@overload
def sparsemap(
    scores: Tensor,
    factor: Factor,
    additional: Tensor | None = ...,
    return_structures: Literal[False] = ...,
    *,
    mask: Tensor | None = ...,
    two_state: bool = ...,
    tol: float = ...,
    max_iter: int | None = ...,
) -> Tensor: ...


@overload
def sparsemap(
    scores: Tensor,
    factor: Factor,
    additional: Tensor | None = ...,
    *,
    return_structures: Literal[True],
    mask: Tensor | None = ...,
    two_state: bool = ...,
    tol: float = ...,
    max_iter: int | None = ...,
) -> tuple[Tensor, Structures]: ...


def sparsemap(
    scores: Tensor,
    factor: Factor,
    additional: Tensor | None = None,
    return_structures: bool = False,
    *,
    mask: Tensor | None = None,
    two_state: bool = False,
    tol: float = TOLERANCE,
    max_iter: int | None = None,
) -> Tensor | tuple[Tensor, Structures]:
    r"""Return the marginals of the sparse distribution over structures that fits the scores best.

    .. math:: \arg\max_{u = M\xi,\; v = N\xi,\; \xi \in \Delta} \langle u, \eta_u \rangle + \langle v, \eta_v \rangle
              - \tfrac12 \lVert u \rVert^2

    The columns of M and N are the 0/1 parts of the structures; only the unary ones are regularised. Differentiable in
    both scores, and in the parameters of the factor.

    Args:
        scores: :math:`\eta_u`, ``[*, *event]``; ``-inf`` forbids a part.
        factor: the structures, see :class:`~omegamax.structured.Factor` for one's own.
        additional: :math:`\eta_v`, ``[*, m]``, instead of those that the factor brings along.
        return_structures: also return the distribution itself.
        mask: bool, broadcastable to the scores; ``False`` takes a part out.
        two_state: the scale of those who encode each part as a variable with two states, on and off, and regularise
            both (lpsmap's sequences with a budget, and the papers that build on them). As
            :math:`\tfrac12 u^2 + \tfrac12 (1 - u)^2 = u^2 - u + \tfrac12`, their marginals are ours at half of all
            scores, additional ones included, with another half added to each unary score. Where all structures have
            equally many parts, that half changes nothing: theirs are ours at half the scores.
        tol: a structure that gains less, relative to the scores in which it differs, is left out.
        max_iter: iterations allowed, in place of a limit that grows with the event. Beyond, a
            :class:`~omegamax.structured.ConvergenceWarning` gives the gain that was left.

    Returns:
        Marginals shaped like ``scores``; with ``return_structures`` also the
        :class:`~omegamax.structured.Structures` with their probabilities and the marginals of the additional parts.
        Computed in float64. NaN or ``+inf`` makes its own problem NaN, no other.

        >>> from omegamax.structured import DependencyTree
        >>> scores = torch.tensor([[1.5, 0.0], [0.75, 1.0]])
        >>> marginals, found = sparsemap(scores, DependencyTree(), return_structures=True)
        >>> marginals
        tensor([[1.0000, 0.0000],
                [0.3750, 0.6250]])
        >>> found.probabilities
        tensor([0.6250, 0.3750])

    Reference: Niculae et al. (ICML 2018), Sec. 3.
    """
    problem = Problem("sparsemap", scores, factor, additional, mask, two_state)
    call = problem.call(return_structures, tol, max_iter)
    u, v, weights = call(problem.scores, problem.additional)
    marginals = problem.reshape(torch.where(problem.present, u, 0.0), scores.shape)
    if not return_structures:
        return marginals
    active, width = call.structures().active, weights.shape[-1]
    if len(active.count) != len(weights):
        raise NotImplementedError("sparsemap: return_structures is not possible under torch.vmap; use leading axes")
    found = torch.where(problem.present[:, None], active.unary.unflatten(-1, problem.event), 0.0)
    some, parts, count = problem.additional is not None, active.additional, active.additional.shape[-1]
    return marginals, Structures(
        structures=problem.reshape(found, (*problem.batch, width, *problem.event)),
        probabilities=problem.reshape(weights, (*problem.batch, width)),
        count=problem.send_back(active.count.reshape(problem.batch)),
        additional=problem.reshape(parts, (*problem.batch, width, count)) if some else None,
        additional_marginals=problem.reshape(v, (*problem.batch, count)) if some else None,
    )


class Problem:
    """Checked scores in the form that factors take: a flat batch in float64, on the host where it is solved there."""

    def __init__(
        self,
        name: str,
        scores: Tensor,
        factor: Factor,
        additional: Tensor | None,
        mask: Tensor | None,
        two_state: bool,
    ):
        self.name, self.factor = name, factor
        check_not_exporting(name)
        check_type(name, "factor", factor, Factor)  # type: ignore[type-abstract]
        if factor.variables is not None:
            raise ValueError(f"{name}: factor must hold no variables of a FactorGraph, got {factor!r} with some")
        check_floating(name, "scores", scores)
        dims = factor.event_dims
        if scores.dim() < dims or 0 in scores.shape[scores.dim() - dims :]:
            raise ValueError(
                f"{name}: scores for {factor!r} need {dims} trailing axes with at least one entry each, got shape "
                f"{tuple(scores.shape)}"
            )
        factor.check(name, scores)
        self.batch = tuple(scores.shape[: scores.dim() - dims])
        self.event = tuple(scores.shape[scores.dim() - dims :])
        self.dtype, self.device = scores.dtype, scores.device
        if factor.operation is not None and kernels.is_solved_on_host(factor.operation, scores):
            scores = scores.cpu()  # before they are widened: half the way, and no small steps on the device
        wide = scores.to(F64)
        if additional is None:
            extra = factor.additional_scores(wide)
        else:
            extra = expand_additional(name, factor, additional, self.event, self.batch).to(wide)
        if two_state:
            wide, extra = (wide + 1) / 2, None if extra is None else extra / 2
        present = torch.ones((), dtype=torch.bool, device=scores.device)
        if mask is not None:
            check_mask(name, wide, mask)
            present = mask.to(scores.device)
            wide, extra = factor.prepare(name, wide, extra, present)
        self.scores = wide.reshape(-1, *self.event)
        self.present = present.expand(scores.shape).reshape(-1, *self.event)
        self.additional = None if extra is None else extra.reshape(len(self.scores), extra.shape[-1])

    def call(self, structures: bool, tol: float = TOLERANCE, max_iter: int | None = None) -> SparseMAPCall:
        """Return the solver of this problem, which warns where it does not solve it."""
        if max_iter is None:
            max_iter = iteration_limit(math.prod(self.event))
        limit = check_integer(self.name, "max_iter", max_iter, least=1)
        tol = check_number(self.name, "tol", tol, least=0)

        def solve(scores: Tensor, additional: Tensor | None) -> Solution:
            try:
                solution = self.factor.solve(scores, additional, structures=structures, tol=tol, max_iter=limit)
            except Infeasible as error:
                raise ValueError(f"{self.name}: {error}") from None
            if solution.active is not None:
                warn_unless_converged(self.name, solution.active, limit)
            return solution

        return SparseMAPCall(solve, distribution=structures)

    def reshape(self, tensor: Tensor, shape: tuple[int, ...] | torch.Size) -> Tensor:
        """Return a result in this shape, in the dtype in which the scores were given and where they were."""
        return self.send_back(tensor.reshape(shape).to(self.dtype))

    def send_back(self, tensor: Tensor) -> Tensor:
        """Return a tensor on the device where the scores were given."""
        return tensor.to(self.device)
