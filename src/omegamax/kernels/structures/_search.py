"""Search for SparseMAP's active set, a batch of rows at once: structures in use, their overlaps and weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._numerics import summable
from omegamax.kernels.structures._hull import cholesky, close_step, overlaps
from omegamax.kernels.structures._ties import complete
from omegamax.kernels.structures.oracles import Oracle

NO_WEIGHT = 1e-14  # a weight that rounding cannot tell from zero
NO_DISTANCE = 1e-10  # a squared distance from the affine hull, relative, that it cannot tell from zero
PATIENCE = 64  # calls of the oracle after which a search counts as long
SHARE = 0.25  # of the present slope, in what the oracle is asked in a long search
LEAN = 2.0**-26  # perturbation that decides between structures that tie, relative to the slope


class Search:
    """Rows that are being solved. Slots of a row are used in any order; ``used`` says which are."""

    def __init__(self, oracle: Oracle, scores: Tensor, additional: Tensor, tol: float, max_tied: int):
        self.oracle, self.tol, self.max_tied = oracle, tol, max_tied
        self.given = summable(scores), summable(additional)
        self.forbidden = tuple(a == -math.inf for a in self.given)
        # Where no structure may go, the score must not turn 0 * inf into NaN.
        self.scores, self.additional = (a.masked_fill(b, 0.0) for a, b in zip(self.given, self.forbidden, strict=True))
        rows = len(scores)
        self.invalid = _is_invalid(scores) | _is_invalid(additional)
        self.residual = scores.new_zeros(rows).masked_fill(self.invalid, math.nan)
        self.iterations = torch.zeros(rows, dtype=torch.int64, device=scores.device)
        # The structure taken in last, until the weights were solved for with it.
        self.newest = torch.full_like(self.iterations, -1)
        self.calls = torch.zeros_like(self.iterations)
        scattered = 1e4 * torch.arange(1, scores.shape[1] + 1, dtype=scores.dtype, device=scores.device).sin()
        self.lean = scattered - scattered.floor() - 0.5  # as in cpp/active_set.h
        self.bound, self.near = torch.full_like(self.residual, math.inf), torch.zeros_like(scores)

    def begin(self, start: tuple[Tensor, Tensor, Tensor] | None) -> None:
        """Take over unary parts, additional parts and weights, where they are allowed; else the best structure."""
        (rows, size), count = self.scores.shape, self.additional.shape[1]
        room = 8 if start is None else max(8, start[2].shape[1])
        self.unary = self.scores.new_zeros(rows, room, size)
        self.parts = self.scores.new_zeros(rows, room, count)
        self.gram = self.scores.new_zeros(rows, room, room)
        self.weights = self.scores.new_zeros(rows, room)
        self.used = torch.zeros_like(self.weights, dtype=torch.bool)
        fine = ~self.invalid
        if start is not None:
            unary, parts, weights = start
            if unary.shape != (rows, weights.shape[1], size) or parts.shape != (*weights.shape, count):
                raise ValueError(
                    f"active_set: start has structures of shape {tuple(unary.shape)}, with additional parts "
                    f"{tuple(parts.shape)}, which do not fit scores of shape {(rows, size)} and {(rows, count)}"
                )
            touches = _touch(unary, self.forbidden[0][:, None]) | _touch(parts, self.forbidden[1][:, None])
            warm = (fine & (weights > 0).any(-1) & ~touches.any(-1)).nonzero()[:, 0]
            fine = fine.index_fill(0, warm, False)
            slots = weights.shape[1]
            self.unary[warm, :slots], self.parts[warm, :slots] = unary[warm], parts[warm]
            self.weights[warm, :slots], self.used[warm, :slots] = weights[warm], weights[warm] > 0
            self.gram[warm] = self.unary[warm] @ self.unary[warm].mT
        cold = fine.nonzero()[:, 0]
        if len(cold):
            unary, parts = self.oracle(self.given[0][cold], self.given[1][cold])
            none = self.find_missing(cold, unary, parts)
            self.residual[cold[none]] = math.inf
            cold, unary, parts = cold[~none], unary[~none], parts[~none]
            self.unary[cold, 0], self.parts[cold, 0] = unary, parts
            self.gram[cold, 0, 0] = unary.square().sum(-1)
            self.weights[cold, 0] = 1.0
            self.used[cold, 0] = True
        self.live = self.used.any(-1).nonzero()[:, 0]

    def resume(self, unary: Tensor, parts: Tensor, weights: Tensor, count: Tensor, converged: Tensor) -> None:
        """Take over the result of a search, and take in all structures that tie in the rows that ``converged``."""
        self.unary, self.parts, self.weights = unary.clone(), parts.clone(), weights.clone()
        self.gram = unary @ unary.mT
        self.used = torch.arange(weights.shape[1], device=count.device) < count[:, None]
        self.live = count.new_zeros(0)
        complete(self, (self.used.any(-1) & converged).nonzero()[:, 0])

    def find_missing(self, rows: Tensor, unary: Tensor, parts: Tensor) -> Tensor:
        """Tell for which rows the oracle found nothing that is allowed."""
        touches = _touch(unary, self.forbidden[0][rows]) | _touch(parts, self.forbidden[1][rows])
        return touches | unary.isnan().any(-1)

    def advance(self) -> bool:
        """Make one pass over the rows that are not solved; return whether there were any."""
        rows = self.live
        if not len(rows):
            return False
        self.iterations[rows] += 1
        anchor, factor, target = self.solve(rows)
        used, newest = self.used[rows], self.newest[rows]
        short = used & (target <= NO_WEIGHT)
        # What was taken in last gains, so that its weight grows, were it not for rounding: nothing is left to gain.
        futile = (newest >= 0) & short.gather(1, newest.clamp(min=0)[:, None])[:, 0]
        self.used[rows[futile], newest[futile]] = False
        self.newest[rows] = -1
        there = ~short.any(-1)
        back = ~there & ~futile
        self._retreat(rows[back], target[back], short[back])
        self.weights[rows[there]] = torch.where(used[there], target[there], 0.0)
        done = self._extend(rows[there], anchor[there], factor[there])
        self.live = rows[~torch.isin(rows, torch.cat([rows[futile], done]))]
        return True

    def measure_from(self, rows: Tensor, anchor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return structures measured from the anchor, and the mixtures: what all share drops out, or is exact."""
        base, base_parts = self.unary[rows, anchor], self.parts[rows, anchor]
        unary, parts = self.unary[rows] - base[:, None], self.parts[rows] - base_parts[:, None]
        weights = self.weights[rows][:, None]
        return unary, parts, base + (weights @ unary)[:, 0], base_parts + (weights @ parts)[:, 0]

    def solve(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the anchor, the Cholesky factor of the others' overlaps, and the best weights of either sign."""
        used, weights = self.used[rows], self.weights[rows]
        anchor = weights.argmax(-1)
        others = used.scatter(1, anchor[:, None], False)
        factor = cholesky(overlaps(self.gram[rows], others, anchor))
        unary, parts, mixture, _ = self.measure_from(rows, anchor)
        gain = unary @ (self.scores[rows] - mixture)[..., None] + parts @ self.additional[rows][..., None]
        step = torch.cholesky_solve(torch.where(others[..., None], gain, 0.0), factor)[..., 0]
        return anchor, factor, weights + close_step(step, anchor)

    def _retreat(self, rows: Tensor, target: Tensor, short: Tensor) -> None:
        """Move towards the target until the first weight is zero: that structure leaves the set."""
        if not len(rows):
            return
        weights = self.weights[rows]
        fall = (weights - target).clamp(min=torch.finfo(weights.dtype).tiny)
        length, first = torch.where(short, weights / fall, math.inf).min(-1)
        weights = weights + length.clamp(max=1)[:, None] * (target - weights)
        gone = (short & (weights <= NO_WEIGHT)).scatter(1, first[:, None], True)
        used = self.used[rows] & ~gone
        weights = torch.where(used, weights, 0.0)
        self.used[rows] = used
        self.weights[rows] = weights / weights.sum(-1, keepdim=True)

    def _extend(self, rows: Tensor, anchor: Tensor, factor: Tensor) -> Tensor:
        """Take in the best structure of each row; return the rows in which it gains nothing."""
        if not len(rows):
            return rows
        unary, _, mixture, mixture_parts = self.measure_from(rows, anchor)
        slope = self.given[0][rows] - mixture
        # Slopes are equal wherever weights can still be exchanged, and so many structures are equally good. A lean that
        # is always the same decides between them, not rounding, lest the least change of the scores change the result.
        by = LEAN * slope.nan_to_num(neginf=0.0).abs().amax(-1, keepdim=True).clamp(min=1)
        new, new_parts = self._ask(rows, self._query(rows, slope) + by * self.lean)
        gain, done = self.gain(rows, new, new_parts, mixture, mixture_parts)
        again = (done | (gain <= 4 * by[:, 0] * new.abs().sum(-1))).nonzero()[:, 0]
        if len(again):
            part = rows[again]
            new[again], new_parts[again] = self._ask(part, slope[again])
            gain[again], done[again] = self.gain(
                part, new[again], new_parts[again], mixture[again], mixture_parts[again]
            )
        self.residual[rows] = gain.clamp(min=0)
        more = (~done).nonzero()[:, 0]
        if len(more):
            grown, measured = rows[more], anchor[more]
            reach = new[more] - self.unary[grown, measured]
            toward = (unary[more] @ reach[..., None])[..., 0]
            weight = self._make_room(grown, measured, factor[more], toward, reach.square().sum(-1))
            self.take_in(grown, new[more], new_parts[more], weight)
        return rows[done]

    def gain(
        self, rows: Tensor, new: Tensor, new_parts: Tensor, mixture: Tensor, mixture_parts: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return what structures gain over the mixtures, and whether that is nothing."""
        ahead = (new - mixture) * (self.scores[rows] - mixture)
        ahead_parts = (new_parts - mixture_parts) * self.additional[rows]
        gain = ahead.sum(-1) + ahead_parts.sum(-1)
        scale = 1 + ahead.abs().sum(-1) + ahead_parts.abs().sum(-1)
        known = (self.unary[rows] == new[:, None]).all(-1) & (self.parts[rows] == new_parts[:, None]).all(-1)
        known = (known & self.used[rows]).any(-1)
        return gain, (gain <= self.tol * scale) | known | self.find_missing(rows, new, new_parts)

    def _query(self, rows: Tensor, slope: Tensor) -> Tensor:
        """Return the scores to ask the oracle with: the slope, or in a long search one near that of the least bound.

        With additional scores that are small next to the regulariser the problem is close to a linear program, and
        slopes swing. The bound is ``1/2 ||eta - w||^2 + max over structures of <m, w> + <n, eta_v>``, at least the
        objective whatever ``w``. Wentges, International Transactions in Operational Research 4 (1997).
        """
        long = self.calls[rows] >= PATIENCE if self.additional.shape[1] else None
        if long is None or not bool(long.any()):
            return slope
        near = self.near[rows]
        between = (near + SHARE * (slope - near)).masked_fill(self.forbidden[0][rows], -math.inf)
        return torch.where((long & self.bound[rows].isfinite())[:, None], between, slope)

    def _ask(self, rows: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """Ask for the best structure at a slope, and remember the bound that it gives."""
        new, parts = self.oracle(query, self.given[1][rows])
        self.calls[rows] += 1
        if bool((self.calls[rows] >= PATIENCE).any()):
            at = query.masked_fill(self.forbidden[0][rows], 0.0)
            bound = (new * at).sum(-1) + (parts * self.additional[rows]).sum(-1)
            bound = bound + 0.5 * (self.scores[rows] - at).square().sum(-1)
            less = bound < self.bound[rows]
            self.bound[rows[less]], self.near[rows[less]] = bound[less], query[less]
        return new, parts

    def _make_room(self, rows: Tensor, anchor: Tensor, factor: Tensor, toward: Tensor, length: Tensor) -> Tensor:
        """Return the weight a structure starts with: zero, unless it lies in the hull and so replaces another."""
        share, twin = self._shares(rows, anchor, factor, toward, length)
        if not bool(twin.any()):
            return torch.zeros_like(length)
        # It is the mixture of the others by these shares: along this null vector the unary marginals stand still, while
        # the additional scores gain, until the first of the others is used up.
        fall = close_step(share, anchor).scatter_add(1, anchor[:, None], torch.ones_like(length)[:, None])
        weights, used = self.weights[rows], self.used[rows]
        step, first = torch.where(used & (fall > NO_WEIGHT), weights / fall, math.inf).min(-1)
        step = torch.where(twin, step, 0.0)
        used = used & ~(torch.zeros_like(used).scatter(1, first[:, None], True) & twin[:, None])
        self.weights[rows] = torch.where(used, weights - step[:, None] * fall, 0.0).clamp(min=0)
        self.used[rows] = used
        return step

    def _shares(
        self, rows: Tensor, anchor: Tensor, factor: Tensor, toward: Tensor, length: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the shares of the others in the point of their hull nearest to a structure, and whether that is it."""
        others = self.used[rows].scatter(1, anchor[:, None], False)
        toward = torch.where(others, toward, 0.0)
        share = torch.cholesky_solve(toward[..., None], factor)[..., 0]
        return share, length - (share * toward).sum(-1) <= NO_DISTANCE * (1 + length)

    def is_apart(self, rows: Tensor, anchor: Tensor, factor: Tensor, toward: Tensor, length: Tensor) -> Tensor:
        """Tell whether structures lie outside the hull; ``toward`` and ``length`` measure them from the anchor."""
        return ~self._shares(rows, anchor, factor, toward, length)[1]

    def take_in(self, rows: Tensor, new: Tensor, new_parts: Tensor, weight: Tensor) -> None:
        if bool(self.used[rows].all(-1).any()):
            more, pad = self.weights.shape[1], torch.nn.functional.pad
            self.unary, self.parts = pad(self.unary, (0, 0, 0, more)), pad(self.parts, (0, 0, 0, more))
            self.gram = pad(self.gram, (0, more, 0, more))
            self.weights, self.used = pad(self.weights, (0, more)), pad(self.used, (0, more))
        slot = self.used[rows].to(torch.int8).argmin(-1)
        self.unary[rows, slot], self.parts[rows, slot] = new, new_parts
        overlap = (self.unary[rows] @ new[..., None])[..., 0]
        self.gram[rows, slot, :] = overlap
        self.gram[rows, :, slot] = overlap
        self.weights[rows, slot] = weight
        self.used[rows, slot] = True
        self.newest[rows] = torch.where(weight > 0, -1, slot)

    def finish(self) -> None:
        """Refine the weights once more, and take in structures that tie."""
        rows = self.used.any(-1).nonzero()[:, 0]
        if len(rows):
            *_, target = self.solve(rows)
            used = self.used[rows]
            fine = ((target > 0) | ~used).all(-1) & target.isfinite().all(-1)
            self.weights[rows[fine]] = target[fine]
            complete(self, rows[~torch.isin(rows, self.live)])

    def result(self, max_iter: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return unary parts, additional parts, weights, count, iterations and residual; heaviest structures first."""
        self.weights = torch.where(self.used, self.weights, 0.0)
        # A row that ends in its very last pass has converged all the same.
        self.iterations = self.iterations.clamp(max=max_iter - 1)
        self.iterations[self.live] = max_iter
        count = self.used.sum(-1)
        width = max(1, int(count.max())) if len(count) else 1
        order = torch.where(self.used, self.weights, -1.0).argsort(dim=-1, descending=True, stable=True)[:, :width]
        kept = self.used.gather(1, order)[..., None]
        unary, parts = (
            torch.where(kept, a.gather(1, order[..., None].expand(-1, -1, a.shape[2])), 0.0)
            for a in (self.unary, self.parts)
        )
        return unary, parts, self.weights.gather(1, order), count, self.iterations, self.residual


def _is_invalid(scores: Tensor) -> Tensor:
    return (scores.isnan() | (scores == math.inf)).any(-1)


def _touch(parts: Tensor, forbidden: Tensor) -> Tensor:
    return ((parts != 0) & forbidden).any(-1)
