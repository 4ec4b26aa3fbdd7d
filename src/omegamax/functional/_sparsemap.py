"""What a SparseMAP solution is to autograd: values, and the Jacobian of the face they lie on."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from omegamax._checks import is_plain
from omegamax._operation import needs_derivative
from omegamax._torch_internals import dispatch_mode_count
from omegamax._warnings import warn_of_limit
from omegamax.kernels._hull import cholesky, overlaps
from omegamax.kernels._untraced import untraced
from omegamax.kernels.active_set import ActiveSet

MANY = 256  # structures, beyond which the inverse of their overlaps is not written out


class Solution(ABC):
    """Marginals of a batch of SparseMAP problems, and how they move with the scores; holds no graph."""

    marginals: Tensor  # [B, *event]
    additional_marginals: Tensor | None  # [B, m]
    active: ActiveSet | None

    @abstractmethod
    def jvp(self, d_scores: Tensor, d_additional: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Changes of both marginals with changes of both scores. The Jacobian as a whole is symmetric: also the vjp."""


class ActiveSolution(Solution):
    r"""A solution known by its structures.

    With the structures of the support as columns of ``M`` (unary) and ``N`` (additional),
    :math:`d\xi = S (M^\top d\eta_u + N^\top d\eta_v)`, where S is the block of the inverse of the optimality conditions
    that belongs to the probabilities.

    Reference: Niculae et al. (ICML 2018), Sec. 3.
    """

    active: ActiveSet

    def __init__(self, active: ActiveSet, event: torch.Size | tuple[int, ...]):
        self.active, self.event = active, tuple(event)
        self.marginals = active.marginals.unflatten(-1, self.event)
        self.additional_marginals = active.additional_marginals

    @cached_property
    def spanned(self) -> ActiveSolution:
        """The same solution by as many structures as it takes to span the face, which are many for flat scores."""
        active = self.active.spanned()
        return self if active is self.active else ActiveSolution(active, self.event)

    @cached_property
    def _lower(self) -> tuple[Tensor, Tensor]:
        """The Cholesky factor of the overlaps measured from the first structure, and which others there are."""
        slots = self.active.weights.shape[1]
        used = torch.arange(slots, device=self.active.count.device) < self.active.count[:, None]
        if not slots:
            return self.active.weights.new_zeros(len(used), 0, 0), used
        first = torch.zeros_like(self.active.count)
        others = used.index_fill(1, first[:1], False)
        return cholesky(overlaps(self.active.overlaps, others, first))[:, 1:, 1:], others[:, 1:]

    @cached_property
    def half(self) -> Tensor:
        """H with ``S = H^T H``, ``[B, A - 1, A]``; its rows sum to zero, and it is zero where there is no structure."""
        lower, others = self._lower
        if not self.active.weights.shape[1]:
            return lower
        # The first structure takes what the others leave.
        eye = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
        closing = torch.cat([eye.new_full((len(eye), 1), -1.0), eye], 1) * others[..., None]
        return torch.linalg.solve_triangular(lower, closing, upper=False)

    @cached_property
    def basis(self) -> tuple[Tensor, Tensor]:
        """``H M^T [B, A - 1, n]``, whose rows are orthonormal or zero, and ``H N^T [B, A - 1, m]``."""
        return self.half @ self.active.unary, self.half @ self.active.additional

    def probability_jvp(self, d_scores: Tensor, d_additional: Tensor | None = None) -> Tensor:
        """Changes of the structures' probabilities, ``[B, A]``."""
        return self._respond(
            self.active.totals(d_scores.reshape(len(self.marginals), math.prod(self.event)), d_additional)
        )

    def _respond(self, gains: Tensor) -> Tensor:
        if self.active.weights.shape[1] <= MANY:
            return (self.half.mT @ (self.half @ gains[..., None]))[..., 0]
        lower, others = self._lower
        ahead = torch.where(others, gains[:, 1:] - gains[:, :1], 0.0)[..., None]
        inner = torch.linalg.solve_triangular(lower, ahead, upper=False)
        step = torch.where(others, torch.linalg.solve_triangular(lower.mT, inner, upper=True)[..., 0], 0.0)
        return torch.cat([-step.sum(-1, keepdim=True), step], -1)

    def probability_vjp(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients by both scores, given those by the structures' probabilities, ``[B, A]``."""
        return self._shaped(*self.active.mixture(self._respond(g)))

    def jvp(self, d_scores: Tensor, d_additional: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        face = self.spanned
        return self._shaped(*face.active.mixture(face.probability_jvp(d_scores, d_additional)))

    def _shaped(self, unary: Tensor, additional: Tensor) -> tuple[Tensor, Tensor]:
        return unary.reshape(self.marginals.shape), additional


@dataclass
class Call:
    """A solver, and once it was called its solution: of a flat batch, in which axes mapped over come first."""

    solve: Callable[[Tensor, Tensor | None], Solution]
    distribution: bool = False  # whether the structures' probabilities are wanted as well
    solution: Solution | None = None

    @untraced
    def __call__(self, scores: Tensor, additional: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Marginals ``[B, *event]`` and ``[B, m]`` and probabilities ``[B, A]`` as functions of the scores.

        Where there is no such thing, or it is not wanted, its last axis is empty.
        """
        given = (scores,) if additional is None else (scores, additional)
        if dispatch_mode_count() and get_proxy_mode() is not None:
            raise NotImplementedError(
                "sparsemap: its search depends on values, so that make_fx, linearize and torch.export cannot trace it; "
                "torch.func.jvp and vjp work, and torch.compile leaves it as it is"
            )
        if is_plain(*given) and not needs_derivative(*given):
            return self.run(scores, additional)
        return _Function.apply(scores, additional, self)

    def run(self, scores: Tensor, additional: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The values alone."""
        with torch.no_grad():
            self.solution = solution = self.solve(scores, additional)
            none = scores.new_zeros(len(scores), 0)
            parts = none if solution.additional_marginals is None else solution.additional_marginals
            weights = none
            if self.distribution:
                active = self.structures().active
                weights = active.weights.masked_fill(active.residual.isnan()[:, None], math.nan)
            return solution.marginals.clone(), parts.clone(), weights.clone()

    def structures(self) -> ActiveSolution:
        """The solution by its structures."""
        assert self.solution is not None and self.solution.active is not None
        if isinstance(self.solution, ActiveSolution):
            return self.solution
        return ActiveSolution(self.solution.active, self.solution.marginals.shape[1:])


class _Function(torch.autograd.Function):
    """The map is piecewise linear: its Jacobian is a constant of the solution."""

    @staticmethod
    def forward(scores, additional, call):
        return call.run(scores, additional)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.call = replace(inputs[2])  # a copy: the call may be made again, for other scores
        ctx.rows = len(inputs[0])
        ctx.extra = inputs[1] is not None
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g, g_parts, g_weights):
        solution = _own_solution(ctx)
        grads = [None, None]
        if g is not None or g_parts is not None:
            g = torch.zeros_like(solution.marginals) if g is None else g
            grads = list(solution.jvp(g, g_parts if ctx.extra else None))
        if g_weights is not None and ctx.call.distribution:
            more = ctx.call.structures().probability_vjp(g_weights)
            grads = [b if a is None else a + b for a, b in zip(grads, more, strict=True)]
        return grads[0], grads[1] if ctx.extra else None, None

    @staticmethod
    def jvp(ctx, d_scores, d_additional, _):
        solution = _own_solution(ctx)
        d_scores = torch.zeros_like(solution.marginals) if d_scores is None else d_scores
        moved, parts = solution.jvp(d_scores, d_additional)
        none = d_scores.new_zeros(len(d_scores), 0)
        weights = none
        if ctx.call.distribution:
            weights = ctx.call.structures().probability_jvp(d_scores, d_additional)
        return moved, none if parts is None else parts, weights

    @staticmethod
    def vmap(info, in_dims, scores, additional, call):
        front = [
            a if a is None else a.expand(info.batch_size, *a.shape) if d is None else a.movedim(d, 0)
            for a, d in zip((scores, additional), in_dims, strict=False)
        ]
        outputs = _Function.apply(*(a if a is None else a.flatten(0, 1) for a in front), call)
        shape = front[0].shape[:2]
        return tuple(a.reshape(*shape, *a.shape[1:]) for a in outputs), (0, 0, 0)


def _own_solution(ctx) -> Solution:
    solution = ctx.call.solution
    if len(solution.marginals) != ctx.rows:
        raise NotImplementedError("sparsemap: no derivatives inside torch.vmap over scores; give them leading axes")
    return solution


def tangent(scores: Tensor) -> Tensor:
    """Zeros whose derivative by the scores is the identity; none where these are infinite or NaN."""
    return (scores - scores.detach()).masked_fill(~scores.detach().isfinite(), 0.0)


def warn_unless_converged(name: str, solution: Solution, limit: int) -> None:
    """Say how much a better structure would gain, where the search was stopped by its limit."""
    active = solution.active
    if active is None:
        return
    short = active.iterations >= limit
    if bool(short.any()):
        warn_of_limit(
            f"{name}: {int(short.sum())} of {len(short)} problems stopped after {limit} iterations; the best structure "
            f"left out would gain up to {float(active.residual[short].max()):.3g}"
        )


@dataclass
class Structures:
    """A sparse distribution over structures for each row, the likeliest first.

    Beyond ``count`` the slots are empty: no parts, no probability. Where structures tie, the last of those before have
    probability 0: they are the ones that other scores nearby would bring in. Gradients pass through the probabilities
    and the marginals.
    """

    structures: Tensor  # [*, A, *event]: 0/1 parts, shaped like the scores
    probabilities: Tensor  # [*, A]
    count: Tensor  # [*]
    additional: Tensor | None  # [*, A, m]: the parts without a regulariser
    additional_marginals: Tensor | None  # [*, m]
