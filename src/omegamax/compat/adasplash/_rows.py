"""Maps of rows by the names that adasplash has for them."""

from __future__ import annotations

from torch import Tensor

from omegamax import functional


def triton_entmax(
    x: Tensor, alpha: float = 1.5, n_iter: int = 2, use_histogram: bool = True, fast_math: bool = False
) -> Tensor:
    """Compute :func:`omegamax.entmax` along the last axis."""
    return functional.entmax(x, alpha, -1)


def triton_entmax_v1(x: Tensor, alpha: float = 1.5, n_iter: int = 10, fast_math: bool = True) -> Tensor:
    """Compute :func:`omegamax.entmax` along the last axis."""
    return functional.entmax(x, alpha, -1)


triton_entmax_v2 = triton_entmax


def triton_sparsemax(x: Tensor, **options: object) -> Tensor:
    """Compute :func:`omegamax.sparsemax` along the last axis."""
    return functional.sparsemax(x, -1)


def triton_entmax15(x: Tensor, **options: object) -> Tensor:
    """Compute :func:`omegamax.entmax15` along the last axis."""
    return functional.entmax15(x, -1)
