"""Solve SparseMAP in plain torch, over any set of structures that a maximum can be taken over, by an active set."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from omegamax._torch_internals import DisableTransforms
from omegamax._warnings import warn_of_limit
from omegamax.kernels.structures import oracles
from omegamax.kernels.structures._search import Search
from omegamax.kernels.structures._ties import MAX_TIED
from omegamax.kernels.structures.matching import matching as matching
from omegamax.kernels.structures.matching_jacobian import matching_vjp as matching_vjp
from omegamax.kernels.structures.oracles import Oracle

TOLERANCE = 1e-14  # of a structure's gain, relative to the scores in which it differs


def iteration_limit(size: int) -> int:
    """Return how many iterations to allow for structures of ``size`` parts: several times what flat scores need."""
    return 2000 + 20 * size


@dataclass
class ActiveSet:
    """Sparse distributions over structures, one a row, heaviest first; beyond ``count`` everything is zero.

    Structures without weight tie with the others: together they span the face on which the marginals can move.
    A row with NaN or ``+inf`` among its scores has no structures and residual NaN, one without any structure left has
    none and residual ``inf``. A row that did not converge has used all the iterations it was allowed.
    """

    unary: Tensor  # [B, A, n]
    additional: Tensor  # [B, A, m]
    weights: Tensor  # [B, A]
    count: Tensor  # [B], int64
    iterations: Tensor  # [B], int64
    residual: Tensor  # [B]: what the best structure would still gain

    def __post_init__(self) -> None:
        # Where the search stopped at MAX_TIED structures: how to go on from there.
        self.go_on: Callable[[ActiveSet], ActiveSet] | None = None

    @cached_property
    def marginals(self) -> Tensor:
        """Compute the expected unary parts, ``[B, n]``; NaN in rows whose scores were."""
        return self._expect(self.unary)

    @cached_property
    def additional_marginals(self) -> Tensor:
        """Compute the expected additional parts, ``[B, m]``, likewise."""
        return self._expect(self.additional)

    def _expect(self, parts: Tensor) -> Tensor:
        first = parts[:, :1].sum(1)
        # Differences: where all structures agree, exactly what they say; elsewhere, nothing beyond what they span.
        apart = torch.where((self.weights > 0)[..., None], parts - first[:, None], 0.0)
        low, high = (first + getattr(torch.nn.functional.pad(apart, (0, 0, 0, 1)), end)(1) for end in ("amin", "amax"))
        mean = (first + (self.weights[:, None] @ apart)[:, 0]).clamp(low, high)
        return mean.masked_fill(self.residual.isnan()[:, None], math.nan)

    @cached_property
    def overlaps(self) -> Tensor:
        """Compute inner products of the unary parts of any two structures, ``[B, A, A]``."""
        return self.unary @ self.unary.mT

    def face_basis(self) -> Tensor | None:
        """Return what :attr:`ActiveSetJacobian.basis` is, where it need not be computed in plain torch."""
        return None

    def span_face(self) -> ActiveSet:
        """Return the same distributions, with all the structures without weight that it takes to span the face."""
        if self.go_on is None:
            return self
        # Inside a transform of torch.func, too, it is a search over plain values.
        with torch.no_grad(), DisableTransforms():
            return self.go_on(self)

    def totals(self, scores: Tensor, additional: Tensor | None = None) -> Tensor:
        """Compute what each structure scores, ``[B, A]``; differentiable."""
        total = self.unary @ scores[..., None]
        return (total if additional is None else total + self.additional @ additional[..., None])[..., 0]

    def mixture(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Mix unary and additional parts by other weights, ``[B, n]`` and ``[B, m]``; differentiable."""
        return (weights[:, None] @ self.unary)[:, 0], (weights[:, None] @ self.additional)[:, 0]


def warn_unless_converged(name: str, active: ActiveSet, limit: int) -> None:
    """Say how much a better structure would gain, where the search of function ``name`` was stopped by its limit."""
    short = active.iterations >= limit
    if bool(short.any()):
        warn_of_limit(
            f"{name}: {int(short.sum())} of {len(short)} problems stopped after {limit} iterations; the best structure "
            f"left out would gain up to {float(active.residual[short].max()):.3g}"
        )


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
    """Run :func:`search` with the oracle of a built-in ``kind``."""
    return search(oracles.oracle(kind, sizes, graph), scores, additional, start, tol, max_iter)


def search(
    oracle: Oracle, scores: Tensor, additional: Tensor, start: ActiveSet | None, tol: float, max_iter: int
) -> ActiveSet:
    r"""Find the sparse distribution over structures that defines SparseMAP, exactly.

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

    Reference: Niculae et al. (ICML 2018), Sec. 3; Wolfe, Mathematical Programming 11 (1976).
    """
    work = Search(oracle, scores, additional, tol, MAX_TIED)
    work.begin(None if start is None else (start.unary, start.additional, start.weights))
    for _ in range(max_iter):
        if not work.advance():
            break
    work.finish()
    found = ActiveSet(*work.result(max_iter))

    def go_on(found: ActiveSet) -> ActiveSet:
        work = Search(oracle, scores, additional, tol, max_tied=scores.shape[1] + additional.shape[1] + 2)
        work.resume(found.unary, found.additional, found.weights, found.count, found.iterations < max_iter)
        return ActiveSet(*work.result(max_iter))

    if len(scores) and int(found.count.max()) >= MAX_TIED:
        found.go_on = go_on
    return found
