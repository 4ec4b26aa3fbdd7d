"""Compile the kernels of expectations for a GPU that need not be there; run by triton/test_compiles.py."""

from __future__ import annotations

import re

from kernels.hopper import compile_kernel
from omegamax.kernels.contour import Form
from omegamax.kernels.contour.reference import NODES
from omegamax.kernels.contour.triton.launcher import make_constants
from omegamax.kernels.contour.triton.plane import contour_in_plane_kernel
from omegamax.kernels.gaussian.triton.line import gaussian_on_line_kernel, line_vjp_kernel, parabola_on_line_kernel
from omegamax.kernels.gaussian.triton.plane import gaussian_in_plane_kernel, plane_vjp_kernel


def compiled(kernel, dtype: str, **constants) -> None:
    types = {name: f"*{dtype}" for name in kernel.arg_names if name.endswith("_ptr")}
    made = compile_kernel(kernel, types, constants, num_warps=4)
    # No number is rounded on its way; that the exponential compares the high half of one as a float is no matter.
    assert dtype == "fp32" or not re.search(r"cvt\S*\.f32\.f64|cvt\S*\.f64\.f32", made.asm["ptx"])


def main() -> None:
    for dtype in ("fp32", "fp64"):
        for is_round in (True, False):
            compiled(gaussian_in_plane_kernel, dtype, ROUND=is_round, BLOCK=128)
        compiled(plane_vjp_kernel, dtype, BLOCK=128)
        compiled(gaussian_on_line_kernel, dtype, BLOCK=128)
        compiled(parabola_on_line_kernel, dtype, NODES=48, REACH=8.5, BLOCK=128)
        compiled(line_vjp_kernel, dtype, BLOCK=128)
        for alpha, form in ((4 / 3, Form.SIGMA), (2.0, Form.FACTOR), (1.5, Form.COVARIANCE)):
            names = ("ALPHA", "M", "LOG_ALPHA", "LOG_GAMMA_SCALE", "LOG_STRETCH")
            numbers = dict(zip(names, make_constants(alpha), strict=True))
            count, step = NODES[dtype == "fp64"]
            sizes = {"FORM": form.value, "NODES": count, "STEP": step, "BLOCK": 128}
            compiled(contour_in_plane_kernel, dtype, **numbers, **sizes)


if __name__ == "__main__":
    main()
