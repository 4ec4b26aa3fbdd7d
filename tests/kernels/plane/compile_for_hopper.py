"""Compile the kernels of the plane for a GPU that need not be there; run by triton/test_compiles.py."""

from __future__ import annotations

import torch

from kernels.hopper import compiled_launches
from omegamax.kernels.contour import Form
from omegamax.kernels.plane.triton.launcher import contour_of_weights, gaussian_of_weights, weights_vjp

F32, F64 = torch.float32, torch.float64


def compile_both(dtype: torch.dtype, length: int, count: int, alpha: float, round_: bool = True) -> None:
    weights = torch.ones(3, length, dtype=dtype)
    working = torch.promote_types(dtype, F32)
    points, floor, centers = torch.ones(2, length, dtype=working), torch.ones(2, dtype=working), torch.ones(count, 2)
    spread = torch.ones(count) if round_ else torch.ones(count, 2, 2)
    if alpha == 1:
        mean, covariance, both = gaussian_of_weights(weights, points, floor, centers, spread)
    else:
        settings = (alpha, Form.COVARIANCE, dtype == F64)
        mean, covariance, both = contour_of_weights(weights, points, floor, centers, spread, *settings)
    weights_vjp(weights, points, mean, both, both[:, 0], None, None)
    if alpha == 1:
        weights_vjp(weights, points, mean, both, both[:, 0], mean, covariance)


def main() -> None:
    with compiled_launches():
        compile_both(F32, 196, 100, 1.0)
        compile_both(F32, 196, 100, 2.0)
        compile_both(F32, 196, 9, 1.5)
        compile_both(torch.bfloat16, 5000, 300, 1.0, False)
        compile_both(F64, 5000, 100, 4 / 3)


if __name__ == "__main__":
    main()
