"""Gaussian basis functions over the plane in one operation: value and first derivatives come out of the same sums.

Autograd would record some hundred operations here, and as many on the way back: this is one kernel on a GPU, and two
operations on the way back. Second derivatives are those of the plain form.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._first_order import FirstOrder
from omegamax.basis import GaussianRBF
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._root import Root


def expect_gaussian_in_plane(density: BetaGaussian, basis: GaussianRBF, plainly: Any) -> Tensor:
    """Return ``E_p[psi_j]`` of functions that integrate to one under Gaussians over the plane, ``[*, J]``.

    ``plainly(density)`` returns the same, in operations that autograd differentiates.
    """
    spread = basis.covariance if basis.variance is None else basis.variance
    compute = partial(_compute, partial(kernels.solve, "gaussian_in_plane"), (basis.centers, spread))
    return _apply(density, compute, plainly)


def expect_compact_in_plane(density: BetaGaussian, basis: GaussianRBF, plainly: Any) -> Tensor:
    """Return the same of round functions under compact densities of a float alpha, where the contour is compiled."""
    root = density._root
    fine = density.loc.dtype == torch.float64
    given = (basis.centers, basis.variance, density.alpha, root.square is None, fine)
    return _apply(density, partial(_compute, partial(kernels.solve, "contour_in_plane"), given), plainly)


def _apply(density: BetaGaussian, compute: Any, plainly: Any) -> Tensor:
    """Return the result as an operation of the location and of what the scale was given by: Sigma or its factor."""
    root, alpha = density._root, density.alpha
    factored = root.square is None and (alpha != 1)
    shape = (*density.batch_shape, 2, 2)
    matrix = density.scale_tril if factored else density.scale
    if root.square is None and alpha == 1:  # as exact as the factor
        wide = density.scale_tril.double()
        matrix = wide @ wide.mT

    def in_full(loc: Tensor, matrix: Tensor) -> Tensor:
        own = Root(matrix, False) if factored else Root(None, False, matrix)
        return plainly(BetaGaussian._from_root(loc, own, alpha, False))

    back = _pull_back_to_factor if factored else _pull_back
    return FirstOrder.apply(compute, back, in_full, density.loc, matrix.expand(shape))


def _compute(solve: Any, given: tuple, loc: Tensor, matrix: Tensor) -> tuple[tuple[Tensor], tuple[Tensor, Tensor]]:
    both = solve(loc, matrix, *given)
    return (both[..., 0, :],), (both[..., 1:, :], matrix)


def _pull_back(slopes: Tensor, matrix: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    moved = (slopes * g.unsqueeze(-2)).sum(-1)
    return moved[..., :2], moved[..., 2:].reshape((*moved.shape[:-1], 2, 2)).to(matrix.dtype)


def _pull_back_to_factor(slopes: Tensor, root: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    of_loc, of_sigma = _pull_back(slopes, root, g)
    return of_loc, (2 * of_sigma @ root).tril()  # the derivative in Sigma is symmetric
