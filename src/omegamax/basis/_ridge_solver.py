"""The linear algebra of ridge regression: from the basis at the observed places to the operator of the fit."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._checks import is_plain

# Largest condition number at which the normal equations, solved in double precision, are as good as the dtype asked
# for. Beyond it the singular values of the design itself are used, whose condition number is the root of this one.
_NORMAL_EQUATIONS = {torch.float64: 1e6, torch.float32: 1e9}


def ridge_operator(design: Tensor, outside: Tensor | None, penalty: float, dtype: torch.dtype) -> Tensor:
    r"""The matrix :math:`(F F^\top + F_0 F_0^\top + \lambda I)^{-1} F` from values to coefficients, ``[*, J, L]``.

    Where that has no inverse, to rounding, it is the limit of a vanishing penalty: coefficients of the least norm.

    Args:
        design: :math:`F^\top`, the basis at the observed places, ``[*, L, J]``, float64.
        outside: :math:`F_0^\top`, the basis where zeros are observed, ``[M, J]``.
        dtype: in which the result will be used.
    """
    rows = design if outside is None else torch.cat([design, outside.expand(*design.shape[:-2], *outside.shape)], -2)
    count, functions = rows.shape[-2:]
    if penalty > 0:
        # (F F' + c I)^-1 F = F (F' F + c I)^-1: the smaller of the two systems.
        dual = outside is None and count < functions
        gram = rows @ rows.mT if dual else rows.mT @ rows
        if not _is_stiff(gram, penalty * _NORMAL_EQUATIONS[dtype]):
            eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
            root = torch.linalg.cholesky_ex(gram + penalty * eye)[0]
            return torch.cholesky_solve(design, root).mT if dual else torch.cholesky_solve(design.mT, root)
        eye = torch.eye(functions, dtype=rows.dtype, device=rows.device)
        rows = torch.cat([rows, penalty**0.5 * eye.expand(*rows.shape[:-2], functions, functions)], -2)
    return torch.linalg.pinv(rows)[..., : design.shape[-2]]


def condition_number(rows: Tensor, penalty: float) -> Tensor:
    r"""Of :math:`F F^\top + \lambda I`, ``[*]``, for :math:`F^\top` = ``rows [*, L, J]``; inf where it is singular."""
    count, functions = rows.shape[-2:]
    squares = torch.linalg.svdvals(rows).square()
    if count == 0:
        squares = rows.new_zeros(*rows.shape[:-2], 1)
    # Below this a singular value is rounding.
    floor = (max(count, functions) * torch.finfo(rows.dtype).eps) ** 2 * squares[..., 0]
    least = squares[..., -1] if count >= functions else torch.zeros_like(floor)
    least = torch.where(least <= floor, 0.0, least)
    return (squares[..., 0] + penalty) / (least + penalty)


def _is_stiff(gram: Tensor, limit: float) -> bool:
    """Whether the largest eigenvalue may be beyond ``limit``; NaN is not, nor what cannot be read."""
    if not is_plain(gram) or gram.numel() == 0:
        return False
    return bool(gram.detach().abs().sum(-1).amax() > limit)
