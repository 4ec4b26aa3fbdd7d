"""Matchings of rows and columns."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import check_mask, is_plain
from omegamax._operation import needs_derivative
from omegamax._warnings import warn_of_limit
from omegamax.kernels.structures import TOLERANCE, ActiveSet, MatchingJacobian, TransportPlan
from omegamax.kernels.structures.assignment import assign
from omegamax.kernels.structures.birkhoff import decompose
from omegamax.structured._factor import Factor, Infeasible
from omegamax.structured._solution import Solution

MAX_STEPS = 500  # steps of Newton's method; twenty is many


class Potentials(NamedTuple):
    """The dual variables a and b of rows and columns at a solution, to start from for similar scores."""

    rows: Tensor  # [B, n]
    columns: Tensor  # [B, m]


def _solve(*given) -> TransportPlan:
    """Run the kernel of matchings where its tensors are."""
    plan: Any = kernels.solve("matching", *given)
    return plan


_project = kernels.solve_where_compiled("matching", _solve)


class Matching(Factor):
    r"""One column for each row and at most one row for each column, scores ``[*, n, m]``, n <= m; else the other way.

    If the matrix is square these are the permutations, and SparseMAP is the Euclidean projection onto the doubly
    stochastic matrices, here by Newton's method on its dual: batched, exact, without an active set.

    .. math:: \arg\min_{P \ge 0,\; P 1 = 1,\; P^\top 1 \le 1} \lVert P - S \rVert^2 = [S - a 1^\top - 1 b^\top]_+

    A row or a column that ``mask`` takes out as a whole is absent: pad matrices of different sizes to one.

        >>> from omegamax.structured import sparsemap
        >>> scores = torch.tensor([[0.75, 0.5, 0.0], [0.5, 0.0, 0.25], [0.0, 0.25, 0.5]])
        >>> marginals, found = sparsemap(scores, Matching(), return_structures=True)
        >>> marginals
        tensor([[0.5333, 0.4667, 0.0000],
                [0.4667, 0.1500, 0.3833],
                [0.0000, 0.3833, 0.6167]])
        >>> found.probabilities
        tensor([0.4667, 0.3833, 0.1500])
        >>> sparsemap(scores[:2], Matching())
        tensor([[0.5357, 0.4643, 0.0000],
                [0.4643, 0.1429, 0.3929]])

    Reference: Niculae et al. (ICML 2018), Sec. 5.2 (matchings); Birkhoff (1946), the structures.
    """

    event_dims = 2
    operation = "matching"

    def additional_size(self, event: tuple[int, ...]) -> int:
        return 0

    def part_count(self, event: tuple[int, ...]) -> int:
        return min(event)

    def maximize(self, scores: Tensor, additional: Tensor | None) -> Tensor:
        """Return best matchings as 0/1 matrices ``[B, n, m]``: linear assignment, always on the CPU."""
        known = scores.detach().to("cpu", torch.float64)
        # A power of two less, so that sums of the largest floats there are stay finite.
        known = torch.where(known.isfinite() | (known == -math.inf), known * 2.0**-16, 0.0)
        wide = known.shape[1] <= known.shape[2]
        choice = torch.from_numpy(assign((known if wide else known.mT).numpy()).choice)
        chosen = torch.zeros_like(known if wide else known.mT).scatter_(2, choice[..., None], 1.0)
        return (chosen if wide else chosen.mT).to(scores)

    def features(self, structures: Tensor) -> tuple[Tensor, Tensor | None]:
        return structures, None

    def prepare(
        self, name: str, scores: Tensor, additional: Tensor | None, mask: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        check_mask(name, scores, mask)
        mask = mask.expand_as(scores)
        rows, columns = ~mask.any(-1), ~mask.any(-2)
        _check_absent(name, rows.sum(-1), columns.sum(-1), tuple(mask.shape[-2:]))
        # Absent rows and columns are matched to each other, the first to the first, at no cost.
        pairs = rows.cumsum(-1)[..., :, None] == columns.cumsum(-1)[..., None, :]
        pairs = pairs & rows[..., :, None] & columns[..., None, :]
        return torch.where(pairs, 0.0, scores.masked_fill(~mask, -math.inf)), additional

    def solve(
        self,
        scores: Tensor,
        additional: Tensor | None = None,
        *,
        start: ActiveSet | Potentials | None = None,
        structures: bool = False,
        tol: float = TOLERANCE,
        max_iter: int | None = None,
    ) -> MatchingSolution:
        """Project a flat batch, without gradients.

        ``start`` takes the ``potentials`` of an earlier solution; structures are of no help here. ``tol`` is how far
        off the sum of a column may be, beyond what rounding makes of it.
        """
        tol = max(tol, TOLERANCE)
        scores = scores.detach()
        invalid = ~(scores < math.inf).all(-1).all(-1)  # NaN fails every comparison
        known = torch.where(invalid[:, None, None], 0.0, scores)
        transposed = known.shape[1] > known.shape[2]
        first: tuple[Tensor | None, Tensor | None] = None, None
        if isinstance(start, Potentials):
            rows, columns = (start.columns, start.rows) if transposed else start
            first = rows[:, :, None].nan_to_num(0.0), columns[:, None].nan_to_num(0.0)
        limit = MAX_STEPS if max_iter is None else max_iter
        plan = TransportPlan(*_project(known.mT.contiguous() if transposed else known, *first, tol, limit))
        infeasible = plan.residual == math.inf
        if bool(infeasible.any()):
            raise Infeasible(
                f"{self!r}: scores leave no matching in row {int(infeasible.nonzero()[0])}: "
                "each has a part whose score is -inf (or masked)"
            )
        short = plan.residual > tol
        if bool(short.any()):
            warn_of_limit(
                f"{self!r}: {int(short.sum())} of {len(short)} problems stopped after {limit} steps; the sum of a "
                f"column is wrong by up to {float(plan.residual.max()):.3g}"
            )
        solution = MatchingSolution(plan, invalid, transposed)
        if structures:
            solution.active = _decompose(solution.marginals, plan, invalid, transposed, limit)
        return solution


class MatchingSolution(Solution):
    """A projection and the face that it lies on; ``active`` if structures were asked for."""

    additional_marginals = None

    def __init__(self, plan: TransportPlan, invalid: Tensor, transposed: bool):
        self.transposed = transposed
        inner = torch.where(invalid[:, None, None], math.nan, plan.marginals)
        self.marginals = inner.mT.contiguous() if transposed else inner
        sides = plan.rows[:, :, 0], plan.columns[:, 0]
        self.potentials = Potentials(*(sides[::-1] if transposed else sides))
        self.support = inner > 0
        square = inner.shape[1] == inner.shape[2]
        self.tight = torch.ones_like(plan.columns, dtype=torch.bool) if square else plan.columns > 0
        self.active: ActiveSet | None = None
        self._compiled = kernels.is_compiled("matching_vjp", inner)  # derivatives run as the solution did

    @cached_property
    def _jacobian(self) -> MatchingJacobian:
        return MatchingJacobian(self.support, self.tight)

    def jvp(self, d_scores: Tensor, d_additional: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return the change of the scores on the support, less what would change the sums of rows and full columns."""
        change = d_scores.mT if self.transposed else d_scores
        if self._compiled and is_plain(change) and not needs_derivative(change):
            change = kernels.solve("matching_vjp", change, self.support, self.tight)
        else:
            change = self._jacobian.jvp(change)
        return change.mT if self.transposed else change, None


def _check_absent(name: str, rows: Tensor, columns: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse masks whose absent rows cannot be matched to absent columns, or leave more of the shorter side."""
    n, m = shape
    short, long = (rows, columns) if n <= m else (columns, rows)
    fits = (short <= long) & (min(shape) - short <= max(shape) - long)
    if not bool(fits.all()):
        at = int((~fits).flatten().nonzero()[0])
        raise ValueError(
            f"{name}: mask must take as many columns as rows out of the matrices of a Matching, or more of those that "
            f"there are more of, as long as no fewer are left; from shape {shape} it takes {int(rows.flatten()[at])} "
            f"rows and {int(columns.flatten()[at])} columns"
        )


def _decompose(marginals: Tensor, plan: TransportPlan, invalid: Tensor, transposed: bool, limit: int) -> ActiveSet:
    """Decompose marginals into a mixture of matchings."""
    inner = marginals.mT if transposed else marginals
    choice, weights, count = (torch.from_numpy(a).to(marginals.device) for a in decompose(inner.cpu().numpy()))
    used = (weights > 0)[..., None, None]
    unary = marginals.new_zeros(*choice.shape, inner.shape[2]).scatter_(3, choice[..., None], 1.0) * used
    return ActiveSet(
        unary=(unary.mT if transposed else unary).flatten(2),
        additional=marginals.new_zeros(*weights.shape, 0),
        weights=weights,
        count=count,
        iterations=plan.iterations.clamp(max=limit - 1),
        residual=torch.where(invalid, math.nan, 0.0).to(marginals),
    )
