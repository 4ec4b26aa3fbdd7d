"""Compile the Triton kernels for a GPU that need not be there; run by test_triton_compiles.py, in its own process."""

from __future__ import annotations

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from omegamax.kernels.triton import _long, _simplex

HOPPER = GPUTarget("cuda", 90, 32)
FORWARD = ("z_ptr", "p_ptr")
BACKWARD = ("p_ptr", "g_ptr", "out_ptr")


def compiled(kernel, tensors: tuple[str, ...], dtype: str, kind: int, per_row: bool, **sizes: int) -> None:
    constants = {"KIND": kind, "PER_ROW": per_row, **sizes, **({} if per_row else {"alpha_ptr": None})}
    types = {name: f"*{dtype}" for name in tensors} | {"alpha_ptr": "*fp32", "alpha": "fp32"}
    signature = {
        name: "constexpr" if name in constants else types.get(name, "i32")  # counts and strides
        for name in kernel.arg_names
    }
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    binary = triton.compile(ASTSource(kernel, signature, places), HOPPER, {"num_warps": 4}).asm["cubin"]
    print(kernel.__name__, dtype, kind, per_row, sizes, len(binary), flush=True)


KINDS = {
    name: getattr(_simplex, name).value for name in ("SPARSEMAX", "ENTMAX15", "ENTMAX", "NORMMAX", "SOFTMAX", "STEEP")
}


def main() -> None:
    for name, kind in KINDS.items():
        for per_row in (False, True) if name in ("NORMMAX", "STEEP") else (False,):
            compiled(_simplex.forward, FORWARD, "fp32", kind, per_row, R=2, BLOCK=256)
            compiled(_simplex.backward, BACKWARD, "bf16", kind, per_row, R=1, BLOCK=1024)
            if name != "STEEP":
                compiled(_long.forward, FORWARD, "bf16", kind, per_row, K=50000, BLOCK=1024)
            if name not in ("STEEP", "NORMMAX"):
                compiled(_long.backward, BACKWARD, "fp32", kind, per_row, K=50000, BLOCK=1024)


if __name__ == "__main__":
    main()
