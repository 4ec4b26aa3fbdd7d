"""Compile the kernels of total variation for a GPU that need not be there; run by triton/test_compiles.py."""

from __future__ import annotations

import torch

from kernels.hopper import compiled_launches
from omegamax.kernels.choice import STRING_ROW
from omegamax.kernels.isotonic.triton.launcher import isotonic
from omegamax.kernels.variation.triton.launcher import tv_chain, tv_chain_vjp, tv_grid, tv_grid_vjp


def main() -> None:
    with compiled_launches():
        for size, dtype, per_row in (
            (20, torch.bfloat16, False),
            (1000, torch.float64, True),
            (STRING_ROW, torch.float32, False),
        ):
            x = torch.zeros(40, size, dtype=dtype)
            strength = torch.ones(40, 1, dtype=torch.float64) if per_row else 1.0
            tv_chain(x, strength, 1)
            tv_chain_vjp(x, x, strength, 1)
        for size in (256, STRING_ROW):
            isotonic(torch.zeros(40, size, dtype=torch.float64))
        for height, width, dtype, per_image in (
            (7, 7, torch.float32, True),
            (14, 14, torch.float32, False),
            (28, 28, torch.float64, True),
            (40, 40, torch.float64, False),
            (64, 64, torch.float32, True),
        ):
            x = torch.zeros(3, height, width, dtype=dtype)
            strength = torch.ones(3, 1, 1, dtype=torch.float64) if per_image else 1.0
            tv_grid(x, strength)
            tv_grid_vjp(x, x, strength)


if __name__ == "__main__":
    main()
