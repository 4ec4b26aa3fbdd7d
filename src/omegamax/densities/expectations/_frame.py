r"""Coordinates in which a density and a basis function are both diagonal, and the Gaussian integral there.

A beta-Gaussian is a mixture, for alpha > 1 with complex weights, of Gaussians with one centre and proportional scales.
All that an expectation of a Gaussian basis function needs is therefore

.. math:: k(r) = \int e^{-r q(t) / 2} N(t; c_j, S_j) \, dt
          = \sqrt{\frac{|\Sigma|}{|\Sigma + r S_j|}} \, \exp\Bigl(-\frac r2 d^\top (\Sigma + r S_j)^{-1} d\Bigr),
          \qquad d = c_j - \mu

at real or complex rates r. The change of coordinates is a constant for differentiation: eigenvectors have no
derivative where eigenvalues meet, but the formula holds in any coordinates.

These coordinates are the common axes of two ellipsoids, to high relative accuracy however thin either is.
The eigenvalues of :math:`L^{-1} S L^{-\top}` may span twenty decades. An eigenvalue solver is accurate to the rounding
of the largest of them, which for the others may be everything. Rotations of the rows of :math:`L^{-1} F`, with
:math:`S = F F^\top`, until they are orthogonal, never add large numbers to small ones, and leave a matrix whose rows
are orthogonal from the start, such as a diagonal one, exactly as it is.

Reference: Demmel and Veselic (SIAM J. Matrix Anal. 1992).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax._checks import readable
from omegamax._numerics import log_volume
from omegamax.basis import GaussianRBF
from omegamax.densities._beta_gaussian import BetaGaussian

# Convergence is quadratic: up to ten rows six or seven sweeps leave nothing but rounding.
_SWEEPS = 10
# Eigenvalues this close to each other lose 1e-13 to a solver that takes a hundredth of the time.
_EVEN = 1e-3


class Wide(NamedTuple):
    """A beta-Gaussian in float64: all that the integrals need of it."""

    loc: Tensor  # [*, n]
    root: Tensor  # [*, n, n]: a factor of Sigma
    e: Tensor  # [*]: alpha - 1
    c: Tensor  # [*]: the dilation
    B: Tensor  # [*]: the log of the peak


def widen(density: BetaGaussian, alpha: float | Tensor) -> Wide:
    """Return the location and the scale of a density in float64, with this alpha; a new density would cost more."""
    n = density.dimension
    loc, root = density.loc.double(), density.scale_tril.double()
    e: Any = alpha - 1
    volume = 0.5 * n * math.log(2 * math.pi) + root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    B = (log_volume(e, n) - volume) / (1 + e * (n / 2))
    # The dtype is said: torch makes float32 of a number.
    wide_e = torch.as_tensor(e, dtype=torch.float64, device=loc.device).expand(B.shape)
    return Wide(loc, root, wide_e, (e * B).exp(), B)


class Frame(NamedTuple):
    """A density with J basis functions; ``sigma`` is diagonal up to rounding, but differentiable in all its entries."""

    sigma: Tensor  # [*, J or 1, n, n]: the scale matrix
    delta: Tensor  # [*, J, n]: basis centre less location
    spread: Tensor  # [*, J, n] or [J, n]: the diagonal of the basis function's covariance

    @property
    def diagonal(self) -> Tensor:
        """Return the diagonal of sigma, ``[*, J or 1, n]``."""
        return self.sigma.diagonal(dim1=-2, dim2=-1)


def make_frame(wide: Wide, basis: GaussianRBF) -> Frame:
    """Return the coordinates of each pair.

    Where all covariances are multiples of the identity, one set of coordinates serves each density.
    """
    root = wide.root
    n = root.shape[-1]
    eye = torch.eye(n, dtype=root.dtype, device=root.device)
    delta = basis.centers.to(root) - wide.loc.unsqueeze(-2)
    if basis.variance is not None:
        spread = basis.variance.to(root).unsqueeze(-1).expand(-1, n)
        if n == 1:
            return Frame(root.square().unsqueeze(-3), delta, spread)
        rows, axes = orthogonalise_rows(root.detach(), eye.expand_as(root))
        turned = axes @ root
        sigma = turned @ turned.mT
        sigma = torch.diag_embed(rows.square().sum(-1)) + (sigma - sigma.detach())
        return Frame(sigma.unsqueeze(-3), delta @ axes.mT, spread)
    # With L^-1 S_j L^-T = U diag(spread) U', in the coordinates U' L^-1 t the scale is the identity.
    fixed = root.detach().unsqueeze(-3)
    bumps = basis.covariance.to(root)
    factor = torch.linalg.cholesky_ex(bumps)[0].expand(*root.shape[:-2], *bumps.shape)
    inverse = torch.linalg.solve_triangular(fixed, eye.expand_as(fixed), upper=False)
    rows, axes = orthogonalise_rows(
        torch.linalg.solve_triangular(fixed, factor, upper=False), inverse.expand(*factor.shape)
    )
    spread = rows.square().sum(-1).clamp(min=torch.finfo(rows.dtype).tiny)
    turned = axes @ root.unsqueeze(-3)
    sigma = turned @ turned.mT
    # The identity up to rounding: what is left of sigma are its derivatives.
    return Frame(eye + (sigma - sigma.detach()), (axes @ delta.unsqueeze(-1)).squeeze(-1), spread)


def log_kernel(pair: Frame, rate: Tensor) -> Tensor:
    """Return ``log k(r)`` at rates ``[*, J or 1, K]``, real or complex, ``[*, J, K]``."""
    sigma, delta, spread = (t.unsqueeze(-1) for t in pair)
    n = delta.shape[-2]
    # Elimination without pivots: off the diagonal there are only zeros, and what their derivatives say.
    rows = [[sigma[..., i, j, :] + (rate * spread[..., i, :] if i == j else 0) for j in range(i + 1)] for i in range(n)]
    alone = [[sigma[..., i, j, :] for j in range(i + 1)] for i in range(n)]
    ends = [delta[..., i, :] for i in range(n)]
    quadratic: Tensor | float = 0.0
    log_det: Tensor | float = 0.0
    for i in range(n):
        quadratic = quadratic + ends[i].square() / rows[i][i]
        log_det = log_det + torch.log(rows[i][i]) - alone[i][i].log()
        for j in range(i + 1, n):
            share, share_alone = rows[j][i] / rows[i][i], alone[j][i] / alone[i][i]
            ends[j] = ends[j] - share * ends[i]
            for k in range(i + 1, j + 1):
                rows[j][k] = rows[j][k] - share * rows[k][i]
                alone[j][k] = alone[j][k] - share_alone * alone[k][i]
    assert isinstance(log_det, Tensor)
    return -(log_det + rate * quadratic) / 2


def orthogonalise_rows(matrix: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
    r"""Rotate the rows of a matrix until they are orthogonal to each other (one-sided Jacobi).

    Args:
        matrix: ``[*, n, m]``.
        carried: ``[*, n, k]``, whose rows take part in the same rotations.

    Returns:
        ``U' matrix`` and ``U' carried`` with an orthogonal U.

        >>> rows, carried = orthogonalise_rows(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.eye(2))
        >>> (rows[0] @ rows[1]).abs() < 1e-6, torch.allclose(carried @ torch.tensor([[1.0, 0.0], [1.0, 1.0]]), rows)
        (tensor(True), True)
    """
    n, m = matrix.shape[-2:]
    if n > 2 and readable(matrix):
        values, vectors = torch.linalg.eigh(torch.nan_to_num(matrix @ matrix.mT))
        if bool((values[..., 0] > _EVEN * values[..., -1]).all()):
            return vectors.mT @ matrix, vectors.mT @ carried
    rows = torch.cat([matrix, carried], -1)
    limit = n * torch.finfo(rows.dtype).eps
    for _ in range(_SWEEPS if n > 2 else 1):  # two rows need one rotation
        if n > 2 and readable(rows) and not bool((_cosines(rows[..., :m]) > limit).any()):
            break
        for first, second, back in _rounds(n):
            rows = _rotate(rows, first, second, m)[..., back, :]
    return rows[..., :m], rows[..., m:]


def _cosines(rows: Tensor) -> Tensor:
    """Return the largest cosine between two rows, ``[*]``; NaN where a row is."""
    unit = rows / rows.square().sum(-1, keepdim=True).sqrt()
    return (unit @ unit.mT).tril(-1).abs().flatten(-2).amax(-1)


def _rotate(rows: Tensor, first: list[int], second: list[int], m: int) -> Tensor:
    """Rotate row ``first[k]`` with row ``second[k]`` for every k, rows in no pair last; ``[*, n, m + k]``."""
    rest = [i for i in range(rows.shape[-2]) if i not in first + second]
    a, b = rows[..., first, :], rows[..., second, :]
    square_a, square_b = (t[..., :m].square().sum(-1, keepdim=True) for t in (a, b))
    product = (a[..., :m] * b[..., :m]).sum(-1, keepdim=True)
    apart = product == 0
    ratio = (square_b - square_a) / (2 * torch.where(apart, 1.0, product))
    tangent = torch.where(ratio < 0, -1.0, 1.0) / (ratio.abs() + torch.hypot(ratio, torch.ones_like(ratio)))
    tangent = torch.where(apart, 0.0, tangent)
    cosine = torch.rsqrt(1 + tangent.square())
    sine = cosine * tangent
    return torch.cat([cosine * a - sine * b, sine * a + cosine * b, rows[..., rest, :]], -2)


def _rounds(n: int) -> list[tuple[list[int], list[int], list[int]]]:
    """Return every pair of n rows once.

    They come in rounds of disjoint pairs (a round-robin tournament), with the permutation back to order.
    """
    count = n + n % 2
    circle = list(range(1, count))
    rounds = []
    for turn in range(count - 1):
        seats = [0, *circle[turn:], *circle[:turn]]
        pairs = [(seats[i], seats[count - 1 - i]) for i in range(count // 2)]
        pairs = [(min(p), max(p)) for p in pairs if max(p) < n]
        first, second = [p[0] for p in pairs], [p[1] for p in pairs]
        order = first + second + [i for i in range(n) if i not in first + second]
        rounds.append((first, second, [order.index(i) for i in range(n)]))
    return rounds
