"""Compile the kernels of mixtures for a GPU that need not be there; run by triton/test_compiles.py."""

from __future__ import annotations

import re

from kernels.hopper import compile_kernel
from omegamax.kernels.mixtures.triton.em import em_kernel, em_vjp_kernel


def compiled(kernel, **constants) -> None:
    types = {name: "*fp64" for name in kernel.arg_names if name.endswith("_ptr")} | {"labels_ptr": "*i64"}
    made = compile_kernel(kernel, types, constants, num_warps=4)
    # No number is rounded on its way.
    assert not re.search(r"cvt\S*\.f32\.f64|cvt\S*\.f64\.f32", made.asm["ptx"])


def main() -> None:
    for kernel in (em_kernel, em_vjp_kernel):
        compiled(kernel, N=1, K=1, COMPONENTS=1, BLOCK=64)
        compiled(kernel, N=2, K=3, COMPONENTS=4, BLOCK=256)
        compiled(kernel, N=2, K=100, COMPONENTS=128, BLOCK=8)


if __name__ == "__main__":
    main()
