"""Solvers and their vector-Jacobian products: plain torch everywhere, compiled C++ on the CPU.

Kernels take contiguous or strided scores, parameters with the rank of the scores, and the axis; they know nothing of
gradients, masks or half precision.
"""

from __future__ import annotations

from torch import Tensor

from omegamax.kernels import _dispatch
from omegamax.kernels._dispatch import backend as backend


def solve(op: str, z: Tensor, *rest) -> Tensor:
    """Run kernel ``op`` on ``(z, *parameters, dim)``."""
    return _dispatch.find(op, "cpu" if z.is_cpu else z.device.type)(z, *rest)
