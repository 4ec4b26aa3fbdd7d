"""Project matrices onto the assignment polytope, a batch at once, in plain torch around the row kernels.

With potentials a of the rows and b of the columns the projection of S is ``P = [S - a - b]_+``, and they minimise the
convex ``1/2 ||P||^2 + sum a + sum b``. For given b the best a are the thresholds of sparsemax of the rows, which leaves
a problem in b alone: its gradient is one minus the sums of the columns, its Hessian the Laplacian of the columns that
share a row of the support. Newton's method with a line search ends at the exact solution, because a step that changes
no support lands on it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax import kernels
from omegamax.kernels.structures.assignment import assign
from omegamax.kernels.structures.column_laplacian import column_laplacian

MAX_RANGE = 100.0  # of the scores of a matrix, beyond which its best matching is found first
MAX_SCORE = 1e300  # size of a score, beyond which all of them are scaled down
MAX_ROUNDING = 1e-3  # of the scores, beyond which they only tell which matchings are best
SWEEPS = 4  # exact minimisations over columns, then rows, before the first Newton step
MAX_HALVINGS = 30  # of a Newton step, before a sweep takes its place
ARMIJO = 0.1  # share of the decrease that the slope promises; were it less, steps could go to and fro at one height
EXACT_STEPS = 2  # first Newton steps, with the support as it is
REACH = 0.5  # times the residual: how far below 0 an entry of the support may be in later steps


class TransportPlan(NamedTuple):
    """Projections, and the potentials that prove them: ``marginals = [scores - rows - columns]_+``."""

    marginals: Tensor  # [B, n, m]
    rows: Tensor  # [B, n, 1]
    columns: Tensor  # [B, 1, m]; >= 0, and 0 where the sum is below one, if there are more columns than rows
    iterations: Tensor  # [B]
    residual: Tensor  # [B]: what the worst column is away from its sum


class _DualState(NamedTuple):
    """What potentials leave of the scores, rows of its positive part summing to one; and how far they have moved."""

    rest: Tensor  # [B, n, m]
    rows: Tensor  # [B, n, 1]
    columns: Tensor  # [B, 1, m]
    floor: Tensor  # [B, 1, m]: how far down the columns may go

    def pick(self, index: Tensor) -> _DualState:
        return _DualState(*(t[index] for t in self))

    def put(self, index: Tensor, other: _DualState) -> None:
        for whole, part in zip(self, other, strict=True):
            whole[index] = part


def matching(scores: Tensor, rows: Tensor | None, columns: Tensor | None, tol: float, max_iter: int) -> TransportPlan:
    """Project matrices ``[B, n, m]``, n <= m, onto ``{P >= 0, rows sum to 1, columns sum to at most 1}``.

    Columns of a square matrix then sum to one. ``-inf`` entries are forbidden, all others finite; where that leaves no
    matching, the result is NaN and the residual infinite. ``rows [B, n, 1]`` and ``columns [B, 1, m]`` are potentials
    close to the solution's to start from, if any are known. At most ``max_iter`` steps are taken, twice.
    """
    size = torch.where(scores.isfinite(), scores, 0.0).abs().amax((1, 2), keepdim=True)
    # Of scores that large it only matters which matchings are best, and sums of the largest numbers there are overflow.
    scale = torch.where(size > MAX_SCORE, 2.0**-64, 1.0).to(scores)
    scores = scores * scale
    noise = 8 * max(scores.shape[1:]) * torch.finfo(scores.dtype).eps * size * scale
    start = None if rows is None or columns is None else (rows * scale, columns * scale)
    rows, columns, feasible = _potentials(scores, start)
    at = feasible.nonzero()[:, 0]
    iterations = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
    residual = torch.where(feasible, 0.0, math.inf).to(scores)
    marginals = torch.full_like(scores, math.nan)
    # Steps are taken from the differences of scores and potentials, rounded once. Where the first steps were long, the
    # rounding of the scores is what the second round starts from, and its own steps are next to nothing.
    for again in (False, True):
        known = columns[at]
        floor = torch.full_like(known, -math.inf) if scores.shape[1] == scores.shape[2] else -known
        still = torch.zeros_like(rows[at]), torch.zeros_like(known)
        rest = scores[at] - rows[at] - known
        # Rounded to more than a probability, a difference that ought to be 0 would decide all of them.
        rest = torch.where((rest.abs() <= noise[at]) & (noise[at] > MAX_ROUNDING), 0.0, rest)
        state = _minimise_rows(rest, *still, floor)
        if start is None and not again:
            for _ in range(SWEEPS):
                state = _sweep(state)
        state, steps, left = _newton(state, tol, max_iter)
        rows[at] += state.rows
        columns[at] += state.columns
        iterations[at] += steps
        residual[at] = left
    # An entry that only rounding keeps above 0 would count as one of the support.
    marginals[at] = torch.where(state.rest > 16 * torch.finfo(scores.dtype).eps, state.rest, 0.0)
    return TransportPlan(marginals, rows / scale, columns / scale, iterations, residual)


def _potentials(scores: Tensor, start: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return first potentials, and for which matrices there is a matching at all, ``[B]``.

    Newton's method finds its way among scores of order one. Where they are larger, or some are forbidden, it starts
    from the potentials of the best matching, which are within that order of its own, whatever the scores are.
    """
    if start is None:
        rows, columns = torch.zeros_like(scores[:, :, :1]), torch.zeros_like(scores[:, :1])
    else:
        square = scores.shape[1] == scores.shape[2]
        rows, columns = start[0].clone(), start[1].clone() if square else start[1].clamp(min=0)
    feasible = torch.ones(len(scores), dtype=torch.bool, device=scores.device)
    easy = scores.amax((1, 2)) - scores.amin((1, 2)) <= MAX_RANGE  # a comparison that fails where all scores are -inf
    hard = (~easy).nonzero()[:, 0]
    if len(hard):
        best = assign(scores[hard].cpu().numpy())
        feasible[hard] = torch.from_numpy(best.feasible).to(feasible)
        rows[hard] = torch.from_numpy(best.rows)[:, :, None].to(rows)
        columns[hard] = torch.from_numpy(best.columns)[:, None].to(columns)
    return rows, columns, feasible


def _newton(state: _DualState, tol: float, max_iter: int) -> tuple[_DualState, Tensor, Tensor]:
    """Step until the columns sum to one; return the last state, how many steps there were and the residual, ``[B]``."""
    final = _DualState(*(t.clone() for t in state))
    iterations = torch.zeros(len(state.rest), dtype=torch.long, device=state.rest.device)
    residual = state.rest.new_zeros(len(state.rest))
    at = torch.arange(len(state.rest), device=state.rest.device)
    for step in range(max_iter + 1):
        excess, bound = _excess(state)
        left = excess.abs().amax((1, 2))
        go = (left > tol) & (step < max_iter)
        final.put(at[~go], state.pick(~go))
        residual[at[~go]] = left[~go]
        if not bool(go.any()):
            break
        at, state, left = at[go], state.pick(go), left[go]
        iterations[at] += 1
        state = _step(state, excess[go], bound[go], left * (REACH if step >= EXACT_STEPS else 0.0))
    return final, iterations, residual


def _minimise_rows(rest: Tensor, rows: Tensor, columns: Tensor, floor: Tensor) -> _DualState:
    """Minimise over the potentials of the rows."""
    best = kernels.solve("entmax", rest, 2.0, 2)
    shift = rest.amax(2, keepdim=True) - best.amax(2, keepdim=True)
    return _DualState(rest - shift, rows + shift, columns, floor)


def _sweep(state: _DualState) -> _DualState:
    """Minimise over the columns, then over the rows."""
    best = kernels.solve("entmax", state.rest, 2.0, 1)
    return _move_columns(state, state.rest.amax(1, keepdim=True) - best.amax(1, keepdim=True))


def _move_columns(state: _DualState, shift: Tensor) -> _DualState:
    """Raise the potentials of the columns by ``shift``, but not below their floor; the rows follow."""
    shift = torch.maximum(shift, state.floor - state.columns)
    return _minimise_rows(state.rest - shift, state.rows, state.columns + shift, state.floor)


def _excess(state: _DualState) -> tuple[Tensor, Tensor]:
    """Return what the columns hold beyond one, ``[B, 1, m]``; 0 for those at their bound that hold less, and which."""
    excess = state.rest.clamp(min=0).sum(1, keepdim=True) - 1
    bound = (state.columns <= state.floor) & (excess < 0)
    return torch.where(bound, 0.0, excess), bound


def _step(state: _DualState, excess: Tensor, bound: Tensor, reach: Tensor) -> _DualState:
    """Step in Newton's direction, halved until it lowers the dual; sweep where no length does."""
    direction = _direction(state.rest, excess, bound, reach)
    value = _square(state.rest)
    length = torch.ones_like(value)
    moved = _DualState(*(t.clone() for t in state))
    at = torch.arange(len(value), device=value.device)
    for _ in range(MAX_HALVINGS):
        here, size = state.pick(at), length[at]
        trial = _move_columns(here, size[:, None, None] * direction[at])
        taken = trial.columns - here.columns
        # Differences of potentials and squares of probabilities: nothing large in them.
        change = _square(trial.rest) - value[at] + (trial.rows - here.rows).sum((1, 2)) + taken.sum((1, 2))
        promised = -(taken * excess[at]).sum((1, 2))
        slope = -((trial.rest.clamp(min=0).sum(1, keepdim=True) - 1) * taken).sum((1, 2))
        # A slope that points down says that a convex function has fallen, with fewer roundings than its values.
        good = (promised < 0) & ((change <= ARMIJO * promised) | (slope <= 0))
        moved.put(at[good], trial.pick(good))
        at = at[~good]
        if not len(at):
            return moved
        length[at] /= 2
    moved.put(at, _sweep(state.pick(at)))
    return moved


def _square(rest: Tensor) -> Tensor:
    return 0.5 * rest.clamp(min=0).square().sum((1, 2))


def _direction(rest: Tensor, excess: Tensor, bound: Tensor, reach: Tensor) -> Tensor:
    """Compute Newton's direction for the columns, ``[B, 1, m]``.

    Entries within ``reach`` of the support count as its own. Else, next to a permutation, where a cycle of them is in
    turn pushed below 0 and drawn above it, the steps would shrink by some constant factor only. Any direction from here
    is one of descent, whatever the support is taken for.

    Columns joined by the support can move together at no cost. Where they hold too little for their number, they go
    down together, and where too much, up, until they meet an entry outside.
    """
    support = rest > -reach[:, None, None]
    laplacian, joined, adrift = column_laplacian(support, ~bound)
    together = joined * (adrift / joined.sum(2, keepdim=True))
    factor = torch.linalg.cholesky_ex(laplacian + together)[0]
    direction = torch.cholesky_solve(excess.mT, factor).mT
    surplus = (together @ excess.mT).mT
    unbalanced = surplus.abs() > 1e-9
    if not bool(unbalanced.any()):
        return direction
    inside = support.to(rest.dtype) @ joined > 0  # [B, n, m]: row i hangs together with column j
    outside = torch.where(inside, -math.inf, rest)
    below = torch.where(joined > 0, outside.amax(1, keepdim=True), -math.inf).amax(2)[:, None]
    above = torch.where(inside, outside.amax(2, keepdim=True), -math.inf).amax(1, keepdim=True)
    gap = torch.where(surplus < 0, below, above).neg().clamp(min=0)
    return direction + torch.where(unbalanced & gap.isfinite(), surplus.sign() * gap, 0.0)
