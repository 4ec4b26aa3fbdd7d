"""Compile the kernels of long rows that list their candidates for a GPU that need not be there; by test_compiles.py."""

from __future__ import annotations

import torch

from kernels.hopper import compile_kernel, compiled_launches
from omegamax.kernels.bounds.triton import launcher as bounds
from omegamax.kernels.bounds.triton.clip_long import clip_long_kernel, clip_vjp_long_kernel
from omegamax.kernels.choice import REGISTER_ROW
from omegamax.kernels.kinds import Kind
from omegamax.kernels.rows.triton import launcher as rows
from omegamax.kernels.rows.triton.normmax_long import normmax_power_long_kernel, normmax_vjp_long_kernel


def compiled(kernel, dtype: str, **constants) -> None:
    types = {name: "fp32" for name in ("alpha", "fraction", "lower", "upper", "integer", "rest")}
    types |= {name: f"*{dtype}" for name in ("z_ptr", "p_ptr", "g_ptr", "out_ptr")}
    types |= {"goal_ptr": "*fp32", "list_ptr": "*i32"}
    compile_kernel(kernel, types, constants, num_warps=8)


def main() -> None:
    sizes = {"DEPTH": 4, "BLOCK": 1024, "GROUP": 16, "LIST": 64}
    compiled(clip_long_kernel, "fp32", goal_ptr=None, PER_ROW=False, FLOOR=False, UNMASKED=False, **sizes)
    compiled(clip_long_kernel, "bf16", PER_ROW=True, FLOOR=True, UNMASKED=True, **sizes)
    compiled(clip_vjp_long_kernel, "bf16", BLOCK=1024)
    square = {"KIND": Kind.ENTMAX15.value, "N": 2, "FRACTIONAL": False, "ABOVE_2": False}
    compiled(normmax_power_long_kernel, "fp32", **square, UNMASKED=False, **sizes)
    above = {"KIND": Kind.ENTMAX_POWER.value, "N": 1, "FRACTIONAL": True, "ABOVE_2": True}
    compiled(normmax_power_long_kernel, "bf16", **above, UNMASKED=True, **sizes)
    compiled(normmax_vjp_long_kernel, "fp32", SQUARE=False, BLOCK=1024)
    with compiled_launches():
        z = torch.zeros(2, 10 * REGISTER_ROW)
        bounds.k_subsets(z, 2.0, 1)
        bounds.k_subsets_vjp(z, z, 1)
        for alpha in (2.0, 1.3):
            rows.normmax(z, alpha, 1)
        rows.normmax_vjp(z, z, 2.0, 1)


if __name__ == "__main__":
    main()
