r"""The common axes of two ellipsoids, to high relative accuracy however thin either is.

The eigenvalues of :math:`L^{-1} S L^{-\top}` may span twenty decades. An eigenvalue solver is accurate to the rounding
of the largest of them, which for the others may be everything. Rotations of the rows of :math:`L^{-1} F`, with
:math:`S = F F^\top`, until they are orthogonal, never add large numbers to small ones, and leave a matrix whose rows
are orthogonal from the start, such as a diagonal one, exactly as it is.

Reference: Demmel and Veselic (SIAM J. Matrix Anal. 1992).
"""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._checks import readable

# Convergence is quadratic: up to ten rows six or seven sweeps leave nothing but rounding.
_SWEEPS = 10
# Eigenvalues this close to each other lose 1e-13 to a solver that takes a hundredth of the time.
_EVEN = 1e-3


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
    """The largest cosine between two rows, ``[*]``; NaN where a row is."""
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
    """Every pair of n rows once, in rounds of disjoint pairs (a round-robin tournament), and the way back to order."""
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
