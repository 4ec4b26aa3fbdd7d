"""Compile the kernels of moments for a GPU that need not be there; run by triton/test_compiles.py."""

from __future__ import annotations

import torch

from kernels.hopper import compiled_launches
from omegamax.kernels.moments.triton.launcher import moments, moments_vjp

F32, F64 = torch.float32, torch.float64


def compile_both(dtype: torch.dtype, length: int, n: int, masked: bool, normalised: bool) -> None:
    weights = torch.ones(3, length, dtype=dtype)
    working = torch.promote_types(dtype, F32)
    points = torch.ones(n, length, dtype=working) if n else None
    present = torch.ones(3, length, dtype=torch.bool) if masked else None
    found = moments(weights, present, points, torch.ones(n, dtype=working) if n else None, normalised)
    moments_vjp(weights, present, points, found.sums, found.mean, found.p, found.mean, found.covariance)


def main() -> None:
    with compiled_launches():
        for dtype, length, n, masked, normalised in [
            (F32, 196, 2, False, False),
            (F32, 196, 2, True, True),
            (F64, 5000, 2, True, False),
            (F32, 50, 1, False, True),
            (F64, 5000, 1, True, True),
            (torch.bfloat16, 1000, 3, True, True),
            (torch.float16, 5000, 4, False, False),
            (F32, 5000, 0, True, True),
        ]:
            compile_both(dtype, length, n, masked, normalised)


if __name__ == "__main__":
    main()
