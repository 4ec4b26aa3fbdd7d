"""Symmetric matrices by their lower triangles: what expectation-maximisation does with thousands of small ones.

Entries are sliced one by one: a list of indices would be copied to a GPU in each call, and no CUDA graph can hold that.
"""

from __future__ import annotations

import torch
from torch import Tensor


def pairs(n: int) -> list[tuple[int, int]]:
    """Return where the entries of a packed n x n matrix are: (0, 0), (1, 0), (1, 1), (2, 0) and so on."""
    return [(i, j) for i in range(n) for j in range(i + 1)]


def pack(matrix: Tensor) -> Tensor:
    """Return the lower triangle of ``[*, n, n]``, ``[*, n(n+1)/2]``."""
    return torch.stack([matrix[..., i, j] for i, j in pairs(matrix.shape[-1])], -1)


def unpack(packed: Tensor, n: int) -> Tensor:
    """Return the whole matrix, ``[*, n, n]``."""
    index = [i * (i + 1) // 2 + j if i >= j else j * (j + 1) // 2 + i for i in range(n) for j in range(n)]
    return torch.stack([packed[..., i] for i in index], -1).unflatten(-1, (n, n))


def products(x: Tensor) -> Tensor:
    """Return ``x x'`` of vectors ``[*, n]``, packed."""
    if x.shape[-1] == 1:
        return x.square()
    axes = x.unbind(-1)
    return torch.stack([axes[i] * axes[j] for i, j in pairs(x.shape[-1])], -1)


def diagonal(n: int) -> list[int]:
    """Return which entries are on the diagonal."""
    return [i * (i + 3) // 2 for i in range(n)]


def times(packed: Tensor, x: Tensor) -> Tensor:
    """Return matrix times vector, ``[*, n]``."""
    n = x.shape[-1]
    if n == 1:
        return packed * x
    if n == 2:
        a, b, c = packed.unbind(-1)
        u, v = x.unbind(-1)
        return torch.stack([a * u + b * v, b * u + c * v], -1)
    return (unpack(packed, n) * x.unsqueeze(-2)).sum(-1)


def inverse(packed: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the inverse of a positive definite matrix, packed, and the logarithm of its determinant, ``[*]``."""
    if n == 1:
        return 1 / packed, packed.squeeze(-1).log()
    if n == 2:
        a, b, c = packed.unbind(-1)
        # By the pivots: a c - b^2 would lose all digits of a thin ellipse.
        ratio = b / a
        pivot = c - ratio * b
        low = 1 / pivot
        return torch.stack([1 / a + ratio.square() * low, -ratio * low, low], -1), a.log() + pivot.log()
    factor, _ = torch.linalg.cholesky_ex(unpack(packed, n))
    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return pack(torch.cholesky_inverse(factor)), log_det
