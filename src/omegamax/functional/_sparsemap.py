"""What a SparseMAP solution is to autograd: values, and the Jacobian of the face they lie on."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from omegamax._checks import is_plain
from omegamax._warnings import ConvergenceWarning
from omegamax.kernels.active_set import ActiveSet


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
        # Rows whose scores were NaN or +inf have no structures.
        spoilt = active.residual.isnan()[:, None]
        marginals, parts = (_mixture(active.weights, a) for a in (active.unary, active.additional))
        self.marginals = marginals.where(~spoilt, math.nan).unflatten(-1, self.event)
        self.additional_marginals = parts.where(~spoilt, math.nan)

    @cached_property
    def half(self) -> Tensor:
        """H with ``S = H^T H``, ``[B, A - 1, A]``; its rows sum to zero, and it is zero outside the support."""
        unary, used = self.active.unary, self.active.weights > 0
        # Differences from the first structure, which takes what the others leave.
        apart = torch.where(used[..., None], unary - unary[:, :1], 0.0)[:, 1:]
        idle = torch.diag_embed((~used[:, 1:]).to(unary.dtype))
        lower = torch.linalg.cholesky_ex(apart @ apart.mT + idle)[0]
        eye = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
        closing = torch.cat([eye.new_full((len(eye), 1), -1.0), eye], 1) * used[:, 1:, None]
        return torch.linalg.solve_triangular(lower, closing[..., : used.shape[1]], upper=False)

    @cached_property
    def basis(self) -> tuple[Tensor, Tensor]:
        """``H M^T [B, A - 1, n]``, whose rows are orthonormal or zero, and ``H N^T [B, A - 1, m]``."""
        return self.half @ self.active.unary, self.half @ self.active.additional

    def probability_jvp(self, d_scores: Tensor, d_additional: Tensor | None = None) -> Tensor:
        """Changes of the structures' probabilities, ``[B, A]``."""
        gain = self.active.unary @ d_scores.flatten(1)[..., None]
        if d_additional is not None:
            gain = gain + self.active.additional @ d_additional[..., None]
        return (self.half.mT @ (self.half @ gain))[..., 0]

    def jvp(self, d_scores: Tensor, d_additional: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        change = self.probability_jvp(d_scores, d_additional)[:, None]
        return (change @ self.active.unary)[:, 0].unflatten(-1, self.event), (change @ self.active.additional)[:, 0]


class _Outside(torch.autograd.Function):
    """Runs a solver on the tensors themselves, whichever of torch.func's gradient transforms wrap them."""

    @staticmethod
    def forward(scores, additional, run):
        run(scores, additional)
        return scores.new_zeros(())

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx, _):
        return None, None, None

    @staticmethod
    def jvp(ctx, *_):
        return None

    @staticmethod
    def vmap(info, in_dims, *_):  # only called where scores are mapped over: tangents may be
        raise NotImplementedError("sparsemap: torch.vmap cannot map over scores; give them leading axes instead")


def solved(solve: Callable[[Tensor, Tensor | None], Solution], scores: Tensor, additional: Tensor | None) -> Solution:
    """What ``solve`` makes of the scores, as constants."""
    results: list[Solution] = []
    with torch.no_grad():
        if is_plain(scores) and (additional is None or is_plain(additional)):
            return solve(scores, additional)
        _Outside.apply(scores, additional, lambda *inputs: results.append(solve(*inputs)))
    return results[0]


def differentiable(
    solution: Solution, scores: Tensor, additional: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Marginals of a solution, ``[B, *event]`` and ``[B, m]``, as functions of its scores.

    The map is piecewise linear: the value, plus the Jacobian times a zero that depends on the scores, has the right
    derivatives of every order and in every mode.
    """
    marginals, parts = solution.jvp(tangent(scores), None if additional is None else tangent(additional))
    known = solution.additional_marginals
    return solution.marginals + marginals, None if known is None or parts is None else known + parts


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
        warnings.warn(
            f"{name}: {int(short.sum())} of {len(short)} problems stopped after {limit} iterations; the best structure "
            f"left out would gain up to {float(active.residual[short].max()):.3g}",
            ConvergenceWarning,
            stacklevel=4,
        )


@dataclass
class Structures:
    """A sparse distribution over structures for each row, the likeliest first.

    Beyond ``count`` the slots are empty: no parts, no probability. Gradients pass through the probabilities and the
    marginals.
    """

    structures: Tensor  # [*, A, *event]: 0/1 parts, shaped like the scores
    probabilities: Tensor  # [*, A]
    count: Tensor  # [*]
    additional: Tensor | None  # [*, A, m]: the parts without a regulariser
    additional_marginals: Tensor | None  # [*, m]


def _mixture(weights: Tensor, parts: Tensor) -> Tensor:
    """Weighted means ``[B, n]`` of parts ``[B, A, n]``; where all structures agree, exactly what they say."""
    if not parts.shape[1]:
        return parts.sum(1)
    used = (weights > 0)[..., None]
    first = parts[:, :1]
    apart = torch.where(used, parts - first, 0.0)
    mixed = first[:, 0] + (weights[:, None] @ apart)[:, 0]
    return torch.minimum(torch.maximum(mixed, first[:, 0] + apart.amin(1)), first[:, 0] + apart.amax(1))
