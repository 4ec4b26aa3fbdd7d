"""The loss for structured outputs that belongs to LP-SparseMAP."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from omegamax._checks import check_floating
from omegamax.structured._loss import weigh_difference
from omegamax.structured._placements import Placement, group_placements
from omegamax.structured._solution import tangent
from omegamax.structured._solver import Solver

NAME = "FactorGraph.loss"
SATISFIED = 1e-5  # distance from what a factor allows that is the rounding of a target


def graph_conjugate_minus(
    solver: Solver, u: Tensor, scores: Tensor, additional: list[Tensor | None], y: Tensor, y_additional: list[Tensor]
) -> tuple[Tensor, Tensor]:
    r"""Return the conjugate of each example less the score of y, plus half its square, ``[B]``, and its curvature.

    The gradient of the first is :math:`u - y` and :math:`v - y_f`, and has none of its own; the second is zero, and so
    is its gradient, but its second derivative is the Jacobian of the marginals.

    Args:
        solver: that was called for these scores.
        u: what it returned, ``[B, N]``.
        scores, additional: ``[B, N]`` and, for each block, ``[B, K, a]`` or None.
        y, y_additional: the target, and its additional parts for each of the blocks that have any.
    """
    still = u.detach()
    # (u - y)(eta - (u + y) / 2): what both share, however large its score, drops out.
    value = (weigh_difference(still, y, scores) - (still - y) * (still + y) / 2).sum(1)
    given = [extra for extra in additional if extra is not None]
    if not given:
        return value, (tangent(scores) * (u - still)).sum(1) / 2
    found = [v for v in solver.additional_marginals() if v is not None]
    for v, parts, extra in zip(found, y_additional, given, strict=True):
        value = value + weigh_difference(v, parts, extra).flatten(1).sum(1)
    return _OnceDifferentiable.apply(value, scores, *given), torch.zeros_like(value)  # type: ignore[no-untyped-call]


def find_target_additional(
    solver: Solver, placements: list[Placement], given: list[Tensor | None] | None, y: Tensor
) -> list[Tensor]:
    """Return the additional parts of the target for each block that has any: those given, or those that follow."""
    problem = solver.problem
    wanted = [placement.additional for placement in placements]
    if given is not None:
        _check_given(given, wanted)
        chosen = [replace(p, additional=part) for p, part in zip(placements, given, strict=True)]
        return [part for part in group_placements(chosen, len(y), y.device)[1] if part is not None]
    if any(extra is not None for extra in wanted) and not bool(((y == 0) | (y == 1)).all()):
        raise ValueError(
            f"{NAME}: target_additional is needed where factors have additional scores and the target is not 0/1"
        )
    parts = []
    for block, copies, extra in zip(problem.blocks, problem.split(problem.copy(y)), problem.additional, strict=True):
        if extra is None:
            continue
        found = block.solver.additional_features(copies)
        if found is None:
            raise ValueError(f"{NAME}: target_additional is needed, since a factor does not know its additional parts")
        parts.append(found)
    return parts


def _check_given(given: list[Tensor | None], wanted: list[Tensor | None]) -> None:
    if len(given) != len(wanted):
        raise ValueError(
            f"{NAME}: target_additional must have an entry for each of the {len(wanted)} factors added, got "
            f"{len(given)}"
        )
    for i, (part, extra) in enumerate(zip(given, wanted, strict=True)):
        if extra is None and part is not None:
            raise ValueError(f"{NAME}: target_additional[{i}] must be None, as the factor has no additional scores")
        if extra is None:
            continue
        check_floating(NAME, f"target_additional[{i}]", part)  # type: ignore[arg-type]
        if part is None or part.numel() != extra.numel():
            shape = None if part is None else tuple(part.shape)
            raise ValueError(
                f"{NAME}: target_additional[{i}] must have as many entries as the additional scores "
                f"{tuple(extra.shape)}, got shape {shape}"
            )
        given[i] = part.reshape(extra.shape)


def check_satisfied(solver: Solver, y: Tensor) -> None:
    """Refuse a target that a factor does not allow: a loss would measure nothing."""
    problem = solver.problem
    with torch.no_grad():
        copies = problem.copy(torch.where(solver.invalid[:, None], solver.outcome.u, y))
        zeros = [None if extra is None else torch.zeros_like(extra) for extra in problem.additional]
        first = 0
        for block, part, extra in zip(problem.blocks, problem.split(copies), zeros, strict=True):
            off = (block.solver.solve(part, extra).marginals - part).abs().amax(-1)
            bad = (off > SATISFIED).nonzero()
            if len(bad):
                example, which = (int(i) for i in bad[0])
                raise ValueError(
                    f"{NAME}: target must satisfy every factor, got one in example {example} that is off by "
                    f"{float(off[example, which]):.3g} for {solver.labels[first + which]}"
                )
            first += block.index.shape[0]


class _OnceDifferentiable(torch.autograd.Function):
    """The value as it is. Additional marginals have no derivatives here, and so the gradient has none."""

    @staticmethod
    def forward(value, *scores):
        return value.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx, g):
        return (_Refusal.apply(g, *ctx.saved_tensors), *[None] * len(ctx.saved_tensors))


class _Refusal(torch.autograd.Function):
    @staticmethod
    def forward(g, *scores):
        return g.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError(f"{NAME}: no second derivatives where factors have additional scores")
