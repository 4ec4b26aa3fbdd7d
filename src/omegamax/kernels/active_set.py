"""SparseMAP over any set of structures that a maximum can be taken over: an active set of them, rows in a batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.kernels import oracles

OPS = ("active_set",)

Parts = tuple[Tensor, Tensor]
Oracle = Callable[[Tensor, Tensor], Parts]

TOLERANCE = 1e-13
# A weight that rounding cannot tell from zero, and a distance from the affine hull that it cannot either.
NO_WEIGHT = 1e-14
NO_DISTANCE = 1e-10


def iteration_limit(size: int) -> int:
    """Iterations to allow for structures of ``size`` parts: several times what flat scores, the worst case, need."""
    return 1000 + 10 * size


@dataclass
class ActiveSet:
    """Sparse distributions over structures, one a row; beyond ``count`` everything is zero.

    A row with NaN or ``+inf`` among its scores has no structures and residual NaN, one without any structure left has
    none and residual ``inf``. A row that did not converge has used all the iterations it was allowed.
    """

    unary: Tensor  # [B, A, n]
    additional: Tensor  # [B, A, m]
    weights: Tensor  # [B, A]
    count: Tensor  # [B], int64
    iterations: Tensor  # [B], int64
    residual: Tensor  # [B]: what the best structure would still gain


def active_set(
    scores: Tensor,
    additional: Tensor,
    kind: str,
    sizes: tuple[int, ...],
    graph: Tensor | None,
    start: ActiveSet | None,
    tol: float,
    max_iter: int,
) -> ActiveSet:
    """:func:`search` with the oracle of a built-in ``kind``."""
    return search(oracles.oracle(kind, sizes, graph), scores, additional, start, tol, max_iter)


def search(
    oracle: Oracle, scores: Tensor, additional: Tensor, start: ActiveSet | None, tol: float, max_iter: int
) -> ActiveSet:
    r"""The sparse distribution over structures that defines SparseMAP, exactly.

    .. math:: \max_{\xi \in \Delta} \langle M \xi, \eta_u \rangle + \langle N \xi, \eta_v \rangle
              - \tfrac12 \lVert M \xi \rVert^2

    The structures in use are kept affinely independent, with positive weights. Each pass solves for the weights that
    are best without their sign; where one turns negative it stops at the boundary and lets that structure go, elsewhere
    it asks the oracle for the best structure at the gradient ``(eta_u - M xi, eta_v)`` and takes it in. The objective
    grows with every structure taken in, so that no set comes twice: the search is finite.

    Args:
        oracle: ``(scores [B, n], additional [B, m]) -> (unary [B, n], additional [B, m])``, the parts of a structure of
            largest score; rows are independent, and their number changes from call to call.
        scores: ``[B, n]``, float64; ``-inf`` forbids a part.
        additional: ``[B, m]``, float64, likewise; not regularised.
        start: distributions to start from, such as those found for similar scores.
        tol: a structure that gains less, relative to the scores in which it differs, is left out.
        max_iter: passes allowed.

    Reference: Niculae et al. (ICML 2018), Sec. 3.2 and App. B; Wolfe, Mathematical Programming 11 (1976).
    """
    work = _Search(oracle, scores, additional, start, tol)
    for _ in range(max_iter):
        if not work.advance():
            break
    return work.result(max_iter)


class _Search:
    """Rows under way. Slots of a row are used in any order; ``used`` says which are."""

    def __init__(self, oracle: Oracle, scores: Tensor, additional: Tensor, start: ActiveSet | None, tol: float):
        self.oracle, self.tol = oracle, tol
        rows, size = scores.shape
        self.given = scores, additional
        spoilt = _spoilt(scores) | _spoilt(additional)
        # Where no structure may go, the score must not turn 0 * inf into NaN.
        self.scores, self.additional = (torch.where(a == -math.inf, 0.0, a) for a in self.given)
        self.forbidden = tuple(a == -math.inf for a in self.given)
        self.residual = torch.where(spoilt, math.nan, scores.new_zeros(rows))
        self.iterations = torch.zeros(rows, dtype=torch.int64, device=scores.device)
        room = 8 if start is None else max(8, start.weights.shape[1])
        self.unary = scores.new_zeros(rows, room, size)
        self.parts = scores.new_zeros(rows, room, additional.shape[1])
        self.gram = scores.new_zeros(rows, room, room)
        self.weights = scores.new_zeros(rows, room)
        self.used = torch.zeros(rows, room, dtype=torch.bool, device=scores.device)
        # The structure taken in last, until the weights were solved for with it.
        self.fresh = torch.full((rows,), -1, device=scores.device)
        live = (~spoilt).nonzero()[:, 0]
        if start is not None:
            live = self._warm(live, start)
        self.live = self._cold(live)

    def _warm(self, live: Tensor, start: ActiveSet) -> Tensor:
        """Take over what is still allowed; return the rows that start from nothing."""
        touches = _touches(start.unary, self.forbidden[0][:, None]) | _touches(
            start.additional, self.forbidden[1][:, None]
        )
        usable = (start.count > 0) & ~touches.any(-1) & self.residual.isfinite()
        rows, slots = usable.nonzero()[:, 0], start.weights.shape[1]
        self.unary[rows, :slots] = start.unary[rows]
        self.parts[rows, :slots] = start.additional[rows]
        self.weights[rows, :slots] = start.weights[rows]
        self.used[rows, :slots] = start.weights[rows] > 0
        self.gram[rows] = self.unary[rows] @ self.unary[rows].mT
        return live[~usable[live]]

    def _cold(self, rows: Tensor) -> Tensor:
        """Begin with the best structure; return the rows, of all, that are under way."""
        if len(rows):
            unary, parts = self.oracle(self.given[0][rows], self.given[1][rows])
            none = self._missing(rows, unary, parts)
            self.residual[rows[none]] = math.inf
            rows, unary, parts = rows[~none], unary[~none], parts[~none]
            self.unary[rows, 0], self.parts[rows, 0] = unary, parts
            self.gram[rows, 0, 0] = unary.square().sum(-1)
            self.weights[rows, 0] = 1.0
            self.used[rows, 0] = True
        return self.used.any(-1).nonzero()[:, 0]

    def _missing(self, rows: Tensor, unary: Tensor, parts: Tensor) -> Tensor:
        """Rows for which the oracle found nothing that is allowed."""
        touches = _touches(unary, self.forbidden[0][rows]) | _touches(parts, self.forbidden[1][rows])
        return touches | unary.isnan().any(-1)

    def advance(self) -> bool:
        """One pass over the rows under way; whether any is left."""
        if not len(self.live):
            return False
        rows = self.live
        self.iterations[rows] += 1
        anchor, factor, target = self._solve(rows)
        used = self.used[rows]
        short = used & (target <= NO_WEIGHT)
        # What was taken in last gains, so that its weight grows, were it not for rounding: nothing is left to gain.
        fresh = self.fresh[rows]
        futile = (fresh >= 0) & short.gather(1, fresh.clamp(min=0)[:, None])[:, 0]
        self.used[rows[futile], fresh[futile]] = False
        self.fresh[rows] = -1
        back = short.any(-1) & ~futile
        self._retreat(rows[back], target[back], short[back])
        there = ~short.any(-1)
        self.weights[rows[there]] = torch.where(used[there], target[there], 0.0)
        done = self._extend(rows[there], anchor[there], factor[there])
        finished = torch.cat([rows[futile], done])
        self.live = rows[~torch.isin(rows, finished)]
        return True

    def _solve(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The slot measured from, the Cholesky factor of the others' overlaps, and the best weights without sign."""
        used, weights = self.used[rows], self.weights[rows]
        anchor = weights.argmax(-1)
        gram, others = _overlaps(self.gram[rows], used, anchor)
        factor = _cholesky(gram)
        slope = torch.where(others, self._slopes(rows, anchor), 0.0)
        step = torch.cholesky_solve(slope[..., None], factor)[..., 0]
        return anchor, factor, weights + _closed(step, anchor)

    def _slopes(self, rows: Tensor, anchor: Tensor) -> Tensor:
        """What each structure gains over the anchor at the present mixture, ``[b, A]``."""
        at = torch.arange(len(rows), device=rows.device)
        unary, parts = self.unary[rows], self.parts[rows]
        # Differences: what all structures share drops out, however large its score.
        unary, parts = unary - unary[at, anchor][:, None], parts - parts[at, anchor][:, None]
        mixture = self.unary[rows, anchor] + _mix(self.weights[rows], unary)
        gain = unary @ (self.scores[rows] - mixture)[..., None] + parts @ self.additional[rows][..., None]
        return gain[..., 0]

    def _retreat(self, rows: Tensor, target: Tensor, short: Tensor) -> None:
        """Towards the target until the first weight is gone, which leaves the set."""
        if not len(rows):
            return
        weights = self.weights[rows]
        fall = (weights - target).clamp(min=torch.finfo(weights.dtype).tiny)
        share = torch.where(short, weights / fall, math.inf)
        length, first = share.min(-1)
        weights = weights + length.clamp(max=1)[:, None] * (target - weights)
        gone = short & (weights <= NO_WEIGHT)
        gone[torch.arange(len(rows), device=rows.device), first] = True
        self._drop(rows, weights, gone)

    def _drop(self, rows: Tensor, weights: Tensor, gone: Tensor) -> None:
        used = self.used[rows] & ~gone
        weights = torch.where(used, weights, 0.0)
        self.used[rows] = used
        self.weights[rows] = weights / weights.sum(-1, keepdim=True)

    def _extend(self, rows: Tensor, anchor: Tensor, factor: Tensor) -> Tensor:
        """Take in the best structure of each row; return the rows in which it gains nothing."""
        if not len(rows):
            return rows
        weights = self.weights[rows]
        base, base_parts = self.unary[rows, anchor], self.parts[rows, anchor]
        unary, parts = self.unary[rows] - base[:, None], self.parts[rows] - base_parts[:, None]
        mixture, mixture_parts = base + _mix(weights, unary), base_parts + _mix(weights, parts)
        slope = self.scores[rows] - mixture
        new, new_parts = self.oracle(self.given[0][rows] - mixture, self.given[1][rows])
        ahead = (new - mixture) * slope
        ahead_parts = (new_parts - mixture_parts) * self.additional[rows]
        gain = ahead.sum(-1) + ahead_parts.sum(-1)
        scale = 1 + ahead.abs().sum(-1) + ahead_parts.abs().sum(-1)
        known = (self.unary[rows] == new[:, None]).all(-1) & (self.parts[rows] == new_parts[:, None]).all(-1)
        bad = self._missing(rows, new, new_parts)
        done = (gain <= self.tol * scale) | (known & self.used[rows]).any(-1) | bad
        self.residual[rows] = gain.clamp(min=0)
        more = ~done
        if more.any():
            toward = (unary @ (new - base)[..., None])[..., 0]
            self._take_in(
                rows[more], anchor[more], factor[more], new[more], new_parts[more], toward[more], (new - base)[more]
            )
        return rows[done]

    def _take_in(
        self,
        rows: Tensor,
        anchor: Tensor,
        factor: Tensor,
        new: Tensor,
        new_parts: Tensor,
        toward: Tensor,
        reach: Tensor,
    ) -> None:
        """Give the structure a slot; one that is no news to the unary parts takes the place of another."""
        others = self.used[rows].scatter(1, anchor[:, None], False)
        share = torch.cholesky_solve(torch.where(others, toward, 0.0)[..., None], factor)[..., 0]
        length = reach.square().sum(-1)
        distance = length - (share * toward).sum(-1)
        twin = distance <= NO_DISTANCE * (1 + length)
        weight = torch.zeros_like(length)
        if twin.any():
            # Along the null vector the unary marginals stand still while the additional scores gain.
            weights = self.weights[rows]
            fall = torch.where(self.used[rows], _closed(share, anchor), 0.0)
            fall = fall.scatter_add(1, anchor[:, None], torch.ones_like(length)[:, None])
            limit = torch.where(fall > NO_WEIGHT, weights / fall, math.inf)
            step, first = limit.min(-1)
            gone = torch.zeros_like(others).scatter(1, first[:, None], True)
            weight = torch.where(twin, step, 0.0)
            weights = weights - weight[:, None] * fall
            used = self.used[rows] & ~(gone & twin[:, None])
            self.weights[rows] = torch.where(used, weights, 0.0).clamp(min=0)
            self.used[rows] = used
        if bool(self.used[rows].all(-1).any()):
            self._grow()
        slot = self.used[rows].to(torch.int8).argmin(-1)
        self.unary[rows, slot], self.parts[rows, slot] = new, new_parts
        overlap = (self.unary[rows] @ new[..., None])[..., 0]
        self.gram[rows, slot, :] = overlap
        self.gram[rows, :, slot] = overlap
        self.weights[rows, slot] = weight
        self.used[rows, slot] = True
        self.fresh[rows] = torch.where(twin, -1, slot)

    def _grow(self) -> None:
        more = self.weights.shape[1]
        pad = torch.nn.functional.pad
        self.unary, self.parts = pad(self.unary, (0, 0, 0, more)), pad(self.parts, (0, 0, 0, more))
        self.gram = pad(self.gram, (0, more, 0, more))
        self.weights, self.used = pad(self.weights, (0, more)), pad(self.used, (0, more))

    def result(self, max_iter: int) -> ActiveSet:
        """The distributions, heaviest structures first, their weights refined once more."""
        rows = self.used.any(-1).nonzero()[:, 0]
        if len(rows):
            *_, target = self._solve(rows)
            used = self.used[rows]
            fine = ((target > 0) | ~used).all(-1) & target.isfinite().all(-1)
            self.weights[rows[fine]] = torch.where(used, target, 0.0)[fine]
        # A row that ends in its very last pass has converged all the same.
        self.iterations = self.iterations.clamp(max=max_iter - 1)
        self.iterations[self.live] = max_iter
        self.weights = torch.where(self.used, self.weights, 0.0)
        count = self.used.sum(-1)
        width = max(1, int(count.max())) if len(count) else 1
        order = torch.where(self.used, self.weights, -1.0).argsort(dim=-1, descending=True, stable=True)[:, :width]
        kept = self.used.gather(1, order)[..., None]
        unary, parts = (
            torch.where(kept, a.gather(1, order[..., None].expand(-1, -1, a.shape[2])), 0.0)
            for a in (self.unary, self.parts)
        )
        return ActiveSet(unary, parts, self.weights.gather(1, order), count, self.iterations, self.residual)


def _mix(weights: Tensor, unary: Tensor) -> Tensor:
    return (weights[:, None] @ unary)[:, 0]


def _spoilt(scores: Tensor) -> Tensor:
    return (scores.isnan() | (scores == math.inf)).any(-1)


def _touches(parts: Tensor, forbidden: Tensor) -> Tensor:
    return ((parts != 0) & forbidden).any(-1)


def _closed(step: Tensor, anchor: Tensor) -> Tensor:
    """Steps of the others, and of the anchor such that they sum to zero."""
    return step.scatter_add(1, anchor[:, None], -step.sum(-1, keepdim=True))


def _overlaps(gram: Tensor, used: Tensor, anchor: Tensor) -> tuple[Tensor, Tensor]:
    """Inner products of the differences from the anchor, identity in slots that are not in use; which slots are."""
    at = torch.arange(len(gram), device=gram.device)
    others = used.scatter(1, anchor[:, None], False)
    row = gram[at, anchor]
    moved = gram - row[:, None] - row[..., None] + row[at, anchor][:, None, None]
    both = others[:, None] & others[..., None]
    return torch.where(both, moved, 0.0) + torch.diag_embed((~others).to(gram.dtype)), others


def _cholesky(gram: Tensor) -> Tensor:
    factor, failed = torch.linalg.cholesky_ex(gram)
    if bool(failed.any()):
        # Dependent after all, by rounding: a slight ridge, whose error later passes take out again.
        size = gram.diagonal(dim1=-2, dim2=-1).amax(-1)[:, None, None]
        ridge = 1e-9 * size * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        factor = torch.where((failed > 0)[:, None, None], torch.linalg.cholesky_ex(gram + ridge)[0], factor)
    return factor
