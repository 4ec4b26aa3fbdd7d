"""Gaussian basis functions over the plane in one operation: value and first derivatives come out of the same sums.

Autograd would record some hundred operations here, and as many on the way back: this is one kernel on a GPU, and one
on the way back. Second derivatives are those of the plain form.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import is_plain
from omegamax._first_order import FirstOrder
from omegamax.basis import Basis, GaussianRBF
from omegamax.densities._beta_gaussian import BetaGaussian, stretch_in_plane
from omegamax.densities._root import MatchedRoot, Root
from omegamax.kernels.contour import Form

# This close to alpha = 1 the integrals on both sides become sums of huge numbers, while the expectation is as smooth
# in alpha as a parabola: the next term is 1e-12.
NEAR = 1e-4


class PlaneRule(NamedTuple):
    """The kernels that integrate a basis under densities over the plane of which mean and covariance are known."""

    of_moments: str  # from means and covariances
    of_weights: str  # from weights of which they are the moments
    given: tuple  # what both take beside these


def find_plane_rule(basis: Basis, alpha: float, dtype: torch.dtype) -> PlaneRule | None:
    """Return the kernels for densities of this alpha, whose moments are of this dtype; None: there are none."""
    if type(basis) is not GaussianRBF or basis.dimension != 2 or not basis.normalised:
        return None
    if any(t.requires_grad for t in (*basis.parameters(), *basis.buffers())):
        return None
    if alpha == 1:
        spread = basis.covariance if basis.variance is None else basis.variance
        return PlaneRule("gaussian_in_plane", "gaussian_of_weights", (basis.centers, spread))
    if alpha > 1 + NEAR and basis.variance is not None:
        given = (basis.centers, basis.variance, float(alpha), Form.COVARIANCE, dtype == torch.float64)
        return PlaneRule("contour_in_plane", "contour_of_weights", given)
    return None


def expect_gaussian_in_plane(density: BetaGaussian, basis: GaussianRBF, plainly: Any) -> Tensor:
    """Return ``E_p[psi_j]`` of functions that integrate to one under Gaussians over the plane, ``[*, J]``.

    ``plainly(density)`` returns the same, in operations that autograd differentiates.
    """
    spread = basis.covariance if basis.variance is None else basis.variance
    matrix = density.scale
    if density._root.square is None:  # as exact as the factor
        wide = density.scale_tril.double()
        matrix = wide @ wide.mT
    compute = partial(_compute, partial(kernels.solve, "gaussian_in_plane"), (basis.centers, spread))
    return _apply(density, matrix, Form.SIGMA, compute, plainly)


def expect_compact_in_plane(density: BetaGaussian, basis: GaussianRBF, plainly: Any) -> Tensor:
    """Return the same of round functions under compact densities of a float alpha, where the contour is compiled."""
    root, alpha = density._root, density.alpha
    if isinstance(root, MatchedRoot) and root.alpha == alpha:
        form, matrix = Form.COVARIANCE, root.covariance
    else:
        form, matrix = (Form.FACTOR, density.scale_tril) if root.square is None else (Form.SIGMA, density.scale)
    given = (basis.centers, basis.variance, alpha, form, density.loc.dtype == torch.float64)
    compute = partial(_compute, partial(kernels.solve, "contour_in_plane"), given)
    return _apply(density, matrix, form, compute, plainly)


def _apply(density: BetaGaussian, matrix: Tensor, form: Form, compute: Any, plainly: Any) -> Tensor:
    """Return the result as an operation of the location and of the matrix that says how wide the density is."""
    alpha: Any = density.alpha

    def in_full(loc: Tensor, matrix: Tensor) -> Tensor:
        if form is Form.COVARIANCE:
            matrix = stretch_in_plane(matrix, alpha - 1)
        own = Root(matrix, False) if form is Form.FACTOR else Root(None, False, matrix)
        return plainly(BetaGaussian._from_root(loc, own, alpha, False))

    back = _pull_back_to_factor if form is Form.FACTOR else _pull_back
    return FirstOrder.apply(compute, back, in_full, density.loc, matrix.expand((*density.batch_shape, 2, 2)))


def _compute(solve: Any, given: tuple, loc: Tensor, matrix: Tensor) -> tuple[tuple[Tensor], tuple[Tensor, Tensor]]:
    both = solve(loc, matrix, *given)
    # A copy, which a user may change in place: of the rest the way back is made.
    return (both[..., 0, :].clone(),), (both, matrix)


def _pull_back(both: Tensor, matrix: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    # Batched gradients have no memory that a kernel could read.
    pull_back: Any = partial(kernels.solve, "plane_vjp") if is_plain(g) else kernels.load("plane_vjp", "reference")
    of_loc, of_matrix = pull_back(both, g)
    return of_loc, of_matrix.to(matrix.dtype)


def _pull_back_to_factor(both: Tensor, root: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    of_loc, of_sigma = _pull_back(both, root, g)
    return of_loc, (2 * of_sigma @ root).tril()  # the derivative in Sigma is symmetric
