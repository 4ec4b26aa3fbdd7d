"""Call the compiled kernels of k-subsets, which share the row loop of entmax: C++ in ``cpp/k_subsets.h``."""

from __future__ import annotations

import functools

from torch import Tensor

from omegamax.kernels.kinds import Kind
from omegamax.kernels.rows.cpu import run_backward, run_forward

k_subsets = functools.partial(run_forward, Kind.K_SUBSETS)  # (z, k, dim)


def k_subsets_vjp(p: Tensor, g: Tensor, dim: int) -> Tensor:
    """Multiply ``g`` by the Jacobian of k-subsets at the output ``p``, which does not depend on k."""
    return run_backward(Kind.K_SUBSETS, p, g, 0.0, dim)
