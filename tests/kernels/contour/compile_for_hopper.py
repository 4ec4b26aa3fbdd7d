"""Compile the kernels of expectations for a GPU that need not be there; run by triton/test_compiles.py."""

from __future__ import annotations

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from omegamax.kernels.contour.reference import NODES
from omegamax.kernels.contour.triton.launcher import _constants
from omegamax.kernels.contour.triton.plane import contour_in_plane_kernel
from omegamax.kernels.gaussian.triton.plane import gaussian_in_plane_kernel

HOPPER = GPUTarget("cuda", 90, 32)


def compiled(kernel, dtype: str, **constants) -> None:
    signature = {
        name: "constexpr" if name in constants else f"*{dtype}" if name.endswith("_ptr") else "i32"
        for name in kernel.arg_names
    }
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    made = triton.compile(ASTSource(kernel, signature, places), HOPPER, {"num_warps": 4})
    # No number is rounded on its way; that the exponential compares the high half of one as a float is no matter.
    assert dtype == "fp32" or not re.search(r"cvt\S*\.f32\.f64|cvt\S*\.f64\.f32", made.asm["ptx"])
    print(kernel.__name__, dtype, constants, len(made.asm["cubin"]), flush=True)


def main() -> None:
    for dtype in ("fp32", "fp64"):
        for is_round in (True, False):
            compiled(gaussian_in_plane_kernel, dtype, ROUND=is_round, BLOCK=128)
        for alpha, factored in ((4 / 3, False), (2.0, True)):
            names = ("ALPHA", "M", "LOG_ALPHA", "LOG_GAMMA_SCALE")
            numbers = dict(zip(names, _constants(alpha), strict=True))
            count, step = NODES[dtype == "fp64"]
            sizes = {"FACTORED": factored, "NODES": count, "STEP": step, "BLOCK": 128}
            compiled(contour_in_plane_kernel, dtype, **numbers, **sizes)


if __name__ == "__main__":
    main()
