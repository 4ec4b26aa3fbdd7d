"""The matrix of a ridge regression that takes values to coefficients, from the basis at their positions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax._checks import is_plain

# Largest condition number at which the normal equations, solved in double precision, are as good as the dtype asked
# for. Beyond it the singular values of the design itself are used, whose condition number is the root of this one.
_NORMAL_EQUATIONS = {torch.float64: 1e6, torch.float32: 1e9}


class RidgeRows(NamedTuple):
    """The basis functions where values are observed, a row for each, in float64."""

    design: Tensor
    r""":math:`F^\top`, at the positions of the values, ``[*, L, J]``; 0 at absent ones."""
    outside: Tensor | None = None
    r""":math:`F_0^\top`, where zeros are observed, ``[M, J]``."""
    present: Tensor | None = None
    """Where there is a value, ``[*, L]``; everywhere, if None."""

    def divide_by_root_of_count(self) -> tuple[Tensor, RidgeRows]:
        """Return ``w``, 1 over the root of the number of values, ``[*, 1, 1]``, and the rows times that.

        A sum of squares over L is one of what is divided by the root of L.
        """
        design, outside, present = self
        if present is None:
            w = design.new_full((1, 1), max(design.shape[-2], 1)).rsqrt()
        else:
            w = present.sum(-1)[..., None, None].clamp(min=1).to(design.dtype).rsqrt()
        return w, RidgeRows(w * design, None if outside is None else w * outside, present)

    def stack(self) -> Tensor:
        """Return all of them, ``[*, L + M, J]``."""
        if self.outside is None:
            return self.design
        return torch.cat([self.design, self.outside.expand(*self.design.shape[:-2], *self.outside.shape)], -2)


def solve_ridge(rows: RidgeRows, penalty: float, mean: bool, dtype: torch.dtype) -> Tensor:
    r"""Return the matrix :math:`(F F^\top + F_0 F_0^\top + \lambda I)^{-1} F` that takes values to coefficients.

    It is ``[*, J, L]``. Where that has no inverse, to rounding, it is the limit of a vanishing penalty: coefficients of
    the least norm.

    Args:
        mean: divide the sum of squares by the number of values.
        dtype: in which the result will be used.
    """
    if mean:
        w, weighted = rows.divide_by_root_of_count()
        return w * solve_ridge(weighted, penalty, False, dtype)
    design, every = rows.design, rows.stack()
    count, functions = every.shape[-2:]
    if penalty > 0:
        # (F F' + c I)^-1 F = F (F' F + c I)^-1: the smaller of the two systems.
        dual = rows.outside is None and count < functions
        gram = every @ every.mT if dual else every.mT @ every
        if not _is_stiff(gram, penalty * _NORMAL_EQUATIONS[dtype]):
            eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
            root = torch.linalg.cholesky_ex(gram + penalty * eye)[0]
            return torch.cholesky_solve(design, root).mT if dual else torch.cholesky_solve(design.mT, root)
        eye = torch.eye(functions, dtype=every.dtype, device=every.device)
        every = torch.cat([every, penalty**0.5 * eye.expand(*every.shape[:-2], functions, functions)], -2)
    return torch.linalg.pinv(every)[..., : design.shape[-2]]


def _is_stiff(gram: Tensor, limit: float) -> bool:
    """Tell whether the largest eigenvalue may be beyond ``limit``; NaN is not, nor what cannot be read."""
    if not is_plain(gram) or gram.numel() == 0:
        return False
    return bool(gram.detach().abs().sum(-1).amax() > limit)
