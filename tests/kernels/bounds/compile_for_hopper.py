"""Compile the kernels of long rows that list their candidates for a GPU that need not be there; by test_compiles.py."""

from __future__ import annotations

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from omegamax.kernels.bounds.triton.clip_long import clip_long_kernel, clip_vjp_long_kernel
from omegamax.kernels.kinds import Kind
from omegamax.kernels.rows.triton.normmax_long import normmax_power_long_kernel, normmax_vjp_long_kernel

HOPPER = GPUTarget("cuda", 90, 32)


def compiled(kernel, dtype: str, **constants) -> None:
    types = {name: "fp32" for name in ("alpha", "fraction", "lower", "upper", "integer", "rest")}
    types |= {name: f"*{dtype}" for name in ("z_ptr", "p_ptr", "g_ptr", "out_ptr")}
    types |= {"goal_ptr": "*fp32", "list_ptr": "*i32"}
    signature = {
        name: "constexpr" if name in constants else types.get(name, "i32")  # counts and strides
        for name in kernel.arg_names
    }
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    binary = triton.compile(ASTSource(kernel, signature, places), HOPPER, {"num_warps": 8}).asm["cubin"]
    print(kernel.__name__, dtype, constants, len(binary), flush=True)


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


if __name__ == "__main__":
    main()
