"""Compile the loss kernels for a GPU that need not be there; run by triton/test_compiles.py, in its own process."""

from __future__ import annotations

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from omegamax.kernels.losses.triton import long as long_kernels
from omegamax.kernels.losses.triton import soft, support_kernels
from omegamax.kernels.losses.triton import tile as tile_kernels
from omegamax.kernels.rows.triton import general

HOPPER = GPUTarget("cuda", 90, 32)
SCORES = ("z_ptr", "y_ptr", "out_ptr", "weight_ptr", "hidden_ptr")
NUMBERS = ("value_ptr", "state_ptr", "slope_ptr", "alpha_ptr", "g_ptr")
TYPES = {name: "*fp32" for name in NUMBERS} | {name: "fp32" for name in ("alpha", "smoothing", "slack")}
TYPES |= {"index_ptr": "*i64", "token_ptr": "*i64", "first_ptr": "*i64", "count_ptr": "*i32", "column_ptr": "*i32"}


def compiled(kernel, dtype: str, **constants) -> None:
    if constants.get("PER_ROW") is False:
        constants["alpha_ptr"] = None
    types = TYPES | {name: f"*{dtype}" for name in SCORES}
    signature = {name: "constexpr" if name in constants else types.get(name, "i32") for name in kernel.arg_names}
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    binary = triton.compile(ASTSource(kernel, signature, places), HOPPER, {"num_warps": 4}).asm["cubin"]
    print(kernel.__name__, dtype, constants, len(binary), flush=True)


def main() -> None:
    kinds = [getattr(general, name).value for name in ("SPARSEMAX", "ENTMAX15", "ENTMAX", "SOFTMAX", "STEEP")]
    for kind in kinds:
        steep = kind == kinds[-1]
        which = {"KIND": kind, "PER_ROW": steep}
        compiled(tile_kernels.forward, "fp32", **which, SMOOTH=steep, SLOPE=steep, R=2, BLOCK=256)
        compiled(tile_kernels.backward, "bf16", **which, R=1, BLOCK=1024)
        compiled(soft.forward, "bf16", **which, SLOPE=steep, BLOCK=256)
        compiled(soft.backward, "fp32", **which, R=2, BLOCK=256)
        compiled(support_kernels.listed, "bf16", **which, K=50000, BLOCK=256)
        if not steep:
            compiled(long_kernels.forward, "bf16", **which, SMOOTH=False, SLOPE=False, K=50000, BLOCK=256)
    learnt = {"KIND": kinds[2], "PER_ROW": True, "SMOOTH": True, "SLOPE": True}
    compiled(long_kernels.forward, "fp32", **learnt, K=50000, BLOCK=256)
    for kernel in (support_kernels.gathered, support_kernels.summed):
        compiled(kernel, "bf16", EACH=4, BLOCK=256)


if __name__ == "__main__":
    main()
