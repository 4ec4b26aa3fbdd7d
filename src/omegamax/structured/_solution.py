"""SparseMAP solutions, as factors hand them on and as autograd sees them: values, and the Jacobian of their face."""

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
from omegamax._compile import disable_compile
from omegamax._operation import needs_derivative
from omegamax._torch_internals import dispatch_mode_count
from omegamax.kernels.structures import ActiveSet, ActiveSetJacobian


class Solution(ABC):
    """Marginals of a batch of SparseMAP problems, and how they move with the scores; holds no graph."""

    marginals: Tensor  # [B, *event]
    additional_marginals: Tensor | None  # [B, m]
    active: ActiveSet | None

    @abstractmethod
    def jvp(self, d_scores: Tensor, d_additional: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return the changes of both marginals with changes of both scores.

        The Jacobian as a whole is symmetric: this is also the vjp.
        """


class ActiveSolution(Solution):
    """A solution known by its structures, whose derivatives are those of :class:`ActiveSetJacobian`."""

    active: ActiveSet

    def __init__(self, active: ActiveSet, event: torch.Size | tuple[int, ...]):
        self.active, self.event = active, tuple(event)
        self.marginals = active.marginals.unflatten(-1, self.event)
        self.additional_marginals = active.additional_marginals

    @cached_property
    def jacobian(self) -> ActiveSetJacobian:
        return ActiveSetJacobian(self.active)

    def probability_jvp(self, d_scores: Tensor, d_additional: Tensor | None = None) -> Tensor:
        """Return the changes of the structures' probabilities, ``[B, A]``."""
        return self.jacobian.probability_jvp(self._flatten(d_scores), d_additional)

    def probability_vjp(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients by both scores, given those by the structures' probabilities, ``[B, A]``."""
        d_scores, d_additional = self.jacobian.probability_vjp(g)
        return d_scores.reshape(self.marginals.shape), d_additional

    def jvp(self, d_scores: Tensor, d_additional: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        du, dv = self.jacobian.jvp(self._flatten(d_scores), d_additional)
        return du.reshape(self.marginals.shape), dv

    def _flatten(self, d_scores: Tensor) -> Tensor:
        return d_scores.reshape(len(self.marginals), math.prod(self.event))


@dataclass
class Structures:
    """A sparse distribution over structures for each row, the likeliest first.

    Beyond ``count`` the slots are empty: no parts, no probability. Where structures tie, the last of those before have
    probability 0: they are the ones that other scores nearby would bring in, listed up to 256 structures in all.
    Gradients pass through the probabilities and the marginals.
    """

    structures: Tensor  # [*, A, *event]: 0/1 parts, shaped like the scores
    probabilities: Tensor  # [*, A]
    count: Tensor  # [*]
    additional: Tensor | None  # [*, A, m]: the parts without a regulariser
    additional_marginals: Tensor | None  # [*, m]


@dataclass
class SparseMAPCall:
    """A solver, and once it was called its solution: of a flat batch, in which axes mapped over come first."""

    solve: Callable[[Tensor, Tensor | None], Solution]
    distribution: bool = False  # whether the structures' probabilities are wanted as well
    solution: Solution | None = None

    @disable_compile
    def __call__(self, scores: Tensor, additional: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return marginals ``[B, *event]`` and ``[B, m]`` and probabilities ``[B, A]``, differentiable in the scores.

        Where there is no such thing, or it is not wanted, its last axis is empty.
        """
        given = (scores,) if additional is None else (scores, additional)
        if dispatch_mode_count() and get_proxy_mode() is not None:
            raise NotImplementedError(
                "sparsemap: its search depends on values, so that make_fx and linearize cannot trace it; "
                "torch.func.jvp and vjp work, and torch.compile leaves it as it is"
            )
        if is_plain(*given) and not needs_derivative(*given):
            return self.run(scores, additional)
        return _SparseMAPFunction.apply(scores, additional, self)

    def run(self, scores: Tensor, additional: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the values alone."""
        with torch.no_grad():
            self.solution = solution = self.solve(scores, additional)
            empty = scores.new_zeros(len(scores), 0)
            v = empty if solution.additional_marginals is None else solution.additional_marginals
            weights = empty
            if self.distribution:
                active = self.structures().active
                weights = active.weights.masked_fill(active.residual.isnan()[:, None], math.nan)
            return solution.marginals.clone(), v.clone(), weights.clone()

    def structures(self) -> ActiveSolution:
        """Return the solution by its structures."""
        assert self.solution is not None and self.solution.active is not None
        if isinstance(self.solution, ActiveSolution):
            return self.solution
        return ActiveSolution(self.solution.active, self.solution.marginals.shape[1:])


class _SparseMAPFunction(torch.autograd.Function):
    """The map is piecewise linear: its Jacobian is a constant of the solution."""

    @staticmethod
    def forward(scores, additional, call):
        return call.run(scores, additional)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.call = replace(inputs[2])  # a copy: the call may be made again, for other scores
        ctx.rows = len(inputs[0])
        ctx.has_additional = inputs[1] is not None
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g, g_additional, g_weights):
        solution = _own_solution(ctx)
        grads = [None, None]
        if g is not None or g_additional is not None:
            g = torch.zeros_like(solution.marginals) if g is None else g
            grads = list(solution.jvp(g, g_additional if ctx.has_additional else None))
        if g_weights is not None and ctx.call.distribution:
            more = ctx.call.structures().probability_vjp(g_weights)
            grads = [b if a is None else a + b for a, b in zip(grads, more, strict=True)]
        return grads[0], grads[1] if ctx.has_additional else None, None

    @staticmethod
    def jvp(ctx, d_scores, d_additional, _):
        solution = _own_solution(ctx)
        d_scores = torch.zeros_like(solution.marginals) if d_scores is None else d_scores
        du, dv = solution.jvp(d_scores, d_additional)
        empty = d_scores.new_zeros(len(d_scores), 0)
        d_weights = empty
        if ctx.call.distribution:
            d_weights = ctx.call.structures().probability_jvp(d_scores, d_additional)
        return du, empty if dv is None else dv, d_weights

    @staticmethod
    def vmap(info, in_dims, scores, additional, call):
        front = [
            a if a is None else a.expand(info.batch_size, *a.shape) if d is None else a.movedim(d, 0)
            for a, d in zip((scores, additional), in_dims, strict=False)
        ]
        outputs = _SparseMAPFunction.apply(*(a if a is None else a.flatten(0, 1) for a in front), call)
        shape = front[0].shape[:2]
        return tuple(a.reshape(*shape, *a.shape[1:]) for a in outputs), (0, 0, 0)


def _own_solution(ctx) -> Solution:
    """Return the solution of the rows that the context was made for."""
    solution = ctx.call.solution
    if len(solution.marginals) != ctx.rows:
        raise NotImplementedError("sparsemap: no derivatives inside torch.vmap over scores; give them leading axes")
    return solution


def tangent(scores: Tensor) -> Tensor:
    """Return zeros whose derivative by the scores is the identity; none where these are infinite or NaN."""
    return (scores - scores.detach()).masked_fill(~scores.detach().isfinite(), 0.0)
