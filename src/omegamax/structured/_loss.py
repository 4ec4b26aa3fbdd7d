"""The loss for structured outputs that belongs to SparseMAP."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._arguments import check_choice
from omegamax._checks import check_floating
from omegamax.losses import REDUCTIONS, clip_negative
from omegamax.structured._factor import Factor
from omegamax.structured._solution import tangent
from omegamax.structured._sparsemap import F64, Problem


def sparsemap_loss(
    scores: Tensor,
    target: Tensor,
    factor: Factor,
    additional: Tensor | None = None,
    target_additional: Tensor | None = None,
    reduction: str = "mean",
    *,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Measure how far the marginals of the scores are from the target structure.

    .. math:: \max_{u, v} \Bigl[\langle u, \eta_u \rangle + \langle v, \eta_v \rangle - \tfrac12 \lVert u \rVert^2\Bigr]
              - \langle y_u, \eta_u \rangle - \langle y_v, \eta_v \rangle + \tfrac12 \lVert y_u \rVert^2

    Convex in the scores, never negative, zero exactly where SparseMAP returns the target; its gradients are
    :math:`u - y_u` and :math:`v - y_v`.

    Args:
        scores: ``[*, *event]``.
        target: :math:`y_u`, shaped alike: the 0/1 parts of a structure, or marginals.
        factor, additional, mask: as in :func:`~omegamax.structured.sparsemap`.
        target_additional: :math:`y_v`, ``[*, m]``. Factors that have additional scores find those of a structure by
            themselves; marginals do not tell them.
        reduction: ``"mean"`` or ``"sum"`` over the problems, or ``"none"``.

    Returns:
        A scalar, or ``[*]`` without reduction.

        >>> from omegamax.structured import Subsets
        >>> scores = torch.tensor([1.0, 0.5, 0.0], requires_grad=True)
        >>> loss = sparsemap_loss(scores, torch.tensor([1.0, 1.0, 0.0]), Subsets(2))
        >>> loss.item(), torch.autograd.grad(loss, scores)[0]
        (0.0625, tensor([ 0.0000, -0.2500,  0.2500]))

    Reference: Niculae et al. (ICML 2018), Sec. 4; Blondel, Martins & Niculae (JMLR 2020), Def. 2.
    """
    name = "sparsemap_loss"
    check_choice(name, "reduction", reduction, REDUCTIONS)
    problem = Problem(name, scores, factor, additional, mask, two_state=False)
    check_floating(name, "target", target)
    if target.shape != scores.shape:
        raise ValueError(
            f"{name}: target must have the shape {tuple(scores.shape)} of the scores, got {tuple(target.shape)}"
        )
    y = target.to(problem.scores).reshape(problem.scores.shape)
    parts = None
    if problem.additional is not None:
        parts = _additional_target(name, factor, target, target_additional, problem)
    value, bend = conjugate_minus(problem, y, parts)
    loss = clip_negative(value) + bend
    if reduction == "none":
        return problem.reshape(loss, problem.batch)
    return problem.reshape(loss.mean() if reduction == "mean" else loss.sum(), ())


def conjugate_minus(problem: Problem, y: Tensor, parts: Tensor | None) -> tuple[Tensor, Tensor]:
    r"""Return the conjugate of a problem less the score of ``y``, plus half its square, ``[B]``, and its curvature.

    The gradient of the first is :math:`u - y_u` and :math:`v - y_v`, and has none of its own; the second is zero, and
    so is its gradient, but its second derivative is the Jacobian of the marginals.
    """
    u, v, _ = problem.call(structures=False)(problem.scores, problem.additional)
    u = torch.where(problem.present, u, 0.0)
    # (u - y)(eta - (u + y) / 2): what both share, however large its score, drops out.
    still = u.detach()
    value = (weigh_difference(still, y, problem.scores) - (still - y) * (still + y) / 2).flatten(1).sum(-1)
    bend = (tangent(problem.scores) * (u - still)).flatten(1).sum(-1)
    if problem.additional is not None:
        assert parts is not None
        value = value + weigh_difference(v.detach(), parts, problem.additional).sum(-1)
        bend = bend + (tangent(problem.additional) * (v - v.detach())).sum(-1)
    return value, bend / 2


def weigh_difference(marginals: Tensor, target: Tensor, scores: Tensor) -> Tensor:
    """Return ``(marginals - target) * scores``, also where the scores are ``-inf`` and neither has any mass."""
    gap = marginals - target
    return gap * scores.masked_fill((gap == 0) & scores.isinf(), 0.0)


def _additional_target(name: str, factor: Factor, target: Tensor, given: Tensor | None, problem: Problem) -> Tensor:
    """Return the additional parts of the target: those given, or those that the factor knows of a structure."""
    assert problem.additional is not None
    if given is None:
        with torch.no_grad():
            y = factor.additional_features(target.to(F64))
        if y is None or not bool(((target == 0) | (target == 1)).all()):
            raise ValueError(
                f"{name}: target_additional [*, {problem.additional.shape[-1]}] is needed with additional scores "
                f"unless the target is a structure (0/1) and the factor knows its additional parts; got {factor!r}"
            )
        return y.to(problem.scores).reshape(problem.additional.shape)
    check_floating(name, "target_additional", given)
    wanted = (*problem.batch, problem.additional.shape[-1])
    if tuple(given.shape) != wanted:
        raise ValueError(f"{name}: target_additional must have shape {wanted}, got {tuple(given.shape)}")
    return given.to(problem.scores).reshape(problem.additional.shape)
