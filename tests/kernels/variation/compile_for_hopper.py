"""Compile the kernels of taut strings for a GPU that need not be there; run by triton/test_compiles.py."""

from __future__ import annotations

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from omegamax.kernels.isotonic.triton.regression import isotonic_kernel
from omegamax.kernels.tiles import STRING_REGISTERS, row_tile, string_tile
from omegamax.kernels.variation.triton.chain import chain_kernel, chain_vjp_kernel

HOPPER = GPUTarget("cuda", 90, 32)


def compiled(kernel, dtype: str, warps: int, registers: int | None = None, **constants) -> None:
    types = {"slot_ptr": "*fp64", "strength_ptr": "*fp64", "strength": "i64"}
    types |= {name: f"*{dtype}" for name in ("x_ptr", "w_ptr", "g_ptr", "out_ptr")}
    signature = {
        name: "constexpr" if name in constants else types.get(name, "i32")  # counts and strides
        for name in kernel.arg_names
    }
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    options = {"num_warps": warps} | ({} if registers is None else {"maxnreg": registers})
    binary = triton.compile(ASTSource(kernel, signature, places), HOPPER, options).asm["cubin"]
    print(kernel.__name__, dtype, constants, len(binary), flush=True)


def main() -> None:
    for size, dtype, per_row in ((20, "bf16", False), (1000, "fp32", False), (1000, "fp64", True)):
        rows, block, warps = string_tile(size)
        sizes = {"R": rows, "BLOCK": block, "PER_ROW": per_row} | ({} if per_row else {"strength_ptr": None})
        scale = 2.0**-16 if dtype == "fp64" else 1.0
        compiled(chain_kernel, dtype, warps, STRING_REGISTERS, SCALE=scale, **sizes)
        rows, block, warps = row_tile(size)
        compiled(chain_vjp_kernel, dtype, warps, **sizes | {"R": rows, "BLOCK": block})
    rows, block, warps = string_tile(256)
    compiled(isotonic_kernel, "fp64", warps, STRING_REGISTERS, R=rows, BLOCK=block)


if __name__ == "__main__":
    main()
